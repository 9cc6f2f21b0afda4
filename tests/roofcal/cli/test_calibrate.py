"""`calibrate`: a run folder's probes to a file of constants."""

from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run


@pytest.mark.usefixtures("few_resamples")
def test_the_calibration_names_the_environment_it_was_fitted_on(checkout: Path) -> None:
    run = write_run(checkout / "results/made-up/e1", noise=0.01)
    assert main(["calibrate", "--run", str(run), "--out", "deep/calibration.jsonl"]) == 0
    (fitted,) = read_records(checkout / "deep/calibration.jsonl", Calibration)
    assert fitted.environment_id == ENVIRONMENT.environment_id
    assert fitted.constants
