"""The method panel."""

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.sections.method_panel import SECTION, draw_panel
from tests.roofcal.report.drawn import marks


def panel_of(analysis: Analysis) -> pd.DataFrame:
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
    assert draw_panel(panel_of(analysis)[panel_of(analysis)["method"] == "wall"]) is None
    assert draw_panel(panel_of(analysis).assign(ratio=float("nan"))) is None
    assert isinstance(panel_of(analysis), pd.DataFrame)
