"""`publish`, `verify` and `site`: what they print and refuse, and exit codes 0, 2 and 3."""

import shutil
import subprocess
from pathlib import Path

import pytest

from roofcal.core.jsonl import append_record, read_records, write_records
from roofcal.core.manifest import NAME as MANIFEST
from roofcal.core.manifest import write_manifest
from roofcal.core.records import Measurement
from roofcal.publish.freeze import publish
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.models.runs import calibration
from tests.roofcal.published import judged_run, write_tables_alone
from tests.roofcal.report.synthetic import whole_run

NAME = f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
PUBLISHED = Path("reports/published")

pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.fixture(autouse=True)
def no_language_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The site of every publication would take three seconds for them."""
    monkeypatch.setattr("roofcal.core.paths.MODELS", Path("no-models"))


@pytest.fixture(autouse=True)
def _pages_of_one_test_alone(request: pytest.FixtureRequest) -> None:
    """Drawing the page of a publication takes a second."""
    if request.function is not test_the_folder_is_printed:
        request.getfixturevalue("undrawn")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a finished run and its publication, which tests copy."""
    root = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roofcal.publish.freeze.write_report", write_tables_alone)
        patch.chdir(root)
        folder = write_run(Path("results") / NAME)
        fitted = calibration(ENVIRONMENT.device, ENVIRONMENT.environment_id)
        write_records(folder / "calibration.jsonl", [fitted])
        publish(folder, PUBLISHED)
    return root


@pytest.fixture
def run(checkout: Path, made: Path) -> Path:
    """A finished run in a checkout that is no git checkout."""
    shutil.rmtree(PUBLISHED)
    shutil.copytree(made / "results", checkout / "results")
    return Path("results") / NAME


@pytest.fixture
def folder(run: Path, made: Path) -> Path:
    """Its publication, which holds as far as `--quick` looks."""
    shutil.copytree(made / PUBLISHED, PUBLISHED)
    return PUBLISHED / NAME


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(shell: Shell, run: Path) -> str:
    """What `publish` says; fails unless it left everything as it was."""
    before = content(PUBLISHED)
    message = shell.refused(f"publish --run {run}")
    assert content(PUBLISHED) == before
    return message


def test_the_folder_is_printed(run: Path, shell: Shell) -> None:
    assert shell.text(f"publish --run {run}") == f"{PUBLISHED / NAME}\n"
    assert f'href="{NAME}/report.html"' in (PUBLISHED / "index.html").read_text()
    shell.text("verify --quick")
    assert shell.text("site --out hosted") == "hosted/index.html\n"
    assert (Path("hosted") / NAME / "report.html").is_file()


def test_a_site_that_leaves_everything_out_fails_and_says_so(folder: Path, shell: Shell) -> None:
    (folder / "calibration.jsonl").write_text("cut")
    assert shell.run("site --out hosted") == 2
    assert f"left out of the site: {NAME}: " in shell.err
    first = Path("hosted/index.html").read_text()
    assert "No publication is shown" in first
    assert "Nothing is published yet" not in first


def test_records_of_a_judge_are_published_and_all_is_derived_anew_in_place(
    run: Path, folder: Path, shell: Shell, tmp_path: Path
) -> None:
    made_up = (folder / "calibration.jsonl").read_bytes()
    shutil.rmtree(run)
    judged = judged_run(tmp_path, 7)
    assert shell.text(f"publish --judged {judged}") == f"{folder}\n"
    assert (folder / "calibration.jsonl").read_bytes() != made_up
    assert (folder / "judged/seed7/measurements/gemm.jsonl.gz").is_file()
    assert (folder / "tables/judged_errors.csv").is_file()
    assert shell.text(f"verify --quick {folder}") == f"{folder}: holds (quick)\n"


def test_a_run_without_records_or_with_records_that_are_cut_off_is_refused(
    run: Path, shell: Shell
) -> None:
    Path("results/made-up/e9").mkdir(parents=True)
    assert "results/made-up/e9" in refused(shell, Path("results/made-up/e9"))
    path = run / "measurements/probe_launch.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}:" in refused(shell, run)


def test_a_dirty_checkout_is_refused(run: Path, checkout: Path, shell: Shell) -> None:
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for asked in (["init"], ["add", "."], [*author, "commit", "-m", "Begin"]):
        subprocess.run(["git", *asked], cwd=checkout, check=True, capture_output=True)
    (checkout / "code.py").write_text("1\n")
    subprocess.run(["git", "add", "code.py"], cwd=checkout, check=True, capture_output=True)
    assert "error: code.py: not as in the commit" in refused(shell, run)


def test_predictions_beyond_the_limit_are_refused(checkout: Path, shell: Shell) -> None:
    run = whole_run().write(checkout / "results")
    assert "op cast: the calibrated model is 50.0% off" in refused(shell, run)


def test_other_measurements_and_fewer_of_an_environment_are_refused(
    run: Path, folder: Path, shell: Shell
) -> None:
    path = run / "measurements/probe_launch.jsonl"
    whole = path.read_bytes()
    append_record(path, read_records(path, Measurement)[0])
    assert "holds other measurements of this environment" in refused(shell, run)
    path.write_bytes(whole)
    (run / "plan/probe_launch.jsonl").unlink()
    path.unlink()
    said = "probe_launch.jsonl.gz would be lost: this run has no such measurements"
    assert said in refused(shell, run)


def test_two_publications_of_one_environment_are_refused_and_named(
    run: Path, folder: Path, shell: Shell
) -> None:
    copy = PUBLISHED / "copied/e1"
    shutil.copytree(folder, copy)
    both = f"{copy} and {folder} are both of {NAME}"
    assert both in refused(shell, run)
    assert shell.run("verify --quick") == 2
    assert f"error: {both}: keep" in shell.err


def test_all_publications_are_verified_and_one_without_a_manifest_is_3(
    folder: Path, shell: Shell
) -> None:
    assert shell.text("verify --quick") == f"{folder}: holds (quick)\n"
    (folder / MANIFEST).unlink()
    assert shell.run(f"verify --quick {folder}") == 3
    assert "no manifest: published before manifests; publish it again" in shell.out


def test_what_does_not_hold_is_named_and_exit_code_2(folder: Path, shell: Shell) -> None:
    table = folder / "tables/quality.csv"
    table.write_text(table.read_text() + "more\n")
    assert shell.run("verify --quick") == 2
    assert f"error: {table}: SHA-256" in shell.err
    write_manifest(folder, None)
    assert shell.run("verify --quick") == 2
    assert f"error: {table}:" in shell.err
