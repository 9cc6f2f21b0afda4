"""Charts of the site: what Vega-Lite needs of each. The scripts of the pages fill in the rows."""

from typing import Final

import altair as alt
import pandas as pd

from roofcal.report.kit.chart_parts import (
    count_axis,
    dots,
    layered,
    lines,
    movable,
    quantity,
    rules,
)
from roofcal.report.kit.charts import Chart, LegendEntry, Panel, Tip, page_charts

_RECIPE: Final = LegendEntry(field="recipe", value="")
_SIDE: Final = LegendEntry(field="side", value="")


def site_charts() -> tuple[str, str]:
    """(Vega, the charts `roofline` and `history` without rows), both packed."""
    charts = {"roofline": _roofline(), "history": _history()}
    return page_charts((name, name, "", chart) for name, chart in charts.items())


def _roofline() -> Chart:
    """Points and roofs of two sides. Colours tell recipes apart, markers and dashes the sides."""
    legend = (_RECIPE, _SIDE)
    x = count_axis("intensity", "arithmetic intensity, FLOP per byte")
    y = quantity(alt.Y, "rate", "FLOP/s")
    line = alt.Detail("line", type="nominal")
    return Chart(
        spec=layered(
            [lines("roofs", legend, x=x, y=y, detail=line), movable(dots(legend, x=x, y=y))], legend
        ),
        tables={
            "points": pd.DataFrame(columns=["intensity", "rate"]),
            "roofs": pd.DataFrame(columns=["intensity", "rate"]),
        },
        panels=[Panel(height=420)],
        x="intensity",
        y="rate",
        tips=(
            Tip(key="name", label="side"),
            Tip(key="recipe", label="recipe"),
            Tip(key="shape", label="shape"),
            Tip(key="provider", label="provider"),
            Tip(key="time", label="time", kind="si", unit="s", low="low", high="high"),
            Tip(key="rate", label="rate", kind="si", unit="FLOP/s"),
        ),
        legend=legend,
        columns=1,
    )


def _history() -> Chart:
    """Settled rates of the environments of one device, the oldest first, with intervals."""
    x = alt.X("environment", type="ordinal", sort=None, axis=alt.Axis(title=None, labelAngle=0))
    y = quantity(alt.Y, "rate", "settled FLOP/s", linear=True)
    low = alt.Y("low", type="quantitative")
    ends = rules("points", (_RECIPE,), x=x, y=low, y2=alt.Y2("high"))
    return Chart(
        spec=layered(
            [
                lines("points", (_RECIPE,), x=x, y=y, detail=alt.Detail("recipe", type="nominal")),
                ends,
                dots((_RECIPE,), x=x, y=y),
            ],
            (_RECIPE,),
        ),
        tables={"points": pd.DataFrame(columns=["environment", "rate"])},
        panels=[Panel(height=300)],
        x="environment",
        y="rate",
        tips=(
            Tip(key="recipe", label="products"),
            Tip(key="environment", label="environment"),
            Tip(key="rate", label="settled", kind="si", unit="FLOP/s", low="low", high="high"),
            Tip(key="measured", label="measured"),
        ),
        legend=(_RECIPE,),
        columns=1,
        zooms=False,
    )
