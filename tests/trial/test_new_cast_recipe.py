"""A recipe of casts is one line of vocabulary and what its op's folder says of it."""

from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration, Measurement, Prediction
from tests.trial.edits import RECIPE
from tests.workflow.checkout import Checkout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="measures a CPU; this has a GPU"),
]


def test_the_report_shows_it(study: Checkout) -> None:
    assert RECIPE in study.text("results/report/details.html")


def test_it_is_measured_and_right(run: Path) -> None:
    rows = read_records(run / "measurements/cast.jsonl", Measurement)
    assert [row.status for row in rows] == ["ok", "ok"], [row.reason for row in rows]


def test_it_is_fitted_and_predicted(run: Path) -> None:
    (calibration,) = read_records(run / "calibration.jsonl", Calibration)
    assert f"cast.torch_eager.{RECIPE}.bytes_per_s" in calibration.constants
    predictions = read_records(run / "predictions/cast.jsonl", Prediction)
    # Tensorwise casts have no probes in the small study.
    assert [prediction.model for prediction in predictions] == ["calibrated"]
