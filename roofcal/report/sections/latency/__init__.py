"""How long a product takes by tokens: where a token more costs nothing, and which recipe wins."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import shape_texts, standard_rows, weights_by_size
from roofcal.report.kit import charts
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.numbers import count_of, scaled, shape_text
from roofcal.report.section import Item, Section

_SIZES: Final = ["m", "n", "k"]
_FEWEST: Final = 3  # sizes of m that make a line
_PANEL_PX: Final = 240


def show(analysis: Analysis) -> Iterator[Item]:
    """A figure per op whose products were measured at several m, on one device."""
    for op in analysis.studies:
        spec = BY_NAME[op]
        if spec.computes == "product" and not spec.shared_axis:
            yield draw_latency(analysis.frames[op])


def draw_latency(frame: pd.DataFrame) -> Picture | None:
    """A panel per weight, a line per recipe; None without a weight at _FEWEST sizes of m."""
    rows = standard_rows(frame).sort_values("median_s", kind="stable")
    rows = rows.drop_duplicates(["recipe", *_SIZES]).sort_values(_SIZES, kind="stable")
    rows = rows[rows.groupby(["n", "k"])["m"].transform("nunique") >= _FEWEST]
    if rows.empty:
        return None
    weight = shape_texts(rows, ("n", "k"))
    least = rows.iloc[0]
    return Picture(
        key="latency",
        op=str(rows["op"].iloc[0]),
        x=charts.Axis("m", "tokens m", "count"),
        y=charts.Axis("median_s", "time", unit="s"),
        layers=[
            charts.Layer("interval", low="ci95_low_s", high="ci95_high_s"),
            charts.Layer("line", detail="recipe", size=1.6),
            charts.Layer("dots"),
        ],
        tables={"points": drawing.styled_points(rows).assign(weight=weight, dashed=0)},
        panels=[
            charts.Panel(title=f"weights {name}", where={"weight": name}, height=_PANEL_PX)
            for name in map(shape_text, weights_by_size(rows))
        ],
        columns=3,
        tips=drawing.point_tips(drawing.TIME_TIP, drawing.BYTES_TIP, drawing.FLOPS_TIP),
        legend=drawing.point_legend(rows),
        alt="Time of products against tokens by recipe.",
        facts=f"{count_of(len(rows), 'point')} of {count_of(weight.nunique(), 'weight')}. The "
        f"first, {least['recipe']} by {least['provider']} at {shape_text(least[_SIZES])}, takes "
        f"{scaled(float(least['median_s']), 's')}.",
    )


SECTION = Section("Time over tokens", "recipe", show, lead=("latency",))
