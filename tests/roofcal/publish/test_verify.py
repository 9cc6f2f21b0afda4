"""Publications that hold, and every way in which one does not, named."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.manifest import NAME, write_manifest
from roofcal.publish import verify as verify_module
from roofcal.publish.verify import Outcome, verify

MATH = "measurements/probe_math.jsonl.gz"


def quickly(folder: Path) -> Outcome:
    return verify(folder, quick=True)


def test_without_a_manifest_the_rest_is_checked(folder: Path) -> None:
    (folder / NAME).unlink()
    assert quickly(folder).state == "no manifest"
    (folder / MATH).write_bytes((folder / MATH).read_bytes()[:-100])
    assert quickly(folder).state == "does not hold"


def test_records_edited_together_with_the_manifest_no_longer_give_the_calibration(
    folder: Path,
) -> None:
    text = gzip.decompress((folder / MATH).read_bytes())
    (folder / MATH).write_bytes(gzip.compress(text.replace(b'"ok"', b'"failed"', 3), mtime=0))
    write_manifest(folder, "c0ffee")
    problems = verify(folder).problems
    assert any(f"{folder}/calibration.jsonl:1: published" in problem for problem in problems)
    assert any("tables/" in problem for problem in problems)


def test_a_file_that_the_records_do_not_give_is_named_and_another_last_digit_is_a_note(
    folder: Path,
) -> None:
    path, calibration = folder / "breakeven.csv", folder / "calibration.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, "more\n"]))
    value = next(iter(json.loads(calibration.read_text())["constants"].values()))["value"]
    digits = str(value * (1 + 1e-9))
    calibration.write_text(calibration.read_text().replace(str(value), digits, 1))
    assert digits in calibration.read_text()
    write_manifest(folder, "c0ffee")

    outcome = verify(folder)

    assert outcome.problems[0].startswith(f"{path}:{len(lines) + 1}: published 'more'")
    assert f"{calibration}: other last digits" in outcome.notes[0]


def test_the_manifest_alone_vouches_for_files_that_earlier_versions_published(folder: Path) -> None:
    (folder / "learning.csv").write_text("op,recipe\n")
    (folder / "tables/learning.csv").write_text("op,recipe\n")
    write_manifest(folder, "c0ffee")
    assert quickly(folder).state == "holds"
    (folder / "learning.csv").write_text("op,recipe\ngemm,bf16\n")
    (problem,) = quickly(folder).problems
    assert problem.startswith(f"{folder}/learning.csv: SHA-256 is not that of the manifest")


def test_an_op_without_a_row_is_no_whole_record(folder: Path) -> None:
    (folder / NAME).unlink()
    (folder / MATH).write_bytes(gzip.compress(b"", mtime=0))
    outcome = quickly(folder)
    assert outcome.state == "does not hold"
    assert any(f"{folder}/{MATH}: holds no measurement of its plan" in p for p in outcome.problems)


def test_an_environment_in_the_folder_of_another_is_named(folder: Path) -> None:
    moved = folder.rename(folder.parent / "other")
    problems = quickly(moved).problems
    assert any("environment.jsonl: describes" in problem for problem in problems)
    assert any("manifest.json: is of" in problem for problem in problems)


def test_a_damaged_manifest_is_a_problem_and_no_missing_one(folder: Path) -> None:
    (folder / NAME).write_text("{")
    outcome = quickly(folder)
    assert outcome.state == "does not hold"
    assert "is no manifest" in outcome.problems[0]


def test_a_table_that_no_page_can_be_drawn_from_is_a_problem_of_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(*_: Any) -> dict[str, str]:
        raise KeyError("environment")

    monkeypatch.setattr(verify_module, "tables_of_run", draw)
    (problem,) = quickly(folder).problems
    assert problem == f"{folder}: its tables cannot be made again: KeyError: 'environment'"
