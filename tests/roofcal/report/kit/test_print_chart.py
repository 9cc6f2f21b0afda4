"""Charts on paper: every panel with its rows, axes that people read, a legend within the figure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.report.kit.charts import Axis, Chart, Layer, LegendEntry, Panel
from roofcal.report.kit.print_chart import print_chart
from roofcal.report.kit.styles import BLUE, GREEN, MUTED
from tests.roofcal.report.drawn import dots

ROWS = pd.DataFrame(
    {
        "x": [1.0, 2.0, 4.0, 8.0],
        "y": [1e12, 2e12, 3e12, 4e12],
        "recipe": ["bf16", "bf16", "fp8", "fp8"],
        "colour": [BLUE, BLUE, GREEN, GREEN],
        "marker": "s",
        "panel": ["left", "right", "left", "right"],
    }
)
LEVEL = pd.DataFrame({"y": [5e12], "dashed": [1], "colour": [MUTED]})


def chart(*layers: Layer, tables: Mapping[str, pd.DataFrame] | None = None, **axes: Axis) -> Chart:
    return Chart(
        x=axes.get("x", Axis("x", "size", "count")),
        y=axes.get("y", Axis("y", "rate", "linear", "B/s")),
        layers=layers or [Layer(mark="dots")],
        tables={"points": ROWS} | dict(tables or {}),
        panels=[Panel(title=name, where={"panel": name}) for name in ("left", "right")],
        tips=(),
        legend=[
            LegendEntry(field="recipe", value="bf16", colour=BLUE, marker="swatch"),
            LegendEntry(field="recipe", value="fp8", colour=GREEN, marker="s"),
            LegendEntry(field="recipe", value="datasheet", dash=(6, 4), label="datasheet 5 TB/s"),
        ],
    )


def ticks(axis: Any) -> list[str]:
    """The labels that an axis shows within its limits."""
    low, high = sorted(axis.get_view_interval())
    places = [place for place in axis.get_majorticklocs() if low <= place <= high]
    return [
        axis.get_major_formatter()(place).replace("\N{NO-BREAK SPACE}", " ") for place in places
    ]


def test_each_panel_has_its_rows_and_its_title() -> None:
    left, right = print_chart(chart()).axes
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["left", "right"]
    assert dots(left).tolist() == [[1, 1e12], [4, 3e12]]
    assert dots(right).tolist() == [[2, 2e12], [8, 4e12]]
    assert left.get_ylim()[0] == 0
    assert "1 TB/s" in ticks(left.yaxis)
    assert set(ticks(left.xaxis)) >= {"1", "4"}


def test_levels_lines_and_areas_are_drawn_in_their_colours() -> None:
    ends = ROWS.assign(low=ROWS["y"] / 2, high=ROWS["y"] * 2, one=1e12)
    layers = (
        Layer(mark="level", table="levels"),
        Layer(mark="area", detail="recipe", low="low", high="high"),
        Layer(mark="interval", low="low", high="high"),
        Layer(mark="tolerance", table="points", low="low", high="high", detail="one"),
        Layer(mark="line", detail="recipe"),
    )
    figure = print_chart(chart(*layers, tables={"points": ends, "levels": LEVEL}))
    level, *rest = figure.axes[0].lines
    assert (level.get_color(), set(np.asarray(level.get_ydata()))) == (MUTED, {5e12})
    assert level.get_linestyle() == "--"
    assert [line.get_color() for line in rest[-2:]] == [BLUE, GREEN]
    assert len(figure.axes[0].collections) == 2 + 1  # two areas, and the intervals


def test_ratios_beyond_the_axis_lie_on_its_ends() -> None:
    y = Axis("y", "ratio", "ratio", ticks=(2e12, 3e12))
    left, right = print_chart(chart(y=y)).axes
    assert dots(left)[:, 1].tolist() == [2e12, 3e12]
    assert dots(right)[:, 1].tolist() == [2e12, 3e12]
    assert len(ticks(left.yaxis)) == 2


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((1e-6, 1e-3), ["1 us", "10 us", "100 us", "1 ms"]),
        ((4e-3, 4e-2), ["10 ms", "30 ms"]),
        ((26e-3, 49e-3), ["30 ms", "50 ms"]),
    ],
)
def test_logarithmic_axes_have_round_ticks_with_prefixes(
    values: tuple[float, float], shown: list[str]
) -> None:
    rows = ROWS.assign(x=[*values, *values], panel="left")
    drawn = print_chart(chart(tables={"points": rows}, x=Axis("x", "time", unit="s")))
    assert [text.replace("\N{MICRO SIGN}", "u") for text in ticks(drawn.axes[0].xaxis)] == shown


def test_a_map_has_its_rows_and_columns_in_order_and_a_label_in_each_cell() -> None:
    rows = ROWS.assign(ratio=[0.5, 1.0, 1.5, 2.0], label=list("abcd"), size=[1, 1024, 1, 1024])
    axes = {
        "x": Axis("size", "m", "names"),
        "y": Axis("recipe", "", "names", order=["fp8", "bf16"]),
    }
    one = chart(Layer(mark="cells"), tables={"points": rows}, **axes)
    (drawn,) = print_chart(replace(one, panels=[Panel(height=80)], legend=())).axes
    assert [label.get_text() for label in drawn.get_xticklabels()] == ["1", "1,024"]
    assert [label.get_text() for label in drawn.get_yticklabels()] == ["fp8", "bf16"]
    assert [text.get_text() for text in drawn.texts] == ["c", "d", "a", "b"]
