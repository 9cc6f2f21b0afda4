"""The panel holds the same points by every method against graph replay."""

from pathlib import Path

import pytest

from roofcal.core.records import Method, Protocol, Telemetry
from roofcal.report.data.analysis import Analysis
from tests.roofcal.report.chapters import plain, shown_of
from tests.roofcal.report.synthetic import MadeUpRun, product, telemetry


def test_the_panel_holds_each_method_against_graph_replay(analysis: Analysis) -> None:
    shown = shown_of(analysis, "method-panel")
    panel = shown.tables["panel"].frame
    ratios = dict(zip(panel["protocol"], panel["ratio"], strict=True))
    expected = {"graph, cold": 1.0, "graph, hot": 1.0, "graph, cold, zeros": 0.9}
    expected |= {"events + flush, cold": 1.5, "profiler, cold": 1.2, "wall, cold": 3.0}
    assert ratios == pytest.approx(expected)
    assert "wall, cold 3.00x" in plain(shown.figures["method_panel"].facts)


def test_a_panel_point_without_its_standard_time_has_no_ratio_and_one_method_no_figure(
    tmp_path: Path, analysis: Analysis
) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64, protocol=Protocol(method="wall"), sweeps=("panel_cpu",)))
    made_up.fail(product(64, 64, 64, sweeps=("panel_cpu",)), "failed", "x")
    shown = shown_of(made_up.analysed(tmp_path), "method-panel")
    assert list(shown.files["method_panel.csv"]["ratio"].isna()) == [True]
    assert not shown.figures
    gemm = analysis.frames["gemm"]
    standard = (gemm["cache"] == "cold") & (gemm["method"] == "graph")
    standard &= gemm["distribution"] == "normal"
    assert not shown_of(analysis, "method-panel", gemm=gemm[standard]).figures


def facts_of_turns(folder: Path, full_clock: Telemetry, at_limit: Telemetry) -> str:
    """What the figure says of two products that were timed in turns, alone and in a burst."""
    run = MadeUpRun()
    run.sessions["gemm"] = {"timing": {"burst_s": 0.02, "burst_rest_s": 2.0}}
    for size, alone, readings in ((1024, 1.002, full_clock), (8192, 1.03, at_limit)):
        factors: dict[Method, float] = {"graph": 1.0, "alone": alone, "burst": 0.9}
        for method, factor in factors.items():
            point = product(*(size,) * 3, protocol=Protocol(method=method), sweeps=("panel_turns",))
            run.measure(point, seconds=1e-4 * factor, telemetry=readings)
    return plain(shown_of(run.analysed(folder), "method-panel").figures["method_panel"].facts)


def test_time_alone_is_told_apart_at_the_power_limit_and_below_it(tmp_path: Path) -> None:
    full_clock, at_limit = telemetry(1.98e9, 400.0), telemetry(1.4e9, 690.0, ("power_cap",))
    facts = facts_of_turns(tmp_path, full_clock, at_limit)
    assert "alone, cold at the power limit 1.03x; alone, cold below it 1.00x; burst" in facts
    assert (
        "Times in turns and alone differ by 1.6 % (aim: at most 1 %) in the median over "
        "2 points, and by 2.9 % (aim: at most 4 %) in the 95th percentile."
    ) in facts


def test_time_alone_is_one_range_where_no_clock_was_read(tmp_path: Path) -> None:
    facts = facts_of_turns(tmp_path, Telemetry(), Telemetry())
    assert "alone, cold 1.00x to 1.03x; burst" in facts
    assert "A burst took 20 ms after a rest of 2 s." in facts
