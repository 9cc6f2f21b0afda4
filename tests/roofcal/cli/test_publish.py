"""`publish`: prints the folder it made; what it refuses is one message, and nothing was changed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import append_record, read_records, write_records
from roofcal.core.records import Measurement
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.models.runs import calibration
from tests.roofcal.report.synthetic import whole_run

NAME = f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
PUBLISHED = Path("reports/published")


@pytest.fixture
def run(checkout: Path) -> Path:
    """A finished run in a checkout that is no git checkout."""
    shutil.rmtree(PUBLISHED)
    folder = write_run(Path("results") / NAME)
    fitted = calibration(ENVIRONMENT.device, ENVIRONMENT.environment_id)
    write_records(folder / "calibration.jsonl", [fitted])
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(capsys: pytest.CaptureFixture[str], run: Path) -> str:
    """What `publish` says; fails unless it is exit code 2 and left everything as it was."""
    before = content(PUBLISHED)
    assert main(["publish", "--run", str(run)]) == 2
    assert content(PUBLISHED) == before
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    return said.err


def test_the_folder_is_printed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", "--run", str(run)]) == 0
    assert capsys.readouterr().out == f"{PUBLISHED / NAME}\n"
    assert main(["verify", "--quick"]) == 0


def test_a_run_without_records_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "results/made-up/e9").mkdir(parents=True)
    assert "results/made-up/e9" in refused(capsys, Path("results/made-up/e9"))


def test_a_dirty_checkout_is_refused(
    run: Path, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "code.py").write_text("1\n")
    for asked in (["init"], ["add", "code.py"]):
        subprocess.run(["git", *asked], cwd=checkout, check=True, capture_output=True)
    assert "error: code.py: not as in the commit" in refused(capsys, run)


def test_predictions_beyond_the_limit_are_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whole_run().write(checkout / "results")
    assert "op cast: the calibrated model is 50.0% off" in refused(capsys, run)


def test_an_environment_with_other_measurements_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", "--run", str(run)]) == 0
    capsys.readouterr()
    path = run / "measurements/probe_launch.jsonl"
    append_record(path, read_records(path, Measurement)[0])
    assert "holds other measurements of this environment" in refused(capsys, run)


def test_an_environment_of_which_measurements_would_be_lost_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", "--run", str(run)]) == 0
    capsys.readouterr()
    (run / "plan/probe_launch.jsonl").unlink()
    (run / "measurements/probe_launch.jsonl").unlink()
    said = refused(capsys, run)
    assert "probe_launch.jsonl.gz would be lost: this run has no such measurements" in said


def test_two_publications_of_one_environment_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", "--run", str(run)]) == 0
    capsys.readouterr()
    shutil.copytree(PUBLISHED / NAME, PUBLISHED / "copied/e1")
    said = refused(capsys, run)
    assert f"{PUBLISHED}/copied/e1 and {PUBLISHED / NAME} are both of {NAME}" in said


def test_records_that_are_cut_off_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "measurements/probe_launch.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}:" in refused(capsys, run)
