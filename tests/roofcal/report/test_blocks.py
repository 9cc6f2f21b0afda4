"""What stands in the sections of a chapter, and what is said where something is missing."""

from pathlib import Path

import pytest

from roofcal.report.chapter import Writer
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.loading import load_run
from roofcal.report.kit.blocks import Chapter, Prose, Table


@pytest.fixture(scope="module")
def chapter(analysis: Analysis) -> Chapter:
    return Writer(analysis, "h200", 0).chapter()


@pytest.fixture(scope="module")
def bare_chapter(bare: Path) -> Chapter:
    return Writer(analyse(load_run(bare), None), "cpu", 1).chapter()


def blocks(chapter: Chapter, section: str) -> list[object]:
    (found,) = [s for s in chapter.sections if s.id == f"{chapter.id}-{section}"]
    return list(found.blocks)


def test_all_points_of_all_ops_are_listed(chapter: Chapter, analysis: Analysis) -> None:
    tables = [block for block in blocks(chapter, "points") if isinstance(block, Table)]
    assert [table.total for table in tables] == [len(f) for f in analysis.frames.values()]


def test_points_without_a_time_are_listed_with_their_reason(chapter: Chapter) -> None:
    counted, every = [b for b in blocks(chapter, "missing") if isinstance(b, Table)]
    assert every.total == 4
    assert "the worker died (signal SIGSEGV) at &lt;0x0&gt;" in every.body
    assert counted.total == 4


def test_the_worst_points_come_first(chapter: Chapter) -> None:
    (worst,) = [
        b
        for b in blocks(chapter, "accuracy")
        if isinstance(b, Table) and b.id.endswith("worst-gemm")
    ]
    assert worst.total == 20
    assert "+10.0" in worst.body.split("</tr>")[0]


def test_a_bare_run_says_what_it_lacks(bare_chapter: Chapter) -> None:
    said = {
        section.id: [b.text for b in section.blocks if isinstance(b, Prose)]
        for section in bare_chapter.sections
    }

    assert said["cpu-constants"] == ["This run is not calibrated: it has no calibration.jsonl."]
    assert said["cpu-accuracy"] == ["Nothing was predicted in this run."]
    assert said["cpu-bandwidth"] == ["The memory probe was not measured."]
    assert said["cpu-audit"][-1] == "There is none."
    assert said["cpu-methods"] == ["This run has no method panel."]
    assert said["cpu-missing"] == ["Every planned point was measured."]
    assert "The plan of cast is empty." in said["cpu-points"]
