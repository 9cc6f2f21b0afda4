"""What the page says of sessions and cards that share sentinels, and of those that share none."""

from dataclasses import replace

import pytest

from roofcal.fitting.panel_factors import PanelReading
from roofcal.report.checks import all_checks
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.observations import INTERVAL_HOLDS
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.sections.quality import PANEL, SECTION, panel_sentence, panel_table
from tests.roofcal.report.chapters import blocks_of


@pytest.fixture(scope="module")
def two_cards(analysis: Analysis) -> Analysis:
    """The made-up run as if a second card had measured its sentinel, 4 % slower."""
    panel = [
        PanelReading(
            kind="memory",
            sentinel="copy",
            session=card,
            card=card,
            seconds=seconds * (1 + 0.001 * repetition),
        )
        for card, seconds in (("GPU-1", 1.0), ("GPU-2", 1.04))
        for repetition in range(3)
    ]
    return replace(analysis, panel=panel)


def files_of(analysis: Analysis) -> list[str]:
    return [table.name for table in SECTION.fill(analysis).tables()]


def test_the_page_has_a_row_for_each_session_and_card_and_says_the_spread(
    two_cards: Analysis,
) -> None:
    tables = [b for b in blocks_of(two_cards, "quality") if isinstance(b, Table)]
    (panel,) = [table for table in tables if table.id.endswith("quality-panel")]
    assert panel.total == 4
    assert "Standard deviation between cards: 2.8" in panel_sentence(two_cards)
    assert "memory, 2 cards" in panel_sentence(two_cards)

    assert "panel.csv" in files_of(two_cards)
    written = panel_table(two_cards.panel_factors)
    assert list(written.columns) == [column.key for column in PANEL]
    factors = panel_table(two_cards.panel_factors).set_index("card")["factor"]
    assert set((factors["GPU-2"] / factors["GPU-1"].to_numpy()).round(6)) == {1.04}


def test_a_run_whose_sessions_share_nothing_says_that_nothing_is_known(analysis: Analysis) -> None:
    assert panel_table(analysis.panel_factors).empty
    prose = [block.text for block in blocks_of(analysis, "quality") if isinstance(block, Prose)]
    assert any(text.startswith("No two sessions share a sentinel") for text in prose)
    assert "panel.csv" not in files_of(analysis)


def test_times_of_one_visit_are_named_as_that(analysis: Analysis) -> None:
    texts = [check.text for check in all_checks(analysis)]
    assert any("are of one visit: of its samples and how they wander" in text for text in texts)


def test_the_answer_says_that_intervals_of_one_visit_hold_no_other(analysis: Analysis) -> None:
    assert SECTION.answer is not None
    answer = SECTION.answer(analysis)
    assert answer is not None
    assert answer.text.endswith("(middle op), which holds for the one visit of each point.")

    frames = {op: frame.copy() for op, frame in analysis.frames.items()}
    frames["gemm"].loc[frames["gemm"][INTERVAL_HOLDS].notna(), INTERVAL_HOLDS] = "this session"
    answer = SECTION.answer(replace(analysis, frames=frames))
    assert answer is not None
    assert answer.text.endswith("(middle op).")
