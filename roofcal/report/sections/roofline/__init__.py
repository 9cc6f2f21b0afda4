"""A roofline per op: achieved rate against arithmetic intensity."""

from collections.abc import Iterator, Mapping
from math import isnan, nan
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME
from roofcal.points.roofs import COPY, ceilings, constants_of, stream_rates
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import FastestProduct
from roofcal.report.data.tidy import axes_of, row_of_largest, standard_rows
from roofcal.report.kit import charts
from roofcal.report.kit.charts import MUTED, Picture
from roofcal.report.kit.numbers import count_of, percent, scaled, shape_text, times
from roofcal.report.section import Answer, Item, Section

BURST_RECIPE: Final = "bf16"
_CLEARLY_FASTER: Final = 1.02
_DATASHEET: Final = "datasheet"
_CLOCK: Final = ".sustained_sm_clock_hz"
_CLEARLY_HIGHER: Final = 1.05  # clocks
_PANEL_PX: Final = 240
# Views of the chart
_TOP: Final = "top decade"
_SHARE: Final = "share of the calibrated roof"
_ALL: Final = "all points"
_TOP_SHARE: Final = 0.1
_CALIBRATED: Final = "calibrated"
_ROOF_COLUMNS: Final = ["recipe", "roof", "colour", "dashed"]
_CORNER: Final = ["intensity", "achieved_flops_per_s"]


def settled_sentences(analysis: Analysis) -> Iterator[str]:
    """The fastest product of any recipe and of bf16, beside the datasheet and a burst; copies."""
    products = list(analysis.fastest.values())
    parts = []
    for product in [p for n, p in enumerate(products) if n == 0 or p.recipe == BURST_RECIPE]:
        rate, dtype = product.rate, GEMM_RECIPES[product.recipe].math_dtype
        ends = " to ".join(scaled(end, "flop/s") for end in (rate.ci95_low, rate.ci95_high))
        peak = analysis.spec.peak_flops_per_s.get(dtype) if analysis.spec else None
        parts.append(
            f"{scaled(rate.value, 'flop/s')} ({ends}) in {product.recipe} by {product.provider} at "
            f"{product.shape}{_datasheet_text(rate.value / peak if peak else None)}"
        )
    baseline = analysis.fastest.get(BURST_RECIPE)
    burst, more = first_turn(baseline), ""
    if baseline and burst is not None:
        more = (
            f" A benchmark of a few milliseconds prints more: {BURST_RECIPE} began with "
            f"{scaled(burst, 'flop/s')} at {baseline.burst_shape}."
        )
    if parts:
        yield f"Its fastest products, settled: {'; '.join(parts)}.{more}"
    if analysis.run.calibration is None:
        yield "Nothing is calibrated: the run has no calibration.jsonl, so no model is judged here."
        return
    copy = analysis.constants.get(COPY)
    if copy is not None:
        share = copy.value / analysis.spec.dram_bytes_per_s if analysis.spec else None
        yield f"Memory copies at {scaled(copy.value, 'B/s')}{_datasheet_text(share)}."


def first_turn(product: FastestProduct | None) -> float | None:
    """The fastest first turn of a recipe, FLOP/s; None where its clock did not come down.

    An H200 needs two seconds at its power limit to come down from 1965 to about 1400 MHz.
    """
    if product is None or product.burst is None:
        return None
    return product.burst if product.burst >= _CLEARLY_FASTER * product.rate.value else None


def _datasheet_text(share: float | None) -> str:
    return "" if share is None else f" ({percent(share, 0)} of the datasheet)"


def show(analysis: Analysis) -> Iterator[Item]:
    """The roofline of each op, and the fastest products as the answer."""
    calibration, spec = analysis.run.calibration, analysis.spec
    if calibration is None:
        yield Answer("Cannot be told here: the run is not calibrated.", is_open=True)
    else:
        yield Answer(" ".join(settled_sentences(analysis)))
    for op in analysis.studies:
        yield draw_roofline(analysis.frames[op], calibration, spec)


