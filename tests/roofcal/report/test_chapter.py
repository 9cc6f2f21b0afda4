"""The chapter of a device: which sections and figures it has, under which ids."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from roofcal.report.chapter import Chapter
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Table
from roofcal.report.kit.charts import Picture
from roofcal.report.page import QUESTIONS, SECTIONS, PageError, sections_by_question


def test_the_line_for_a_terminal_decides_as_the_first_page_does(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = Chapter(analysis, "x")
    shape = "For 4,096 tokens and a weight of 28,672 x 8,192: "
    assert chapter.decision_line == f"{shape}no recipe can be ranked."
    sentences = ["Use fp8_axiswise: 1.88x bf16.", "Weak evidence: one card."]
    decision = SimpleNamespace(sentences=lambda: sentences)
    monkeypatch.setattr(chapter.shape_box, "decision", decision)
    assert chapter.decision_line == f"{shape}{' '.join(sentences)}"


def test_sections_stand_in_their_order_and_empty_ones_are_left_out(
    chapter: Chapter, bare_analysis: Analysis
) -> None:
    keys = [section.id.removeprefix("x-") for section in chapter.sections]
    assert keys == [section.key for section in SECTIONS if section.key in keys]
    assert {"constants", "provenance"} <= set(keys)
    assert "mixed" not in keys
    assert len(chapter.questions) == len(QUESTIONS)
    assert all(section.blocks for section in chapter.sections)
    ids = [chapter.id, *(section.id for section in chapter.sections)]
    ids += [block.id for block in chapter.blocks if isinstance(block, Picture | Table)]
    ids += [table.id for table in chapter.summary["tables"]]
    assert len(ids) == len(set(ids))
    of_bare = {f.id.split("-figure-")[1] for f in Chapter(bare_analysis, "cpu").figures}
    assert {"roofline-gemm", "speedup_cubes-gemm"} <= of_bare


@pytest.mark.parametrize("count", [0, 2])
def test_a_question_has_one_answer(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    (moved,) = sections_by_question()["changed"]
    silent = replace(moved, show=lambda _: ())
    sections = {"changed": [silent, *[moved] * count]}
    monkeypatch.setattr("roofcal.report.chapter.sections_by_question", lambda: sections)
    with pytest.raises(PageError, match=f"question 'changed' has {count} answers"):
        _ = Chapter(analysis, "x").questions
