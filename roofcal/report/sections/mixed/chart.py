"""Bandwidth of products with narrow weights as a chart: a panel per weight, tokens across."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.report.data.drawing import (
    BYTES_TIP,
    HEAD_TIPS,
    TAIL_TIPS,
    TIME_TIP,
    bandwidth_levels,
    point_legend,
    styled_points,
)
from roofcal.report.kit.chart_parts import (
    count_axis,
    dots,
    layered,
    lines,
    movable,
    quantity,
    rules,
)
from roofcal.report.kit.charts import Chart, Panel, Tip
from roofcal.report.kit.numbers import shape_text


def mixed_bandwidth_chart(
    rows: pd.DataFrame,
    weights: Sequence[tuple[int, int]],
    calibration: Calibration | None,
    spec: DeviceSpec | None,
) -> Chart:
    """Lines of the rows by recipe and provider.

    Args:
        rows: points of the recipes that are compared.
        weights: n x k of the panels.
        calibration: of the run.
        spec: datasheet of its device.
    """
    drawn = rows[[pair in set(weights) for pair in zip(rows["n"], rows["k"], strict=True)]]
    points = styled_points(drawn).assign(
        m=drawn["m"],
        weight=[shape_text(pair) for pair in drawn[["n", "k"]].to_numpy()],
        series=drawn["recipe"] + " by " + drawn["provider"],
        relative_error=drawn["relative_error"],
    )
    levels, level_entries = bandwidth_levels(calibration, spec)
    legend = [*point_legend(drawn), *level_entries]
    x = count_axis("m", "tokens m")
    y = quantity(alt.Y, "achieved_bytes_per_s", "B/s", linear=True)
    curves = lines("points", legend[:1], 1.6, x=x, y=y, detail=alt.Detail("series", type="nominal"))
    return Chart(
        spec=layered(
            [rules("levels", legend[:1], y=y), curves, movable(dots(legend, x=x, y=y))], legend
        ),
        tables={"points": points, "levels": levels},
        panels=[
            Panel(title=f"weights {text}", where={"weight": text})
            for text in map(shape_text, weights)
        ],
        x="m",
        y="achieved_bytes_per_s",
        tips=(
            *HEAD_TIPS,
            BYTES_TIP,
            TIME_TIP,
            Tip(key="relative_error", label="error of prediction", kind="percent"),
            *TAIL_TIPS,
        ),
        legend=legend,
    )
