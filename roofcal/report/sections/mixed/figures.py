"""Products with narrow weights: bandwidth against tokens, and the three roofs of int4."""

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import count_of, scaled
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MUTED,
    VERMILLION,
    by_recipe_order,
    log_axis,
    look,
    new_figure,
    provider_marker,
    recipe_colour,
    tick_text,
)
from roofcal.report.sections.bandwidth.figures import levels
from roofcal.report.sections.mixed.tables import (
    CHAINED,
    OP,
    OURS,
    ROOFS,
    TOKENS,
    calibrated,
    curves,
    roofs_of,
    timed,
)

_MOST_PANELS: Final = 4
_PLAIN_RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_weight_only")
_DASHES: Final[dict[str, Any]] = {
    CHAINED: (0, (5, 2)),
    "tinygemm": (0, (1, 1.6)),
    "gemlite": (0, (5, 1.5, 1, 1.5)),
}
# part -> colour and dashes
_PARTS: Final[dict[str, tuple[str, Any]]] = {
    "dram": (BLUE, "-"),
    "slots": (GREEN, (0, (5, 2))),
    "math": (VERMILLION, (0, (1, 1.6))),
    "launch": (GREY, (0, (5, 1.5, 1, 1.5))),
}
_LOWEST: Final = (BLUE, GREY)  # of memory and launch; other parts may lie far below what matters

Curves = Sequence[tuple[int, int]]


