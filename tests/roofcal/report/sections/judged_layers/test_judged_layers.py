"""The section is there with records of a judge alone, and shows the seed that was measured last."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.paths import RunFolder
from roofcal.judge.errors import error_sentences, errors_of_seed
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.section import CsvTable
from tests.roofcal.judge.records import JUDGED, SEED, h100, published_run
from tests.roofcal.report.chapters import shown_by

KEY = "judged-layers"


@pytest.fixture
def judged(tmp_path: Path) -> Analysis:
    shutil.copytree(JUDGED.folder, tmp_path / f"judged/seed{SEED}")
    for part in ("plan", "measurements"):  # with probes, on which rivals are fitted
        (tmp_path / part).symlink_to(published_run().folder / part)
    run = replace(published_run(), files=RunFolder.at(tmp_path))
    return Analysis(run=run, spec=h100(), frames={}, sessions={})


def test_a_sentence_of_each_op_stands_above_its_errors(judged: Analysis) -> None:
    items = shown_by(judged, KEY)
    errors = errors_of_seed(SEED, JUDGED, published_run(), h100())
    first, *sentences = [item.text for item in items if isinstance(item, Prose)]
    assert first.startswith("Seed 1 drew layers of public models that no study lists.")
    assert "on 2026-11-27. No fit reads these records." in first
    assert sentences == error_sentences(errors)
    (file,) = [item for item in items if isinstance(item, CsvTable)]
    (table,) = [item for item in items if isinstance(item, Table)]
    assert len(table.frame) == len(file.frame) == len(errors)
    assert list(file.labelled(judged).columns[:3]) == ["device", "environment_id", "seed"]


def test_the_file_has_all_seeds_and_the_page_the_last(judged: Analysis, tmp_path: Path) -> None:
    shutil.copytree(JUDGED.folder, tmp_path / "judged/seed9")
    items = shown_by(judged, KEY)
    (file,) = [item for item in items if isinstance(item, CsvTable)]
    (table,) = [item for item in items if isinstance(item, Table)]
    assert set(file.frame["seed"]) == {SEED, 9}
    assert set(table.frame["seed"]) == {9}


def test_without_records_of_a_judge_there_is_no_section(judged: Analysis, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "judged")
    assert shown_by(judged, KEY) == []
