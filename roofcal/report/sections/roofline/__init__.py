"""A roofline per op: achieved rate against arithmetic intensity."""

from collections.abc import Iterator
from typing import Final

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
_VIEWS: Final = (_TOP, _SHARE, _ALL)
_TOP_SHARE: Final = 0.1
_CALIBRATED: Final = "calibrated"


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
    op, rates = str(rows["op"].iloc[0]), rows["achieved_flops_per_s"]
    rows = rows.assign(intensity=rows["flops"] / rows["dram_bytes"])
    roofs = _roofs(rows, calibration, spec)
    own = roofs[roofs["roof"] == _CALIBRATED].set_index("recipe")
    flat, slope = (rows["recipe"].map(own[name]).astype(float) for name in ("peak", "slope"))
    share = rates / np.minimum(flat, rows["intensity"] * slope)
    is_top = rates >= _TOP_SHARE * rates.groupby(rows["recipe"]).transform("max")
    above = share[share > 1].map(lambda factor: f"{times(factor)} the fastest probe")
    columns = rows[["intensity"]].assign(
        is_top=is_top.astype(int),
        roof_percent=(100 * share).round(1),
        above=above.astype(object).reindex(rows.index),
    )
    views = {_TOP: rows[is_top], _ALL: rows} | ({_SHARE: rows} if len(own) else {})
    titles = {}
    for recipe in drawing.in_recipe_order(rows["recipe"], op):
        of_recipe = roofs.loc[roofs["recipe"] == recipe, ["roof", "peak"]][::-1]
        parts = [f"{roof} {scaled(peak, 'flop/s')}" for roof, peak in of_recipe.itertuples(False)]
        titles[recipe] = ": ".join(filter(None, (recipe, ", ".join(parts))))
    legend = drawing.point_legend(rows)
    if (roofs["roof"] == _DATASHEET).any():
        legend.append(charts.LegendEntry("roof", _DATASHEET, MUTED, dash=charts.DASH))
    best = row_of_largest(rows, "achieved_flops_per_s")
    return Picture(
        key="roofline",
        op=op,
        x=charts.Axis("intensity", "arithmetic intensity, FLOP per byte", "count"),
        y=charts.Axis("achieved_flops_per_s", "FLOP/s"),
        layers=[charts.Layer("line", table="roofs", detail="roof"), charts.Layer("dots")],
        tables={
            "points": drawing.chart_points(frame).join(columns),
            "roofs": pd.concat(
                [_corners(roofs, drawn).assign(view=view) for view, drawn in views.items()]
            ),
        },
        panels=[
            charts.Panel(
                title=title,
                choice=view,
                where={"recipe": recipe, "view": view} | ({"is_top": 1} if view == _TOP else {}),
                y=charts.Axis("roof_percent", _SHARE, "plain", unit=" %")
                if view == _SHARE
                else None,
                height=_PANEL_PX,
            )
            for view in _VIEWS
            if view in views
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
        facts=f"{count_of(len(rows), 'point')}. The fastest point is {best['recipe']} at "
        f"{scaled(float(best['achieved_flops_per_s']), 'flop/s')} "
        f"({shape_text(best[axes_of(rows)])}).{_above_roof_text(share, rows, calibration)}"
        f"{charts.thinning_note(len(rows))}",
    )


def _roofs(
    rows: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> pd.DataFrame:
    """The roofs of each recipe, its own and that of its number format: FLOP/s and bytes/s."""
    rates, op = ceilings(calibration), BY_NAME[str(rows["op"].iloc[0])]
    bytes_per_s = max((one.value for one in stream_rates(calibration)), default=None)
    roofs: list[tuple[str, str, str, int, float, float]] = []
    for row in rows.drop_duplicates("recipe").to_dict("records"):
        recipe, shape = str(row["recipe"]), {axis: int(row[axis]) for axis in op.axes}
        peak = spec.peak_flops_per_s.get(op.work(recipe, shape).math_dtype or "") if spec else None
        if spec is not None and peak is not None:
            roofs.append((recipe, _DATASHEET, MUTED, 1, peak, spec.dram_bytes_per_s))
        if recipe in rates and bytes_per_s is not None:
            colour = drawing.recipe_colour(recipe)
            roofs.append((recipe, _CALIBRATED, colour, 0, rates[recipe], bytes_per_s))
    columns = ["recipe", "roof", "colour", "dashed", "peak", "slope"]
    return pd.DataFrame(roofs, columns=columns).astype({"peak": float, "slope": float})


def _corners(roofs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The line of each roof above rows: where it begins, becomes flat, and ends."""
    low, high = rows["intensity"].min() / 2, rows["intensity"].max() * 2
    floor = rows["achieved_flops_per_s"].min() / 1.6  # where the axis begins
    start = np.clip(floor / roofs["slope"], low, high)
    knee = np.clip(roofs["peak"] / roofs["slope"], start, high)
    ends = [roofs.assign(intensity=at) for at in (start, knee, high)]
    lines = pd.concat(ends).sort_index(kind="stable")
    return lines.drop(columns=["peak", "slope"]).assign(
        achieved_flops_per_s=np.minimum(lines["peak"], lines["intensity"] * lines["slope"]),
        roof_percent=np.where(lines["roof"] == _CALIBRATED, 100.0, np.nan),
    )


def _above_roof_text(share: pd.Series, rows: pd.DataFrame, calibration: Calibration | None) -> str:
    """A sentence on why points lie above their calibrated roof; "" where none does.

    share: rate over roof of the rows.
    """
    factor = share[share > 1]
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
