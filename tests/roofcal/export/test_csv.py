"""The CSV reads back to the same bits."""

import io

import pandas as pd

from roofcal.export.csv import write
from roofcal.export.rows import COLUMNS
from tests.roofcal.export.subjects import h200


def test_a_data_frame_holds_every_constant_to_the_last_bit() -> None:
    frame = pd.read_csv(io.StringIO(write(h200())))
    assert tuple(frame.columns) == ("device", "environment_id", *COLUMNS)
    found = h200().calibration
    assert set(frame["environment_id"]) == {found.environment_id}
    assert len(frame) == len(found.constants)
    for line in frame.to_dict("records"):
        constant = found.constants[line["name"]]
        numbers = (line["value"], line["ci95_low"], line["ci95_high"])
        assert numbers == (constant.value, constant.ci95_low, constant.ci95_high)
        assert (line["unit"], line["evidence"]) == (constant.unit, constant.evidence)
