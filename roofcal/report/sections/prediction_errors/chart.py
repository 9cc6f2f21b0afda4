"""Measured against predicted as a chart: a tab per model, the most accurate one first."""

from collections.abc import Mapping, Sequence
from typing import Final

import altair as alt
import pandas as pd

from roofcal.points.columns import interval_columns
from roofcal.report.data.drawing import (
    HEAD_TIPS,
    TAIL_TIPS,
    TIME_TIP,
    chart_points,
    point_legend,
)
from roofcal.report.data.prediction_errors import judged
from roofcal.report.data.tidy import models_in
from roofcal.report.kit.chart_parts import dots, layered, movable, quantity, ratio_axis
from roofcal.report.kit.charts import Chart, Panel, Tip
from roofcal.report.kit.numbers import percent
from roofcal.report.kit.styles import GRID, MUTED

_BAND: Final = 0.1
_TICKS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5)  # ratios beyond sit on the edge


def errors_chart(
    frame: pd.DataFrame, errors: pd.DataFrame, models: Sequence[str], names: Mapping[str, str]
) -> Chart:
    """Predicted over measured time against measured time.

    Args:
        frame: tidy frame of the op.
        errors: residuals of the frame.
        models: of the residuals, the least accurate first.
        names: what people read for each model.
    """
    rows, columns = judged(frame), models_in(frame)
    own: dict[str, pd.Series[float]] = {}
    panels: list[Panel] = []
    for model in reversed(models):
        place, seconds = len(panels), rows[columns[model]]
        low, high = (rows.get(name, seconds * float("nan")) for name in interval_columns(model))
        ratio = seconds / rows["median_s"]
        shown = {"predicted": seconds, "low": low, "high": high, "ratio": ratio, "error": ratio - 1}
        fields = {name: f"{name}{place}" for name in shown}
        own |= {fields[name]: values for name, values in shown.items() if values.notna().any()}
        mape = percent(float(errors.loc[errors["model"] == model, "error"].abs().mean()))
        panels.append(Panel(choice=f"{names[model]}: {mape}", fields=fields, height=340))
    legend = point_legend(rows)
    x = quantity(alt.X, "median_s", "measured time", unit="s")
    y = ratio_axis("ratio", "predicted / measured", _TICKS)
    band = alt.Chart(alt.NamedData("band"))
    within = band.mark_rect(color=GRID, clip=True).encode(
        y=alt.Y("band_low", type="quantitative"), y2="band_high"
    )
    exact = band.mark_rule(color=MUTED, clip=True).encode(y=alt.Y("one", type="quantitative"))
    return Chart(
        spec=layered([within, exact, movable(dots(legend, x=x, y=y))], legend),
        tables={
            "points": chart_points(frame).join(pd.DataFrame(own)),
            "band": pd.DataFrame({"band_low": [1 - _BAND], "band_high": [1 + _BAND], "one": [1.0]}),
        },
        panels=panels,
        x="median_s",
        y="ratio",
        tips=(
            *HEAD_TIPS,
            TIME_TIP,
            Tip(key="predicted", label="predicted", kind="si", unit="s", low="low", high="high"),
            Tip(key="error", label="error", kind="percent"),
            Tip(key="bound_by", label="bound by"),
            *TAIL_TIPS,
        ),
        legend=legend,
        is_shared=True,
    )
