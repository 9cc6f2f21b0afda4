"""`verify`: a line per publication, and exit codes 0, 2 and 3."""

import shutil
from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import write_records
from roofcal.core.manifest import NAME, write_manifest
from roofcal.publish.freeze import publish
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.models.runs import calibration
from tests.roofcal.published import DESCRIPTIONS


@pytest.fixture
def folder(checkout: Path, undrawn: None) -> Path:
    """A publication in a checkout, its calibration made up; it holds as far as `--quick` looks."""
    run = write_run(checkout / "results" / ENVIRONMENT.device / ENVIRONMENT.environment_id)
    fitted = calibration(ENVIRONMENT.device, ENVIRONMENT.environment_id)
    write_records(run / "calibration.jsonl", [fitted])
    return publish(run, Path("reports/published"), DESCRIPTIONS.devices)


def test_all_publications_are_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--quick"]) == 0
    assert capsys.readouterr().out == f"{folder}: holds (quick)\n"


def test_one_without_a_manifest_is_an_outcome_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / NAME).unlink()
    assert main(["verify", "--quick", str(folder)]) == 3
    assert "no manifest: published before manifests; publish it again" in capsys.readouterr().out


def test_what_does_not_hold_is_named_and_exit_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = folder / "tables/quality.csv"
    table.write_text(table.read_text() + "more\n")
    assert main(["verify", "--quick"]) == 2
    assert f"error: {table}: SHA-256" in capsys.readouterr().err
    write_manifest(folder, None)
    assert main(["verify", "--quick"]) == 2
    assert f"error: {table}:" in capsys.readouterr().err


def test_a_truncated_archive_is_named_and_nothing_is_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = folder / "measurements/probe_math.jsonl.gz"
    archive.write_bytes(archive.read_bytes()[:-200])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["verify", "--quick"]) == 2
    said = capsys.readouterr().err
    assert f"error: {archive}" in said
    assert "cut off or damaged" in said
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_two_publications_of_one_environment_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = folder.parents[1] / "copied/e1"
    shutil.copytree(folder, copy)
    assert main(["verify", "--quick"]) == 2
    name = f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
    assert f"error: {copy} and {folder} are both of {name}: keep" in capsys.readouterr().err
