"""Publications that claim one environment, and what index.json says of each."""

from pathlib import Path

from roofcal.core.jsonl import write_records
from roofcal.core.manifest import write_manifest
from roofcal.core.paths import RunFolder
from roofcal.publish.index import claimed_twice, publication_row
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT


def test_a_publication_has_a_row_with_and_without_a_manifest(tmp_path: Path) -> None:
    folder = tmp_path / ENVIRONMENT.device / ENVIRONMENT.environment_id
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    row = publication_row(RunFolder.at(folder))
    assert row["path"] == f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
    assert row["manifest"] is None
    write_manifest(folder, "c0ffee")
    row = publication_row(RunFolder.at(folder))
    assert (row["commit"], row["files"]) == ("c0ffee", 1)


def test_two_folders_of_one_environment_are_named(tmp_path: Path) -> None:
    folder = tmp_path / ENVIRONMENT.device / ENVIRONMENT.environment_id
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    assert list(claimed_twice(tmp_path)) == []
    write_records(tmp_path / "copied/e1/environment.jsonl", [ENVIRONMENT])
    (problem,) = claimed_twice(tmp_path)
    name = f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
    assert problem.startswith(f"{tmp_path}/copied/e1 and {folder} are both of {name}: keep the one")