def draw_bandwidth(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per weight with many m; None where none has them."""
    rows = timed(frame)
    shapes = curves(rows)[:_MOST_PANELS]
    recipe = _int4_recipe(rows)
    if not shapes or recipe is None:
        return None
    rows = rows[rows["recipe"].isin((*_PLAIN_RECIPES, recipe))]
    with look():
        figure = new_figure(300 * ((len(shapes) + 1) // 2) + 60)
        grid = _grid(figure, shapes)
        for axes, (n, k) in zip(grid, shapes, strict=True):
            _lines(axes, rows[(rows["n"] == n) & (rows["k"] == k)])
            axes.set_title(_sizes(n, k))
        levels(grid, calibration, spec)
        for axes in grid[:: min(2, len(shapes))]:
            axes.set_ylabel("least bytes / time")
        for axes in grid[-min(2, len(shapes)) :]:
            axes.set_xlabel("m")
        _legend(figure, rows)
    some = rows[rows["format"] == "int4"]
    best = row_of_largest(some, "achieved_bytes_per_s")
    facts = (
        f"int4 is {recipe}. Its highest: {best['provider']} at m = {best['m']:,}, "
        f"{_sizes(best['n'], best['k'])}, {scaled(float(best['achieved_bytes_per_s']), 'B/s')}."
    )
    alt = f"Achieved bandwidth against tokens by recipe and provider. {facts}"
    return Picture(key="mixed_bandwidth", figure=figure, op=OP, alt=alt, facts=facts)


def _int4_recipe(rows: pd.DataFrame) -> str | None:
    """The int4 recipe with the largest groups that has a time."""
    found = by_recipe_order([str(r) for r in set(rows.loc[rows["format"] == "int4", "recipe"])], OP)
    symmetric = [recipe for recipe in found if not RECIPES[recipe].b.zero_point]
    return next(reversed(symmetric or found), None)


def _grid(figure: Figure, shapes: Curves) -> list[Axes]:
    """Panels two abreast; no axes where their number is odd."""
    lines, across = (len(shapes) + 1) // 2, min(2, len(shapes))
    grid = figure.subplots(lines, across, squeeze=False, sharex=True, sharey=True)
    panels = list(grid.flat)
    for axes in panels[len(shapes) :]:
        axes.set_visible(False)
    return panels[: len(shapes)]


def _sizes(n: float, k: float) -> str:
    return f"{int(n):,} \N{MULTIPLICATION SIGN} {int(k):,}"


def _lines(axes: Axes, rows: pd.DataFrame) -> None:
    for (recipe, provider), some in rows.groupby(["recipe", "provider"], sort=False):
        ordered = some.sort_values("m")
        axes.plot(
            ordered["m"],
            ordered["achieved_bytes_per_s"],
            color=recipe_colour(str(recipe)),
            marker=provider_marker(str(provider)),
            markeredgewidth=0,
            linestyle=_DASHES.get(str(provider), "-"),
        )
    _token_axis(axes)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, "B/s")))


def _token_axis(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _legend(figure: Figure, rows: pd.DataFrame) -> None:
    recipes = by_recipe_order([str(r) for r in set(rows["recipe"])], OP)
    handles = [Line2D([], [], color=recipe_colour(r), label=r, linewidth=4) for r in recipes]
    handles += [
        Line2D(
            [],
            [],
            color=MUTED,
            marker=provider_marker(provider),
            linestyle=_DASHES.get(provider, "-"),
            label=provider,
        )
        for provider in dict.fromkeys(str(p) for p in rows["provider"])
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=5, handlelength=2.6)


def draw_roofs(frame: pd.DataFrame, calibration: Calibration | None) -> Picture | None:
    """One panel per provider and weight; None without calibrated roofs or a weight of many m."""
    rows = timed(frame)
    shapes, pairs = curves(rows), calibrated(calibration)
    recipe = _int4_recipe(rows[rows["recipe"].isin([name for _, name in pairs])])
    providers = [provider for provider, name in pairs if name == recipe]
    if calibration is None or recipe is None or not shapes or not providers:
        return None
    some = list(dict.fromkeys((shapes[0], shapes[-1])))
    with look():
        figure = new_figure(50 + 280 * len(providers))
        grid = figure.subplots(len(providers), len(some), squeeze=False, sharex=True, sharey="col")
        for line, provider in zip(grid, providers, strict=True):
            line[0].set_ylabel("time")
            for axes, (n, k) in zip(line, some, strict=True):
                here = rows[(rows["provider"] == provider) & (rows["recipe"] == recipe)]
                here = here[(here["n"] == n) & (here["k"] == k)]
                _roofs(axes, calibration, here, (provider, recipe, n, k))
        for axes in grid[-1]:
            axes.set_xlabel("m")
        _least_times(grid)
        _roof_legend(figure)
    facts = _facts(rows, recipe, providers)
    alt = f"Parts of the calibrated time of int4 products against tokens. {facts}"
    return Picture(key="mixed_roofs", figure=figure, op=OP, alt=alt, facts=facts)


def _roofs(
    axes: Axes, calibration: Calibration, rows: pd.DataFrame, which: tuple[str, str, int, int]
) -> None:
    provider, recipe, n, k = which
    parts = roofs_of(calibration, provider, recipe, n, k)
    every = {"dram": parts.dram, "slots": parts.slots, "math": parts.math, "launch": parts.fixed}
    for name, values in every.items():
        colour, dashes = _PARTS[name]
        axes.plot(TOKENS, values, color=colour, linestyle=dashes)
    axes.plot(TOKENS, parts.total, color=INK, linewidth=2)
    axes.plot(rows["m"], rows["median_s"], "o", color=INK, markersize=5)
    _token_axis(axes)
    axes.set_yscale("log")
    log_axis(axes.yaxis, "s")
    _strip(axes, parts.bound_by)
    axes.set_title(f"{provider}, {_sizes(n, k)}")


def _strip(axes: Axes, bound_by: Sequence[str]) -> None:
    """The binding part by m along the top of the panel, in words."""
    start = 0
    for index in range(1, len(bound_by) + 1):
        if index < len(bound_by) and bound_by[index] == bound_by[start]:
            continue
        left, right = float(TOKENS[start]), float(TOKENS[min(index, len(bound_by) - 1)])
        colour, _ = _PARTS[bound_by[start]]
        axes.axvspan(left, right, ymin=0.985, ymax=1, color=colour, linewidth=0)
        if right / left >= 2:
            axes.annotate(
                ROOFS[bound_by[start]],
                xy=((left * right) ** 0.5, 0.975),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                fontsize=10,
            )
        start = index


def _least_times(grid: Any) -> None:
    """Times of a column of panels begin below its shortest launch and memory time."""
    for column in grid.T:
        lines = [line for axes in column for line in axes.lines if line.get_color() in _LOWEST]
        low = min(float(min(line.get_ydata())) for line in lines)
        column[0].set_ylim(bottom=0.7 * low)


def _roof_legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=dashes, label=ROOFS[name])
        for name, (colour, dashes) in _PARTS.items()
    ]
    handles.append(Line2D([], [], color=INK, linewidth=2, label="predicted"))
    handles.append(Line2D([], [], color=INK, marker="o", linestyle="", label="measured"))
    figure.legend(handles=handles, loc="outside upper left", ncols=6, handlelength=2.6)


def _facts(rows: pd.DataFrame, recipe: str, providers: Sequence[str]) -> str:
    some = rows[(rows["recipe"] == recipe) & rows["provider"].isin(providers)]
    ours = [name for name in providers if name in OURS]
    return (
        f"{recipe}, {count_of(len(some), 'measured point')} by {', '.join(providers)}; our kernels "
        f"among them: {', '.join(ours) or 'none'}."
    )
