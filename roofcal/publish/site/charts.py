"""Charts of the site: what Vega-Lite needs of each. The scripts of the pages fill in the rows."""

import pandas as pd

from roofcal.report.kit.charts import Axis, Chart, Layer, LegendEntry, Panel, Tip
from roofcal.report.kit.vega import page_charts


def site_charts() -> tuple[str, str]:
    """(Vega, the charts `roofline` and `history` without rows), both packed.

    roofline: points and roofs of two sides; colours tell recipes apart, markers and dashes the
    sides. history: settled rates of the environments of one device, the oldest first.
    """
    roofline = Chart(
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
        legend=(LegendEntry("recipe", ""), LegendEntry("side", "")),
        columns=1,
    )
    history = Chart(
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
        legend=(LegendEntry("recipe", ""),),
        columns=1,
    )
    charts = {"roofline": roofline, "history": history}
    return page_charts((name, name, "", chart) for name, chart in charts.items())
