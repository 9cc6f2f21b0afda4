"""The index lists every publication, and is made of their files alone."""

import json
from pathlib import Path

from roofcal.core.jsonl import write_records
from roofcal.publish.index import claimed_twice, write_index
from roofcal.publish.manifest import write_manifest
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT


def test_a_publication_is_listed_with_and_without_a_manifest(tmp_path: Path) -> None:
    folder = tmp_path / ENVIRONMENT.device / ENVIRONMENT.environment_id
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    write_index(tmp_path)
    (row,) = json.loads((tmp_path / "index.json").read_text())["publications"]
    assert row["path"] == f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
    assert row["manifest"] is None

    write_manifest(folder, "c0ffee")
    write_index(tmp_path)
    first = (tmp_path / "index.json").read_bytes()
    (row,) = json.loads(first)["publications"]
    assert (row["commit"], row["files"]) == ("c0ffee", 1)
    page = (tmp_path / "index.html").read_text()
    assert f'href="{row["path"]}/report.html"' in page
    assert "c0ffee" in page
    write_index(tmp_path)
    assert (tmp_path / "index.json").read_bytes() == first


def test_two_folders_of_one_environment_are_named(tmp_path: Path) -> None:
    folder = tmp_path / ENVIRONMENT.device / ENVIRONMENT.environment_id
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    assert list(claimed_twice(tmp_path)) == []
    write_records(tmp_path / "copied/e1/environment.jsonl", [ENVIRONMENT])
    (problem,) = claimed_twice(tmp_path)
    name = f"{ENVIRONMENT.device}/{ENVIRONMENT.environment_id}"
    assert problem.startswith(f"{tmp_path}/copied/e1 and {folder} are both of {name}: keep the one")
