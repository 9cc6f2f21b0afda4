"""The JSON is what any JSON reader takes."""

import json
from dataclasses import replace
from math import inf

import pytest

from roofcal.export.document import document
from roofcal.export.errors import ExportError
from roofcal.export.json import write
from tests.roofcal.export.subjects import h200


def test_it_reads_back_to_the_same_numbers() -> None:
    assert json.loads(write(h200())) == document(h200(), "json")


def test_an_infinite_number_is_refused_with_the_way_out() -> None:
    found = h200().calibration
    endless = replace(found.constants["launch_graph_s"], ci95_high=inf)
    constants = {**found.constants, "launch_graph_s": endless}
    with pytest.raises(ExportError, match=r"infinite numbers.*export yaml or csv"):
        write(replace(h200(), calibration=replace(found, constants=constants)))
