"""Bandwidth between devices, drawn from a run whose links are known."""

import numpy as np
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.sections.gathered.link_figure import draw_links
from roofcal.report.sections.gathered.links import OP, link_constants, link_curves
from tests.roofcal.report.drawn import dots
from tests.roofcal.report.gathers import DIRECT, SIZES, WORLD_SIZES, gathered_run


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    return analyse(load_run(gathered_run().write(tmp_path_factory.mktemp("links"))), h200)


def test_a_panel_per_collective_has_dots_on_the_fitted_lines(linked: Analysis) -> None:
    rows, fitted = link_curves(linked.frames[OP]), link_constants(linked.run.calibration)
    picture = draw_links(rows, fitted, linked.spec)
    assert picture is not None
    titles = [axes.get_title(loc="left") for axes in picture.figure.axes]
    assert titles == [recipe.replace("_", " ") for recipe in RECIPES]
    first = picture.figure.axes[0]
    assert len(dots(first)) == len(WORLD_SIZES) * len(SIZES)
    fits = [line for line in first.lines if len(np.asarray(line.get_xdata())) > 2]
    assert len(fits) == len(WORLD_SIZES)
    last = float(np.asarray(fits[0].get_ydata())[-1])
    assert last == pytest.approx(SIZES[-1] / (DIRECT[0] + SIZES[-1] / DIRECT[1]))
    assert "Highest: all_reduce by symm_mem on 8 devices" in picture.facts
    assert [text.get_text() for text in first.texts] == [
        "datasheet, one way 450\N{NO-BREAK SPACE}GB/s"
    ]


def test_three_collectives_leave_a_panel_empty(linked: Analysis) -> None:
    rows = link_curves(linked.frames[OP])
    picture = draw_links(rows[rows["recipe"] != "copy_engine_peer"], link_constants(None), None)
    assert picture is not None
    assert [axes.get_visible() for axes in picture.figure.axes] == [True, True, True, False]
    assert not [line for axes in picture.figure.axes for line in axes.lines]


def test_without_probes_nothing_is_drawn(linked: Analysis) -> None:
    assert draw_links(link_curves(None), link_constants(linked.run.calibration), None) is None
