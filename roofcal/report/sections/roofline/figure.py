"""Achieved rate against arithmetic intensity, under the datasheet's roof and the calibrated one."""

from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME
from roofcal.report.data.tidy import axes_of, ok_rows, row_of_largest, standard_protocol
from roofcal.report.kit.numbers import count_of, scaled
from roofcal.report.kit.pictures import Picture, thinned, thinning_note
from roofcal.report.kit.styles import (
    MUTED,
    PAPER,
    by_recipe_order,
    log_axis,
    look,
    new_figure,
    provider_marker,
    recipe_colour,
)

_MOST: Final = 1200  # per panel
_COLUMNS: Final = 2


def draw(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per math dtype; None for an op that computes nothing, or without any time."""
    rows = ok_rows(frame[standard_protocol(frame)])
    rows = rows[rows["flops"] > 0]
    if rows.empty:
        return None
    op = str(rows["op"].iloc[0])
    rows = rows.assign(math_dtype=_math_dtypes(rows), intensity=rows["flops"] / rows["dram_bytes"])
    dtypes = [str(d) for d in dict.fromkeys(rows.sort_values("recipe")["math_dtype"])]
    lines = -(-len(dtypes) // _COLUMNS)
    with look():
        figure = new_figure(360 * lines + 20)
        grid = figure.subplots(
            lines, min(len(dtypes), _COLUMNS), squeeze=False, sharex=True, sharey=True
        )
        panels = list(grid.flat)
        for axes, dtype in zip(panels, dtypes, strict=False):
            _panel(axes, rows[rows["math_dtype"] == dtype], dtype, calibration, spec)
        for axes in panels[len(dtypes) :]:
            axes.set_visible(False)
        _name_axes(grid, rows)
    drawn = sum(min(_MOST, int((rows["math_dtype"] == dtype).sum())) for dtype in dtypes)
    best = row_of_largest(rows, "achieved_flops_per_s")
    rate = scaled(float(best["achieved_flops_per_s"]), "flop/s")
    fastest = f"The fastest point is {best['recipe']} at {rate} ({_shape(best)})."
    return Picture(
        key="roofline",
        figure=figure,
        op=op,
        alt=f"Roofline plot of {len(rows):,} {op} points, one panel per number format. {fastest}",
        facts=f"{count_of(len(rows), 'point')}. {fastest}{thinning_note(drawn, len(rows))}",
    )


def _math_dtypes(rows: pd.DataFrame) -> list[str]:
    """The dtype whose datasheet rate each row runs at."""
    op, axes = BY_NAME[str(rows["op"].iloc[0])], axes_of(rows)
    first = rows.drop_duplicates("recipe").set_index("recipe")
    known = {
        str(recipe): op.work(str(recipe), {axis: int(row[axis]) for axis in axes}).math_dtype
        for recipe, row in first.iterrows()
    }
    return [known[recipe] or "" for recipe in rows["recipe"]]


def _shape(row: "pd.Series[Any]") -> str:
    names = list(row.index)
    axes = names[names.index("recipe") + 1 : names.index("world_size")]
    return " \N{MULTIPLICATION SIGN} ".join(f"{row[axis]:,}" for axis in axes)


def _panel(
    axes: Axes,
    rows: pd.DataFrame,
    dtype: str,
    calibration: Calibration | None,
    spec: DeviceSpec | None,
) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    span = np.geomspace(rows["intensity"].min() / 2, rows["intensity"].max() * 2, 200)
    _datasheet_roof(axes, span, dtype, spec)
    some = thinned(rows, _MOST)
    for recipe in by_recipe_order([str(r) for r in set(rows["recipe"])], str(rows["op"].iloc[0])):
        _calibrated_roof(axes, span, recipe, calibration)
        _points(axes, some[some["recipe"] == recipe], recipe)
    axes.set_title(dtype)
    axes.legend(loc="lower right", handletextpad=0.1)


def _points(axes: Axes, rows: pd.DataFrame, recipe: str) -> None:
    for provider, group in rows.groupby("provider"):
        several = rows["provider"].nunique() > 1
        sns.scatterplot(
            data=group,
            x="intensity",
            y="achieved_flops_per_s",
            ax=axes,
            color=recipe_colour(recipe),
            edgecolor=PAPER,
            linewidth=0.3,
            s=17,
            marker=provider_marker(str(provider)),
            label=f"{recipe}, {provider}" if several else recipe,
            legend=False,
        )


def _datasheet_roof(axes: Axes, span: Any, dtype: str, spec: DeviceSpec | None) -> None:
    peak = spec.peak_flops_per_s.get(dtype) if spec else None
    if spec is None or peak is None:
        return
    line = np.minimum(peak, span * spec.dram_bytes_per_s)
    axes.plot(span, line, color=MUTED, linestyle=(0, (5, 2.5)), linewidth=1.1)
    text = f"datasheet {scaled(peak, 'flop/s')}, {scaled(spec.dram_bytes_per_s, 'B/s')}"
    _beside(axes, text, span[-1], peak)


def _beside(axes: Axes, text: str, x: float, y: float) -> None:
    axes.annotate(
        text,
        xy=(x, y),
        xytext=(-2, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=MUTED,
        fontsize=10,
    )


def _calibrated_roof(axes: Axes, span: Any, recipe: str, calibration: Calibration | None) -> None:
    constants = calibration.constants if calibration else {}
    peaks = [c.value for n, c in constants.items() if n.endswith(f".{recipe}.ceiling_flops_per_s")]
    kinds = [f"dram_{kind}_bytes_per_s" for kind in ("read", "write", "copy")]
    slopes = [constants[name].value for name in kinds if name in constants]
    if peaks and slopes:
        line = np.minimum(max(peaks), span * max(slopes))
        axes.plot(span, line, color=recipe_colour(recipe), linewidth=1.3)


def _name_axes(grid: Any, rows: pd.DataFrame) -> None:
    for axes in grid[-1]:
        axes.set_xlabel("arithmetic intensity, FLOP per byte of least traffic")
    for axes in grid[:, 0]:
        axes.set_ylabel("achieved rate")
    for axes in grid.flat:
        log_axis(axes.yaxis, "flop/s")
        log_axis(axes.xaxis, "", base=4)
        axes.set_ylim(bottom=rows["achieved_flops_per_s"].min() / 1.6)
        if axes not in grid[-1]:
            axes.set_xlabel("")
        if axes not in grid[:, 0]:
            axes.set_ylabel("")