def draw_roofline(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per recipe; None for an op that computes nothing, or without any time."""
    rows = standard_rows(frame)
    rows = rows[rows["flops"] > 0]
    if rows.empty:
        return None
    op = str(rows["op"].iloc[0])
    axes = axes_of(rows)
    # the dtype whose datasheet rate each row runs at
    dtypes = {
        row["recipe"]: BY_NAME[op].work(row["recipe"], {a: int(row[a]) for a in axes}).math_dtype
        for row in rows.drop_duplicates("recipe").to_dict("records")
    }
    rows = rows.assign(
        math_dtype=[dtypes[recipe] or "" for recipe in rows["recipe"]],
        intensity=rows["flops"] / rows["dram_bytes"],
    )
    best = row_of_largest(rows, "achieved_flops_per_s")
    rate = scaled(float(best["achieved_flops_per_s"]), "flop/s")
    shape = shape_text(best[axes])
    slope = max((one.value for one in stream_rates(calibration)), default=nan)
    rates = ceilings(calibration)
    roof = np.minimum(rows["recipe"].map(rates).astype(float), rows["intensity"] * slope)
    factor = rows["achieved_flops_per_s"] / roof
    fastest = rows.groupby("recipe")["achieved_flops_per_s"].transform("max")
    is_top = rows["achieved_flops_per_s"] >= _TOP_SHARE * fastest
    above = factor.where(factor > 1)
    columns = rows[["intensity"]].assign(
        is_top=is_top.astype(int),
        roof_percent=(100 * factor).round(1),
        above=above.map(lambda value: f"{times(value)} the fastest probe", na_action="ignore"),
    )
    columns["above"] = columns["above"].astype(object)
    drawn = {_TOP: rows[is_top], _SHARE: rows, _ALL: rows}
    roofs = pd.DataFrame(
        [
            (view, *corner)
            for view, own in drawn.items()
            for corner in _roofs(own, rates, slope, spec)
        ],
        columns=["view", *_ROOF_COLUMNS, *_CORNER],
    )
    is_calibrated = roofs["roof"] == _CALIBRATED
    roofs["roof_percent"] = np.where(is_calibrated, 100.0, nan)
    peaks = spec.peak_flops_per_s if spec else {}
    titles = {}
    for recipe in drawing.in_recipe_order(rows["recipe"], op):
        peak = peaks.get(dtypes[recipe] or "")
        roofs_of = {_CALIBRATED: rates.get(recipe), _DATASHEET: peak}
        parts = [f"{roof} {scaled(rate, 'flop/s')}" for roof, rate in roofs_of.items() if rate]
        titles[recipe] = ": ".join(filter(None, (recipe, ", ".join(parts))))
    share = charts.Axis("roof_percent", "share of the calibrated roof", "plain", unit=" %")
    legend = drawing.point_legend(rows)
    if (roofs["roof"] == _DATASHEET).any():
        legend.append(charts.LegendEntry("roof", _DATASHEET, MUTED, dash=charts.DASH))
    return Picture(
        key="roofline",
        op=op,
        x=charts.Axis("intensity", "arithmetic intensity, FLOP per byte", "count"),
        y=charts.Axis("achieved_flops_per_s", "FLOP/s"),
        layers=[charts.Layer("line", table="roofs", detail="roof"), charts.Layer("dots")],
        tables={"points": drawing.chart_points(frame).join(columns), "roofs": roofs},
        panels=[
            charts.Panel(
                title=title,
                choice=view,
                where={"recipe": recipe, "view": view} | ({"is_top": 1} if view == _TOP else {}),
                y=share if view == _SHARE else None,
                height=_PANEL_PX,
            )
            for view in drawn
            if view != _SHARE or is_calibrated.any()
            for recipe, title in titles.items()
        ],
        columns=3,
        tips=drawing.point_tips(
            drawing.TIME_TIP,
            drawing.FLOPS_TIP,
            drawing.BYTES_TIP,
            charts.Tip("roof_percent", "share of its roof, %", "count"),
            charts.Tip("above", "above its roof"),
        ),
        legend=legend,
        is_shared=True,
        alt=f"Roofline plot of {op}, one panel per recipe.",
        facts=f"{count_of(len(rows), 'point')}. The fastest point is {best['recipe']} at {rate} "
        f"({shape}).{_above_roof_text(above.dropna(), rows, calibration)}"
        f"{charts.thinning_note(len(rows))}",
    )


def _roofs(
    rows: pd.DataFrame, rates: Mapping[str, float], bytes_per_s: float, spec: DeviceSpec | None
) -> Iterator[tuple[Any, ...]]:
    """Corners of the roofs of each recipe: that of its number format, and its own.

    rates: recipe -> calibrated FLOP/s; bytes_per_s: calibrated, not a number without a calibration.
    """
    roofs: list[tuple[str, str, str, int, float, float]] = []
    dtypes = rows.drop_duplicates("recipe").set_index("recipe")["math_dtype"]
    for name, dtype in dtypes.items():
        if spec is not None and dtype in spec.peak_flops_per_s:
            peak = spec.peak_flops_per_s[str(dtype)]
            roofs.append((str(name), _DATASHEET, MUTED, 1, peak, spec.dram_bytes_per_s))
        if name in rates and not isnan(bytes_per_s):
            colour = drawing.recipe_colour(str(name))
            roofs.append((str(name), _CALIBRATED, colour, 0, rates[str(name)], bytes_per_s))
    low, high = rows["intensity"].min() / 2, rows["intensity"].max() * 2
    floor = rows["achieved_flops_per_s"].min() / 1.6  # where the axis begins
    for *of_roof, peak, slope in roofs:
        start = min(max(low, floor / slope), high)
        for intensity in (start, min(max(peak / slope, start), high), high):
            yield *of_roof, intensity, min(peak, intensity * slope)


def _above_roof_text(factor: pd.Series, rows: pd.DataFrame, calibration: Calibration | None) -> str:
    """A sentence on why points lie above their calibrated roof; "" where none does.

    factor: rate over roof of the rows that lie above it.
    """
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


SECTION = Section("Roofline", "roofs", show, lead=("roofline",))
