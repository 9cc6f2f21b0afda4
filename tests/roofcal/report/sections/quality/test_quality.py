"""The device over the session, burst against settled, states of points, sessions and cards."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.report.checks import all_checks
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.quality import points_with_states
from roofcal.report.sections.points import readable_points
from roofcal.report.write import write_report
from tests.roofcal.report.chapters import Shown, plain, shown_of
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import MadeUpRun, cast, product


@pytest.fixture(scope="module")
def shown(analysis: Analysis) -> Shown:
    return shown_of(analysis, "quality")


def test_sentinel_clock_power_and_temperature_share_the_time(
    shown: Shown, bare_analysis: Analysis
) -> None:
    chart = shown.figures["session"]
    facts = plain(chart.facts)
    assert "The sentinel of gemm was measured 5 times and spread over 1.0 %." in facts
    assert "Power from 690 W to 690 W." in facts
    assert len(chart.panels) == 4
    assert len(chart.tables["sentinels"]) == 5
    assert not shown_of(bare_analysis, "quality").figures, "without sensors and warm-up"


def test_where_sessions_are_far_apart_there_is_a_sentence_instead(analysis: Analysis) -> None:
    sessions = {op: list(of_op) for op, of_op in analysis.sessions.items()}
    later = {
        "started_utc": "2026-11-23T04:00:00+00:00",
        "finished_utc": "2026-11-23T04:01:00+00:00",
    }
    sessions["gemm"] = [replace(one, **later) for one in sessions["gemm"]]  # type: ignore[arg-type]
    shown = shown_of(replace(analysis, sessions=sessions), "quality")
    assert "session" not in shown.figures
    assert shown.prose[-1].endswith("% of the time from the first to the last one.")


def test_the_facts_state_how_much_settling_costs_the_made_up_run(shown: Shown) -> None:
    chart = shown.figures["burst_against_settled"]
    heights = chart.tables["points"][chart.y.key].to_numpy()
    assert heights == pytest.approx(np.full(len(heights), 1 / 0.9 - 1))
    assert "11.1" in chart.facts


def test_the_page_says_that_intervals_of_one_visit_hold_no_other(
    analysis: Analysis, shown: Shown
) -> None:
    texts = [check.text for check in all_checks(analysis)]
    assert any("have an interval that covers the samples of one visit only" in t for t in texts)
    ending = "to either side and covers the samples of one visit only."
    assert shown.answer.endswith(ending)
    gemm = analysis.frames["gemm"]
    held = gemm[INTERVAL_HOLDS].where(gemm[INTERVAL_HOLDS].isna(), "this session")
    frames = {**analysis.frames, "gemm": gemm.assign(**{INTERVAL_HOLDS: held})}
    assert shown_of(analysis, "quality", **frames).answer.endswith("to either side.")


COUNT = 23  # products with two states; the m-th is 6 + m % apart


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    made_up = MadeUpRun()
    for m in range(1, COUNT + 1):
        made_up.visit(product(m, 4096, 4096), 100e-6, (106 + m) * 1e-6)
    made_up.visit(product(32, 4096, 4096), 100e-6, 104e-6)
    made_up.visit(cast(1024, 8192, "fp8_rowwise_dim0"), 10e-6, 20e-6)
    return made_up.analysed(tmp_path_factory.mktemp("states"))


def test_the_twenty_points_of_widest_states_are_shown_and_the_rest_counted(
    states: Analysis,
) -> None:
    shown = shown_of(states, "quality")
    table = shown.tables["quality-states"]
    assert table.total == 20
    assert "; 4 more are in the tables of ops, column states_s" in table.caption
    assert shown.answer.endswith("; 24 points have visits more than 5 % apart.")
    assert list(table.frame["spread"].round(6)[:2]) == [1.0, 0.29]
    assert list(table.frame["states"][:2]) == ["10.00 (1); 20.00 (1)", "100.0 (1); 129.0 (1)"]
    assert list(map(plain, table.frame["shape"][:2])) == ["1,024 x 8,192", "23 x 4,096 x 4,096"]
    every = readable_points(states.frames["gemm"]).set_index("m")["states"]
    assert (every[1], every[32]) == ("100.0 (1); 107.0 (1)", None)


def test_whether_the_interval_holds_all_states_is_said_of_each_point(states: Analysis) -> None:
    frame = states.frames["gemm"].set_index("m", drop=False).rename_axis(None)
    frame.loc[[1, 2, 3], "ci95_low_s"] = [99e-6, 99e-6, 101e-6]
    frame.loc[[1, 2, 3], "ci95_high_s"] = [200e-6, 101e-6, 200e-6]
    assert list(points_with_states(frame)["is_held"][:3]) == [True, False, False]


def test_a_check_counts_the_points_by_op_and_the_page_links_the_table(
    states: Analysis, analysis: Analysis, shown: Shown, tmp_path: Path
) -> None:
    (check,) = [check for check in all_checks(states) if check.target]
    held = int(states.points_with_states["is_held"].sum())
    assert plain(check.text) == (
        "24 points have several states, which are visits more than 5 % apart: 23 of gemm, 1 of "
        f"cast. {held} of their 95 % intervals include all states of the point."
    )
    assert not [check for check in all_checks(analysis) if check.target]
    assert "quality-states" not in shown.tables

    write_report([(states.run.folder, None)], tmp_path / "report.html", DEVICES)
    details = (tmp_path / "details.html").read_text(encoding="utf-8")
    assert '<a href="#nvidia-h200-quality-states">Points with several states</a></li>' in details
    assert 'id="nvidia-h200-quality-states"' in details
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for holds in ("this visit", "this session", "another session", "another card"):
        assert f"<code>{holds}</code>: " in page
