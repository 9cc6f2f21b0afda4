"""A manifest names every file by its SHA-256, and what is not as it says."""

import hashlib
import json
from pathlib import Path

import pytest

from roofcal.core.manifest import NAME, ManifestError, differences, read_manifest, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "made-up/e1"
    (target / "plan").mkdir(parents=True)
    (target / "plan/a.jsonl.gz").write_bytes(b"a")
    (target / "b.csv").write_bytes(b"b\n")
    write_manifest(target, "c0ffee")
    return target


def said(folder: Path) -> list[str]:
    manifest = read_manifest(folder)
    assert manifest is not None
    return list(differences(folder, manifest))


def test_every_file_is_there_with_its_hash(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest is not None
    digest = hashlib.sha256(b"b\n").hexdigest()
    assert manifest["files"]["b.csv"] == {"sha256": digest, "bytes": 2}
    assert set(manifest["files"]) == {"b.csv", "plan/a.jsonl.gz"}
    assert manifest["commit"] == "c0ffee"
    assert said(folder) == []
    assert read_manifest(folder.parent) is None
    before = (folder / NAME).read_bytes()
    write_manifest(folder, "c0ffee")
    assert (folder / NAME).read_bytes() == before


def test_an_edited_a_missing_and_a_foreign_file_and_a_renamed_folder_are_named(
    folder: Path,
) -> None:
    (folder / "b.csv").write_bytes(b"c\n")
    (folder / "plan/a.jsonl.gz").unlink()
    (folder / "new.csv").write_bytes(b"")
    moved = folder.rename(folder.parent / "e2")
    renamed, edited, foreign, gone = said(moved)
    assert "is of made-up/e1, not of its folder" in renamed
    assert edited.startswith(f"{moved}/b.csv: SHA-256")
    assert foreign.startswith(f"{moved}/new.csv: is in no manifest")
    assert gone.startswith(f"{moved}/plan/a.jsonl.gz: is in the manifest and not there")


@pytest.mark.parametrize("text", ["{", "[]", '{"files": 3}', "null"])
def test_a_damaged_or_newer_manifest_is_refused(folder: Path, text: str) -> None:
    newer = json.loads((folder / NAME).read_text()) | {"schema_version": 2}
    (folder / NAME).write_text(text)
    with pytest.raises(ManifestError, match=r"manifest\.json: is no manifest"):
        read_manifest(folder)
    (folder / NAME).write_text(json.dumps(newer))
    with pytest.raises(ManifestError, match="schema version 2"):
        read_manifest(folder)
