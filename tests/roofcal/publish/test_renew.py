"""Derived files of a publication made anew: the records stay, everything else is today's."""

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_single_record, write_records
from roofcal.core.manifest import write_manifest
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration
from roofcal.publish.freeze import PublishError, publish
from roofcal.publish.renew import run_folders_anew
from roofcal.publish.verify import verify
from tests.roofcal.published import DESCRIPTIONS

MATH = "measurements/probe_math.jsonl.gz"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    target = tmp_path / "published" / made.parent.name / made.name
    shutil.copytree(made, target)
    return target


def test_files_derived_by_other_code_become_those_of_this_code(
    folder: Path, made: Path, tmp_path: Path
) -> None:
    """Those of this code are those of `made`, which holds in full: see test_verify."""
    file = RunFolder.at(folder).calibration_file
    older = replace(read_single_record(file, Calibration), seed=99)
    write_records(file, [older])
    (folder / "breakeven.csv").unlink()
    write_manifest(folder, "c0ffee")

    (run,) = run_folders_anew([folder], tmp_path / "place", DESCRIPTIONS)
    publish(run, folder.parent.parent, DESCRIPTIONS.devices)

    assert verify(folder, DESCRIPTIONS, quick=True).state == "holds"
    assert (folder / "llm.csv").is_file()
    for name in ("calibration.jsonl", "breakeven.csv", MATH):
        assert (folder / name).read_bytes() == (made / name).read_bytes(), name


def test_records_that_are_not_those_of_the_manifest_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    text = gzip.decompress((folder / MATH).read_bytes()).replace(b'"ok"', b'"failed"', 1)
    (folder / MATH).write_bytes(gzip.compress(text, mtime=0))
    with pytest.raises(PublishError, match=f"{MATH}: SHA-256 is not that of the manifest"):
        run_folders_anew([folder], tmp_path / "place", DESCRIPTIONS)
