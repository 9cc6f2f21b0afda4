"""An op is one folder, one line in the list and its sweep files: from plan to report on a CPU."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration, Measurement, Prediction
from tests.trial.edits import HERE, OF_THE_OP
from tests.workflow.checkout import Checkout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="measures a CPU; this has a GPU"),
]

NAME = "transpose.torch_eager.bf16"


def table(study: Checkout, name: str) -> pd.DataFrame:
    (path,) = study.folder.glob(f"results/report/tables/{name}.csv")
    return pd.read_csv(path)


def test_it_is_nine_files_at_most() -> None:
    folders = {"transpose": "*.py", "sweeps": "*.yaml"}
    files = [file for folder, kind in folders.items() for file in (HERE / folder).glob(kind)]
    assert len(files) + len(OF_THE_OP) <= 9


def test_its_points_and_those_of_its_probe_are_measured(run: Path) -> None:
    for op, count in (("transpose", 3), ("probe_transpose", 8)):
        rows = read_records(run / f"measurements/{op}.jsonl", Measurement)
        assert [row.status for row in rows] == ["ok"] * count, [row.reason for row in rows]


def test_its_constants_are_fitted_on_its_probe(run: Path) -> None:
    (calibration,) = read_records(run / "calibration.jsonl", Calibration)
    constants = {name for name in calibration.constants if name.startswith(f"{NAME}.")}
    assert constants == {
        f"{NAME}.{last}" for last in ("transpose_family", "fixed_s", "bytes_per_s")
    }
    assert calibration.probe_errors[NAME]["count"] == 8


def test_the_calibrated_model_predicts_it_with_intervals(run: Path) -> None:
    predictions = read_records(run / "predictions/transpose.jsonl", Prediction)
    assert [prediction.model for prediction in predictions] == ["calibrated"] * 3
    for prediction in predictions:
        assert prediction.low_s is not None
        assert prediction.low_s < prediction.total_s


def test_the_report_has_its_points_its_constants_and_its_figure(study: Checkout) -> None:
    assert "turns rows into columns" in study.text("results/report/report.html")
    points = table(study, "cpu-*[!e]_transpose")
    assert set(points["status"]) == {"ok"}
    assert points["predicted_s"].notna().all()
    constants = table(study, "constants").set_index("name")
    assert constants.loc[f"{NAME}.transpose_family", "choice"] in ("streamed", "padded_64")
    assert constants.loc[f"{NAME}.fixed_s", "label"] == "Start of a transpose"
    errors = table(study, "error_by_regime")
    assert "transpose" in set(errors["op"])
    figures = study.folder / "results/report/figures"
    assert list(figures.glob("*/*/measured_against_predicted.transpose.svg"))
