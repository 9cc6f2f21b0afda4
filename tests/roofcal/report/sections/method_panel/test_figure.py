"""The method panel."""

from pathlib import Path

import pytest

from roofcal.core.records import Method, Protocol, Telemetry
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.kit.numbers import TIMES
from roofcal.report.sections.method_panel import SECTION, Panel, draw_panel
from tests.roofcal.report.drawn import drawn, marks
from tests.roofcal.report.synthetic import MadeUpRun, product, telemetry


def panel_of(analysis: Analysis) -> Panel:
    return SECTION.contents(analysis)


def test_every_method_has_a_mark_at_its_ratio(analysis: Analysis) -> None:
    picture = draw_panel(panel_of(analysis))

    assert picture is not None
    (axes,) = picture.figure.axes
    ratios = marks(axes)
    assert ratios["wall, cold"] == pytest.approx(3.0)
    assert ratios["graph, cold, zeros"] == pytest.approx(0.9)
    assert len(ratios) == 6
    assert "wall, cold 3.00" in picture.facts


def test_the_standard_comes_first_in_the_legend(analysis: Analysis) -> None:
    picture = draw_panel(panel_of(analysis))
    assert picture is not None
    assert picture.figure.legends[0].get_texts()[0].get_text() == "graph, cold"


def test_one_method_is_no_panel(analysis: Analysis) -> None:
    rows = panel_of(analysis).rows
    assert draw_panel(Panel(rows=rows[rows["method"] == "wall"])) is None
    assert draw_panel(Panel(rows=rows.assign(ratio=float("nan")))) is None


def facts_of_turns(folder: Path, full_clock: Telemetry, at_limit: Telemetry) -> str:
    """What the figure says of two products that were timed in turns, alone and in a burst."""
    run = MadeUpRun()
    run.sessions["gemm"] = {"timing": {"burst_s": 0.02, "burst_rest_s": 2.0}}
    for size, alone, readings in ((1024, 1.002, full_clock), (8192, 1.03, at_limit)):
        factors: dict[Method, float] = {"graph": 1.0, "alone": alone, "burst": 0.9}
        for method, factor in factors.items():
            point = product(*(size,) * 3, protocol=Protocol(method=method), sweeps=("panel_turns",))
            run.measure(point, seconds=1e-4 * factor, telemetry=readings)
    picture = draw_panel(panel_of(analyse(load_run(run.write(folder)), None)))
    return drawn(picture).facts.replace(TIMES, "x").replace("\N{NO-BREAK SPACE}", " ")


def test_time_alone_is_told_apart_at_the_power_limit_and_below_it(tmp_path: Path) -> None:
    full_clock, at_limit = telemetry(1.98e9, 400.0), telemetry(1.4e9, 690.0, ("power_cap",))
    facts = facts_of_turns(tmp_path, full_clock, at_limit)
    assert "alone, cold at the power limit 1.03x; alone, cold below it 1.00x; burst" in facts
    assert (
        "Between in turns and alone lies a difference of 1.6 % (aim: at most 1 %) in the median of "
        "2 points, and of 2.9 % (aim: at most 4 %) in the 95th percentile."
    ) in facts


def test_time_alone_is_one_range_where_no_clock_was_read(tmp_path: Path) -> None:
    facts = facts_of_turns(tmp_path, Telemetry(), Telemetry())
    assert "alone, cold 1.00x to 1.03x; burst" in facts


def test_the_rest_before_a_burst_is_that_of_its_session(tmp_path: Path) -> None:
    facts = facts_of_turns(tmp_path, Telemetry(), Telemetry())
    assert "A burst took 20 ms after a rest of 2 s." in facts
