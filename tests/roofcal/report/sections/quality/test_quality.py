"""The device over the session, and burst against settled."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.points.run import load_run
from roofcal.report.checks import all_checks
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.panel_factors import READINGS, panel_fits
from roofcal.report.data.quality import points_with_states
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.sections.points import readable_points
from roofcal.report.sections.quality import (
    PANEL,
    draw_burst,
    draw_session,
    panel_sentence,
)
from roofcal.report.write import write_report
from tests.roofcal.report.chapters import ANCHOR, answer_of, blocks_of, csv_tables
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.drawn import drawn, plain
from tests.roofcal.report.synthetic import MadeUpRun, cast, product


def test_sentinel_clock_power_and_temperature_share_the_time(analysis: Analysis) -> None:
    picture = drawn(draw_session(analysis.frames, analysis.sessions))
    facts = plain(picture.facts)
    assert "The sentinel of gemm was measured 5 times and spread over 1.0 %." in facts
    assert "Power from 690 W to 690 W." in facts


def test_without_sensors_sentinel_and_warm_up_there_is_no_figure(bare_analysis: Analysis) -> None:
    assert draw_session(bare_analysis.frames, bare_analysis.sessions) is None
    assert draw_burst(bare_analysis.frames["gemm"]) is None


def test_the_facts_state_how_much_settling_costs_the_made_up_run(analysis: Analysis) -> None:
    picture = drawn(draw_burst(analysis.frames["gemm"]))
    chart = drawn(picture)
    heights = chart.tables["points"][chart.y.key].to_numpy()
    assert heights == pytest.approx(np.full(len(heights), 1 / 0.9 - 1))
    assert "11.1" in picture.facts


@pytest.fixture(scope="module")
def two_cards(analysis: Analysis) -> Analysis:
    """The made-up run as if a second card had measured its sentinel, 4 % slower."""
    panel = [
        ("memory", "copy", card, card, seconds * (1 + 0.001 * repetition))
        for card, seconds in (("GPU-1", 1.0), ("GPU-2", 1.04))
        for repetition in range(3)
    ]
    return replace(analysis, panel=panel_fits(pd.DataFrame(panel, columns=list(READINGS))))


def test_the_page_has_a_row_for_each_session_and_card_and_says_the_spread(
    two_cards: Analysis,
) -> None:
    tables = [b for b in blocks_of(two_cards, "quality") if isinstance(b, Table)]
    (panel,) = [table for table in tables if table.id.endswith("quality-panel")]
    assert panel.total == 4
    assert "Standard deviation between cards: 2.8" in panel_sentence(two_cards)
    assert "memory, 2 cards" in panel_sentence(two_cards)

    assert "panel.csv" in dict(csv_tables(two_cards))
    assert list(two_cards.panel_factors) == [column.key for column in PANEL]
    factors = two_cards.panel_factors.set_index("card")["factor"]
    assert set((factors["GPU-2"] / factors["GPU-1"].to_numpy()).round(6)) == {1.04}


def test_a_run_whose_sessions_share_nothing_says_that_nothing_is_known(analysis: Analysis) -> None:
    assert analysis.panel_factors.empty
    prose = [block.text for block in blocks_of(analysis, "quality") if isinstance(block, Prose)]
    assert any(text.startswith("No two sessions share a sentinel") for text in prose)
    assert "panel.csv" not in dict(csv_tables(analysis))


def test_the_page_says_that_intervals_of_one_visit_hold_no_other(analysis: Analysis) -> None:
    texts = [check.text for check in all_checks(analysis)]
    assert any(
        "have an interval that covers the samples of one visit only" in text for text in texts
    )
    assert answer_of(analysis, "quality").text.endswith(
        "(middle op), and covers only the one visit of each point."
    )

    frames = {op: frame.copy() for op, frame in analysis.frames.items()}
    frames["gemm"].loc[frames["gemm"][INTERVAL_HOLDS].notna(), INTERVAL_HOLDS] = "this session"
    assert answer_of(replace(analysis, frames=frames), "quality").text.endswith("(middle op).")


COUNT = 23  # products with two states; the m-th is 6 + m % apart


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made_up = MadeUpRun()
    for m in range(1, COUNT + 1):
        made_up.visit(product(m, 4096, 4096), 100e-6, (106 + m) * 1e-6)
    made_up.visit(product(32, 4096, 4096), 100e-6, 104e-6)
    made_up.visit(cast(1024, 8192, "fp8_rowwise_dim0"), 10e-6, 20e-6)
    return made_up.write(tmp_path_factory.mktemp("states"))


@pytest.fixture(scope="module")
def states(run_folder: Path) -> Analysis:
    return analyse(load_run(run_folder), None)


def table_of_states(analysis: Analysis) -> list[Table]:
    tables = [b for b in blocks_of(analysis, "quality") if isinstance(b, Table)]
    return [table for table in tables if table.id == f"{ANCHOR}-quality-states"]


def test_points_with_several_states_stand_the_widest_first(states: Analysis) -> None:
    table = states.points_with_states
    assert len(table) == COUNT + 1
    assert list(table["spread"].round(6)[:2]) == [1.0, 0.29]
    assert list(table["states"][:2]) == ["10.00 (1); 20.00 (1)", "100.0 (1); 129.0 (1)"]
    shapes = [shape.replace("\N{MULTIPLICATION SIGN}", "x") for shape in table["shape"][:2]]
    assert shapes == ["1,024 x 8,192", "23 x 4,096 x 4,096"]
    every = readable_points(states.frames["gemm"]).set_index("m")["states"]
    assert (every[1], every[32]) == ("100.0 (1); 107.0 (1)", None)


def test_whether_the_interval_holds_all_states_is_said_of_each_point(states: Analysis) -> None:
    frame = states.frames["gemm"].set_index("m", drop=False).rename_axis(None)
    frame.loc[[1, 2, 3], "ci95_low_s"] = [99e-6, 99e-6, 101e-6]
    frame.loc[[1, 2, 3], "ci95_high_s"] = [200e-6, 101e-6, 200e-6]
    table = points_with_states(frame)
    assert list(table["is_held"][:3]) == [True, False, False]


def test_the_section_shows_the_twenty_widest_and_counts_the_rest(states: Analysis) -> None:
    (table,) = table_of_states(states)
    assert table.shown == 20
    assert "; 4 more are in the tables of ops, column states_s" in table.caption
    assert "100.0 (1); 129.0 (1)" in table.body
    assert "100.0 (1); 107.0 (1)" not in table.body
    assert answer_of(states, "quality").text.endswith("; 24 points have several states.")


def test_a_check_counts_the_points_by_op_and_leads_to_the_table(states: Analysis) -> None:
    (check,) = [check for check in all_checks(states) if check.target]
    held = int(states.points_with_states["is_held"].sum())
    assert check.state == "look"
    assert check.text.replace("\N{NO-BREAK SPACE}", " ") == (
        "24 points have several states, which are visits more than 5 % apart: 23 of gemm, 1 of "
        f"cast. {held} of their 95 % intervals include all states of the point."
    )
    assert check.target == "quality-states"


def test_a_run_of_one_state_says_nothing_of_states(analysis: Analysis) -> None:
    assert analysis.points_with_states.empty
    assert not table_of_states(analysis)
    assert not [check for check in all_checks(analysis) if check.target]


def test_the_pages_link_the_table_and_explain_states_and_intervals(
    run_folder: Path, tmp_path: Path
) -> None:
    write_report([(run_folder, None)], tmp_path / "report.html", DEVICES)
    details = (tmp_path / "details.html").read_text(encoding="utf-8")
    assert '<a href="#nvidia-h200-quality-states">Points with several states</a></li>' in details
    assert 'id="nvidia-h200-quality-states"' in details
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<dt>states</dt>" in page
    for holds in ("this visit", "this session", "another session", "another card"):
        assert f"<code>{holds}</code>: " in page
