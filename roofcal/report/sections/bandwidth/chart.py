"""Bandwidth as charts: memory streams over buffer size, and casts over the bytes they move."""

from collections.abc import Sequence
from typing import Any

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
from roofcal.report.kit.chart_parts import byte_axis, dots, layered, lines, movable, quantity, rules
from roofcal.report.kit.charts import MOST_ROWS, Chart, LegendEntry, Panel
from roofcal.report.kit.numbers import binary
from roofcal.report.kit.pictures import thinned
from roofcal.report.kit.styles import MUTED


def bandwidth_chart(
    panels: Sequence[tuple[str, pd.DataFrame]],
    x_title: str,
    calibration: Calibration | None,
    spec: DeviceSpec | None,
    cache_bytes: float | None = None,
) -> Chart:
    """A panel per title, with the bandwidths of datasheet and calibration.

    Args:
        panels: (title, rows with their column `size`, bytes).
        x_title: what the size is.
        calibration: of the run.
        spec: datasheet of its device.
        cache_bytes: size of the cache, for streams alone: their points are joined by lines.
    """
    rows = pd.concat([group.assign(panel=title) for title, group in panels])
    drawn = thinned(rows, MOST_ROWS)
    series = drawn["recipe"] + " by " + drawn["provider"]
    points = styled_points(drawn).assign(size=drawn["size"], panel=drawn["panel"], series=series)
    levels, level_entries = bandwidth_levels(calibration, spec)
    legend = [*point_legend(drawn), *level_entries]
    x = byte_axis("size", x_title)
    y = quantity(alt.Y, "achieved_bytes_per_s", "B/s", linear=True)
    layers: list[Any] = [rules("levels", legend[:1], y=y)]
    tables = {"points": points, "levels": levels}
    if cache_bytes is not None:
        detail = alt.Detail("series", type="nominal")
        layers.append(lines("points", legend, 1.4, x=x, y=y, detail=detail))
        cache = {"recipe": ["cache"], "size": [cache_bytes], "dashed": [0], "colour": [MUTED]}
        tables["cache"] = pd.DataFrame(cache)
        layers.append(rules("cache", legend[:1], x=x))
        label = f"cache {binary(cache_bytes)} (upright)"
        legend.append(LegendEntry(field="recipe", value="cache", label=label, colour=MUTED))
    return Chart(
        spec=layered([*layers, movable(dots(legend, x=x, y=y))], legend),
        tables=tables,
        panels=[Panel(title=title, where={"panel": title}) for title, _ in panels],
        x="size",
        y="achieved_bytes_per_s",
        tips=(*HEAD_TIPS, BYTES_TIP, TIME_TIP, *TAIL_TIPS),
        legend=legend,
    )
