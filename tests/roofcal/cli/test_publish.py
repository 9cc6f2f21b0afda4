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

pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.fixture(autouse=True)
def no_language_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site of every publication would take three seconds for them."""
    monkeypatch.setattr("roofcal.core.paths.MODELS", tmp_path / "no-models")


@pytest.fixture(autouse=True)
def _pages_of_one_test_alone(request: pytest.FixtureRequest) -> None:
    """Drawing the page of a publication takes a second."""
    if request.function is not test_the_folder_is_printed:
        request.getfixturevalue("undrawn")


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
    assert f'href="{NAME}/report.html"' in (PUBLISHED / "index.html").read_text()
    assert main(["verify", "--quick"]) == 0
    capsys.readouterr()
    assert main(["site", "--out", "hosted"]) == 0
    assert capsys.readouterr().out == "hosted/index.html\n"
    assert (Path("hosted") / NAME / "report.html").is_file()


def test_a_site_that_leaves_everything_out_fails_and_says_so(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", "--run", str(run)]) == 0
    (PUBLISHED / NAME / "calibration.jsonl").write_text("cut")
    assert main(["site", "--out", "hosted"]) == 2
    assert f"left out of the site: {NAME}: " in capsys.readouterr().err
    first = Path("hosted/index.html").read_text()
    assert "No publication is shown" in first
    assert "Nothing is published yet" not in first


def test_a_publication_is_derived_anew_in_place(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", "--run", str(run)]) == 0
    made_up = (PUBLISHED / NAME / "calibration.jsonl").read_bytes()
    shutil.rmtree(run)
    assert main(["publish", "--again", str(PUBLISHED / NAME)]) == 0
    assert capsys.readouterr().out == f"{PUBLISHED / NAME}\n" * 2
    assert (PUBLISHED / NAME / "calibration.jsonl").read_bytes() != made_up
    assert main(["verify", "--quick"]) == 0


def test_a_run_without_records_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "results/made-up/e9").mkdir(parents=True)
    assert "results/made-up/e9" in refused(capsys, Path("results/made-up/e9"))


def test_a_dirty_checkout_is_refused(
    run: Path, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for asked in (["init"], ["add", "."], [*author, "commit", "-m", "Begin"]):
        subprocess.run(["git", *asked], cwd=checkout, check=True, capture_output=True)
    (checkout / "code.py").write_text("1\n")
    subprocess.run(["git", "add", "code.py"], cwd=checkout, check=True, capture_output=True)
    assert "error: code.py: not as in the commit" in refused(capsys, run)


def test_predictions_beyond_the_limit_are_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whole_run().write(checkout / "results")
    assert "op cast: the calibrated model is 50.0% off" in refused(capsys, run)


@pytest.fixture
def published_run(run: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The run, of which a publication stands already."""
    assert main(["publish", "--run", str(run)]) == 0
    capsys.readouterr()
    return run


def test_an_environment_with_other_measurements_is_refused(
    published_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = published_run / "measurements/probe_launch.jsonl"
    append_record(path, read_records(path, Measurement)[0])
    assert "holds other measurements of this environment" in refused(capsys, published_run)


def test_an_environment_of_which_measurements_would_be_lost_is_refused(
    published_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (published_run / "plan/probe_launch.jsonl").unlink()
    (published_run / "measurements/probe_launch.jsonl").unlink()
    said = refused(capsys, published_run)
    assert "probe_launch.jsonl.gz would be lost: this run has no such measurements" in said


def test_two_publications_of_one_environment_are_refused(
    published_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(PUBLISHED / NAME, PUBLISHED / "copied/e1")
    said = refused(capsys, published_run)
    assert f"{PUBLISHED}/copied/e1 and {PUBLISHED / NAME} are both of {NAME}" in said


def test_records_that_are_cut_off_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "measurements/probe_launch.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}:" in refused(capsys, run)
