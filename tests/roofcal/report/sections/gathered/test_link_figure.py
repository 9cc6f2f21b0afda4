"""Bandwidth between devices, drawn from a run whose links are known."""

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.sections.gathered.links import OP, draw_links, link_constants, link_curves
from tests.roofcal.report.drawn import charted, drawn
from tests.roofcal.report.gathers import DIRECT, SIZES, WORLD_SIZES, gathered_run


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    return analyse(load_run(gathered_run().write(tmp_path_factory.mktemp("links"))), h200)


def test_a_panel_per_collective_has_dots_on_the_fitted_lines(linked: Analysis) -> None:
    rows, fitted = link_curves(linked.frames[OP]), link_constants(linked.run.calibration)
    picture = draw_links(rows, fitted, linked.spec)
    chart = charted(picture)
    titles = [panel.title for panel in chart.panels]
    assert titles == [recipe.replace("_", " ") for recipe in RECIPES]
    first = chart.panels[0]
    assert len(chart.rows_of("points", first)) == len(WORLD_SIZES) * len(SIZES)
    fits = dict(list(chart.rows_of("fits", first).groupby("series")))
    assert len(fits) == len(WORLD_SIZES)
    assert next(iter(fits.values()))["rate"].iloc[-1] == pytest.approx(
        SIZES[-1] / (DIRECT[0] + SIZES[-1] / DIRECT[1])
    )
    assert "Highest: all_reduce by symm_mem on 8 devices" in drawn(picture).facts
    assert chart.legend[-1].label == "datasheet, one way 450\N{NO-BREAK SPACE}GB/s"
    assert list(chart.tables["levels"]["rate"]) == [450e9]


def test_dots_stand_alone_where_nothing_was_fitted(linked: Analysis) -> None:
    rows = link_curves(linked.frames[OP])
    picture = draw_links(rows[rows["recipe"] != "copy_engine_peer"], link_constants(None), None)
    chart = charted(picture)
    assert len(chart.panels) == 3
    assert chart.tables["fits"].empty
    assert chart.tables["levels"].empty
    assert [axes.get_visible() for axes in drawn(picture).figure.axes] == [True] * 3 + [False]


def test_without_probes_nothing_is_drawn(linked: Analysis) -> None:
    assert draw_links(link_curves(None), link_constants(linked.run.calibration), None) is None
