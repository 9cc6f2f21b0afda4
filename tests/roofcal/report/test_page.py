"""Questions with their answers and sections, and the chapter of a device."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from roofcal.report.chapter import Chapter
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import FOLDER_OF_SECTIONS
from roofcal.report.kit.blocks import Table
from roofcal.report.kit.charts import Picture
from roofcal.report.page import QUESTIONS, SECTIONS, PageError, sections_by_question
from tests.roofcal.report.chapters import ANCHOR


def test_every_folder_of_a_section_is_in_the_list() -> None:
    folders = {path.parent for path in FOLDER_OF_SECTIONS.glob("*/__init__.py")}
    assert {section.folder for section in SECTIONS} == folders
    assert len(SECTIONS) == len(folders)


def test_a_section_without_a_question_or_a_key_of_its_own_is_an_error() -> None:
    lost = replace(SECTIONS[0], key="lost", question="nobody asks this")
    with pytest.raises(PageError, match="section 'lost' stands under no question: 'nobody asks"):
        sections_by_question([*SECTIONS, lost])
    with pytest.raises(PageError, match="two sections have the key 'breakeven'"):
        sections_by_question([*SECTIONS, SECTIONS[0]])


def test_all_questions_are_there_each_with_one_section_that_answers_it() -> None:
    placed = sections_by_question().items()
    assert [question for question, _ in placed] == list(QUESTIONS)
    assert [section for _, sections in placed for section in sections] == list(SECTIONS)


def answers(chapter: Chapter) -> dict[str, str]:
    return {q.id.removeprefix("x-"): q.answer for q in chapter.questions}


def test_answers_come_from_the_data_and_are_open_where_records_cannot_answer(
    analysis: Analysis, chapter: Chapter
) -> None:
    sentences = answers(chapter)
    assert "It depends on the shape: fp8_tensorwise products are 1." in sentences["recipe"]
    assert "no publication of nvidia-h200" in sentences["healthy"]
    assert sentences["changed"].startswith("Nothing to compare with")
    assert "Predicted times of gemm are " in sentences["trust"]
    assert sentences["ledger"].startswith("Not judged on this page; `roofcal claims`")
    sessions = len(analysis.all_sessions)
    assert f"{sessions} sessions timed {analysis.timed} points" in sentences["how"]
    open_ones = {q.id.removeprefix("x-") for q in chapter.questions if q.is_open}
    assert open_ones == {"weights", "models", "healthy", "changed", "ledger"}


def test_a_bare_run_says_what_cannot_be_told(bare_analysis: Analysis) -> None:
    sentences = answers(Chapter(bare_analysis, ANCHOR))
    assert all(answer.endswith(".") for answer in sentences.values())
    assert "no publication of cpu-made-up" in sentences["healthy"]
    assert "predicted no point" in sentences["trust"]
    assert "the run is not calibrated" in sentences["roofs"]


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
