"""The method panel."""

import pandas as pd

from roofcal.report.analysis import Analysis
from roofcal.report.figures.panel import draw_panel


def test_every_method_has_a_mark_at_its_ratio(analysis: Analysis) -> None:
    picture = draw_panel(analysis.panel)

    assert picture is not None
    (axes,) = picture.figure.axes
    marks = {c.get_label(): float(c.get_offsets()[0][0]) for c in axes.collections}
    assert marks["wall, cold"] == 3.0
    assert round(marks["graph, cold, zeros"], 6) == 0.9
    assert len(marks) == 6
    assert "wall, cold 3.00" in picture.facts


def test_the_standard_comes_first_in_the_legend(analysis: Analysis) -> None:
    picture = draw_panel(analysis.panel)
    assert picture is not None
    assert picture.figure.legends[0].get_texts()[0].get_text() == "graph, cold"


def test_one_method_is_no_panel(analysis: Analysis) -> None:
    assert draw_panel(analysis.panel[analysis.panel["method"] == "wall"]) is None
    assert draw_panel(analysis.panel.assign(ratio=float("nan"))) is None
    assert isinstance(analysis.panel, pd.DataFrame)
