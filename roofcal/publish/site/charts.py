"""Charts of the site: what Vega-Lite needs of each. The scripts of the pages fill in the rows."""

from typing import Final

import pandas as pd

from roofcal.report.kit.charts import Axis, Chart, Layer, LegendEntry, Panel, Tip
from roofcal.report.kit.vega import page_charts

_RECIPE: Final = LegendEntry("recipe", "")
_SIDE: Final = LegendEntry("side", "")


def site_charts() -> tuple[str, str]:
    """(Vega, the charts `roofline` and `history` without rows), both packed."""
    charts = {"roofline": _roofline(), "history": _history()}
    return page_charts((name, name, "", chart) for name, chart in charts.items())


def _roofline() -> Chart:
    """Points and roofs of two sides. Colours tell recipes apart, markers and dashes the sides."""
    return Chart(
        x=Axis("intensity", "arithmetic intensity, FLOP per byte", "count"),
        y=Axis("rate", "FLOP/s"),
        layers=[Layer("line", table="roofs", detail="line"), Layer("dots")],
        tables={
            "points": pd.DataFrame(columns=["intensity", "rate", "recipe", "side"]),
            "roofs": pd.DataFrame(columns=["intensity", "rate", "recipe", "side"]),
        },
        panels=[Panel(height=420)],
        tips=(
            Tip("name", "side"),
            Tip("recipe", "recipe"),
            Tip("shape", "shape"),
            Tip("provider", "provider"),
            Tip("time", "time", "si", "s", low="low", high="high"),
            Tip("rate", "rate", "si", "FLOP/s"),
        ),
        legend=(_RECIPE, _SIDE),
        columns=1,
    )


def _history() -> Chart:
    """Settled rates of the environments of one device, the oldest first, with intervals."""
    return Chart(
        x=Axis("environment", "", "rows"),
        y=Axis("rate", "settled FLOP/s", "linear"),
        layers=[
            Layer("line", detail="recipe"),
            Layer("interval", low="low", high="high"),
            Layer("dots"),
        ],
        tables={"points": pd.DataFrame(columns=["environment", "rate", "recipe"])},
        panels=[Panel(height=300)],
        tips=(
            Tip("recipe", "products"),
            Tip("environment", "environment"),
            Tip("rate", "settled", "si", "FLOP/s", low="low", high="high"),
            Tip("measured", "measured"),
        ),
        legend=(_RECIPE,),
        columns=1,
    )
