"""Six questions, each with its answer; every section stands under exactly one."""

from collections import Counter
from pathlib import Path

from roofcal.report.chapter import SECTIONS
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.loading import load_run
from roofcal.report.kit.blocks import Section
from roofcal.report.questions import ANSWERS, QUESTIONS, questions


def test_questions_name_sections_that_exist_and_none_twice() -> None:
    named = Counter(key for _, _, keys in QUESTIONS for key in keys)
    assert set(named) <= {key for key, _, _ in SECTIONS}
    assert max(named.values()) == 1
    assert list(ANSWERS) == [key for key, _, _ in QUESTIONS]


def test_all_six_are_there_and_no_section_is_lost(analysis: Analysis) -> None:
    keys = [key for key, _, _ in SECTIONS] + ["new"]
    sections = [(key, Section(id=f"x-{key}", title=key, blocks=())) for key in keys]
    found = questions(analysis, "x", sections)
    assert len(found) == 6
    placed = [section.title for question in found for section in question.sections]
    assert sorted(placed) == sorted(keys)
    assert found[0].sections[-1].title == "new"


def test_answers_come_from_the_data(analysis: Analysis) -> None:
    found = {
        question.id.removeprefix("x-"): question.answer for question in questions(analysis, "x", [])
    }
    assert "fp8_tensorwise gains most over bf16: 1.9" in found["recipe"]
    assert "no publication of nvidia-h200" in found["healthy"]
    assert found["changed"].startswith("Nothing to compare with")
    assert "Times of gemm are off by" in found["trust"]
    assert found["ledger"].startswith("Not judged on this page; `python -m roofcal claims`")
    assert (
        f"{analysis.timed} points timed by {len(analysis.every_session)} sessions" in found["how"]
    )


def test_a_bare_run_says_what_cannot_be_told(bare: Path) -> None:
    found = [question.answer for question in questions(analyse(load_run(bare), None), "x", [])]
    assert all(answer.endswith(".") for answer in found)
    assert "no publication of cpu-made-up" in found[1]
    assert "predicted no point" in found[3]
