"""The roofline as a chart: points below the roofs of the datasheet and of the calibration."""

from collections.abc import Iterator
from typing import Any, Final

import altair as alt
import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.points.roofs import ceilings, constants_of, stream_rates
from roofcal.report.data.drawing import (
    BYTES_TIP,
    FLOPS_TIP,
    HEAD_TIPS,
    TAIL_TIPS,
    TIME_TIP,
    chart_points,
    point_legend,
    recipe_colour,
)
from roofcal.report.kit.chart_parts import DASH, count_axis, dots, layered, lines, movable, quantity
from roofcal.report.kit.charts import Chart, LegendEntry, Panel, Tip
from roofcal.report.kit.numbers import count_of, scaled, times
from roofcal.report.kit.styles import MUTED

_DATASHEET: Final = "datasheet"
_CLOCK: Final = ".sustained_sm_clock_hz"
_CLEARLY_HIGHER: Final = 1.05  # clocks


def roofline_chart(
    frame: pd.DataFrame,
    rows: pd.DataFrame,
    calibration: Calibration | None,
    spec: DeviceSpec | None,
) -> Chart:
    """A panel per number format.

    Args:
        frame: tidy frame of the op.
        rows: its rows that are drawn, with their columns `math_dtype` and `intensity`.
        calibration: of the run.
        spec: datasheet of its device.
    """
    factor = factors_above_roof(rows, calibration)
    above = factor.map(lambda value: f"{times(value)} the fastest probe", na_action="ignore")
    columns = rows[["math_dtype", "intensity"]].assign(above=above.astype(object))
    roofs = pd.DataFrame(_roofs(rows, calibration, spec), columns=list(_ROOF_COLUMNS))
    legend = point_legend(rows)
    if (roofs["recipe"] == _DATASHEET).any():
        legend.append(LegendEntry(field="recipe", value=_DATASHEET, colour=MUTED, dash=DASH))
    x = count_axis("intensity", "arithmetic intensity, FLOP per byte")
    y = quantity(alt.Y, "achieved_flops_per_s", "FLOP/s")
    roof = lines("roofs", legend[:1], x=x, y=y, detail=alt.Detail("recipe", type="nominal"))
    return Chart(
        spec=layered([roof, movable(dots(legend, x=x, y=y))], legend),
        tables={"points": chart_points(frame).join(columns), "roofs": roofs},
        panels=[
            Panel(title=_title(dtype, spec), where={"math_dtype": dtype})
            for dtype in dict.fromkeys(rows.sort_values("recipe")["math_dtype"])
        ],
        x="intensity",
        y="achieved_flops_per_s",
        tips=(
            *HEAD_TIPS,
            TIME_TIP,
            FLOPS_TIP,
            BYTES_TIP,
            Tip(key="above", label="above its roof"),
            *TAIL_TIPS,
        ),
        legend=legend,
        is_shared=True,
    )


def _title(dtype: str, spec: DeviceSpec | None) -> str:
    peak = spec.peak_flops_per_s.get(dtype) if spec else None
    return dtype if peak is None else f"{dtype}: datasheet {scaled(peak, 'flop/s')}"


_ROOF_COLUMNS: Final = (
    "math_dtype",
    "recipe",
    "colour",
    "dashed",
    "intensity",
    "achieved_flops_per_s",
)


def _roofs(
    rows: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Iterator[tuple[Any, ...]]:
    """Corners of the roof of each number format and of each recipe."""
    low, high = rows["intensity"].min() / 2, rows["intensity"].max() * 2
    floor = rows["achieved_flops_per_s"].min() / 1.6  # where the axis begins

    def corners(peak: float, slope: float) -> list[tuple[float, float]]:
        start = min(max(low, floor / slope), high)
        turn = min(max(peak / slope, start), high)
        return [(i, min(peak, i * slope)) for i in (start, turn, high)]

    slope = max((rate.value for rate in stream_rates(calibration)), default=None)
    peaks = ceilings(calibration)
    for dtype, of_dtype in rows.groupby("math_dtype", sort=False):
        peak = spec.peak_flops_per_s.get(str(dtype)) if spec else None
        if spec is not None and peak is not None:
            for corner in corners(peak, spec.dram_bytes_per_s):
                yield dtype, _DATASHEET, MUTED, 1, *corner
        for recipe in dict.fromkeys(map(str, of_dtype["recipe"])):
            if slope and recipe in peaks:
                for corner in corners(peaks[recipe], slope):
                    yield dtype, recipe, recipe_colour(recipe), 0, *corner


def factors_above_roof(rows: pd.DataFrame, calibration: Calibration | None) -> "pd.Series[float]":
    """Rate over calibrated roof of each point above it; NaN for the others."""
    slope = max((rate.value for rate in stream_rates(calibration)), default=np.nan)
    peaks = ceilings(calibration)
    peak = rows["recipe"].map(lambda name: peaks.get(str(name), np.nan)).astype(float)
    factor = rows["achieved_flops_per_s"] / np.minimum(peak, rows["intensity"] * slope)
    above: pd.Series[float] = factor.where(factor > 1)
    return above


def above_roof_text(rows: pd.DataFrame, calibration: Calibration | None) -> str:
    """A sentence on why points lie above their calibrated roof; "" where none does."""
    factor = factors_above_roof(rows, calibration).dropna()
    if factor.empty:
        return ""
    clock = float(rows.loc[factor.index, "sm_clock_hz"].median())
    sustained = [c.value for name, c in constants_of(calibration).items() if name.endswith(_CLOCK)]
    reason = "the roof is the rate of the fastest probe, and no probe ran at that rate"
    if sustained and clock > _CLEARLY_HIGHER * max(sustained):
        reason += (
            f"; their clock was {scaled(clock, 'Hz')} (median) where probes under full load held "
            f"{scaled(max(sustained), 'Hz')} at most"
        )
    lie = count_of(len(factor), "point lies", "points lie")
    return f" {lie} above the calibrated roof, by up to {times(float(factor.max()))}: {reason}."
