"""All-gathers fused with their product: speed-up against the ideal, what is hidden, ranks apart."""

from collections.abc import Sequence
from math import isnan
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from roofcal.ops.all_gather_matmul import spec
from roofcal.report.data.tidy import RANK_SPREAD, row_of_largest
from roofcal.report.kit.numbers import count_of, percent, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import (
    BLUE,
    INK,
    MUTED,
    PAPER,
    VERMILLION,
    by_recipe_order,
    look,
    new_figure,
    provider_marker,
    recipe_colour,
)
from roofcal.report.sections.gathered.overlap import FUSED, GRAPH, OP, ranks

_BY: Final = " \N{MULTIPLICATION SIGN} "
_ROW_PX: Final = 21
_COLOURS: Final = {spec.OURS: BLUE, spec.TORCH: VERMILLION}
_LOWEST: Final = -2.0  # of what is hidden; lower ones stand in the table
_RATIOS: Final = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)


def draw_speedup(table: pd.DataFrame) -> Picture | None:
    """A row per shape, a panel per world size and recipe; None where nothing fused has a time."""
    rows = table[table["provider"].isin(FUSED)]
    if rows.empty:
        return None
    sizes, recipes = _sizes(rows), _recipes(rows)
    shapes = {size: _shapes(rows[rows["world_size"] == size]) for size in sizes}
    heights = [len(shapes[size]) + 2 for size in sizes]
    with look():
        figure = new_figure(90 + _ROW_PX * sum(heights))
        grid = figure.subplots(
            len(sizes), len(recipes), squeeze=False, sharex=True, height_ratios=heights
        )
        for line, size in zip(grid, sizes, strict=True):
            for axes, recipe in zip(line, recipes, strict=True):
                some = rows[(rows["world_size"] == size) & (rows["recipe"] == recipe)]
                _speedups(axes, some, shapes[size], labelled=axes is line[0])
                axes.set_title(f"{size} GPUs, {recipe}")
        for axes in grid[-1]:
            axes.set_xlabel("speed-up over NCCL and product")
        _legend(figure, rows)
    facts = _facts(rows)
    alt = f"Speed-up of fused all-gathers and products by shape, beside the ideal. {facts}"
    return Picture(key="gathered_speedup", figure=figure, op=OP, alt=alt, facts=facts)


def _sizes(rows: pd.DataFrame) -> list[int]:
    return sorted({int(size) for size in rows["world_size"]})


def _recipes(rows: pd.DataFrame) -> list[str]:
    return by_recipe_order([str(recipe) for recipe in set(rows["recipe"])], OP)


def _shapes(rows: pd.DataFrame) -> list[tuple[int, int, int]]:
    """Shapes by weights, then rows."""
    found = {(int(n), int(k), int(m)) for m, n, k in rows[["m", "n", "k"]].to_numpy()}
    return [(m, n, k) for n, k, m in sorted(found, key=lambda s: (s[0] * s[1], *s))]


def _speedups(
    axes: Axes, rows: pd.DataFrame, shapes: Sequence[tuple[int, int, int]], *, labelled: bool
) -> None:
    places = [
        shapes.index((int(m), int(n), int(k))) for m, n, k in rows[["m", "n", "k"]].to_numpy()
    ]
    placed = rows.assign(place=places)
    axes.axvline(1, color=MUTED, linewidth=0.9)
    captured = placed[placed["mode"] == GRAPH]
    ideal = (captured if len(captured) else placed).drop_duplicates("place")
    axes.scatter(ideal["ideal"], ideal["place"], color=INK, marker="|", s=150, linewidth=1.6)
    for (provider, mode), some in placed.groupby(["provider", "mode"], sort=False):
        axes.scatter(
            some["speedup"], some["place"], marker=provider_marker(str(provider)), s=42, zorder=3,
            **_fill(_COLOURS[str(provider)], filled=mode == GRAPH),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_RATIOS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}\N{MULTIPLICATION SIGN}"))
    labels = [_BY.join(f"{side:,}" for side in shape) for shape in shapes]
    axes.set_yticks(range(len(shapes)), labels if labelled else [""] * len(shapes))
    axes.set_ylim(len(shapes) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _fill(colour: str, *, filled: bool) -> dict[str, Any]:
    """Filled markers of graphs, open ones of eager calls."""
    if filled:
        return {"facecolor": colour, "edgecolor": PAPER, "linewidth": 0.6}
    return {"facecolor": "none", "edgecolor": colour, "linewidth": 1.2}


def _legend(figure: Figure, rows: pd.DataFrame) -> None:
    known = [name for name in FUSED if name in set(rows["provider"])]
    handles = [_dot(_COLOURS[name], provider_marker(name), name) for name in known]
    ideal = Line2D([], [], color=INK, marker="|", linestyle="", markersize=11, label="ideal")
    figure.legend(
        handles=[*handles, *_modes(rows), ideal], loc="outside upper left", ncols=6,
        handlelength=1.4,
    )  # fmt: skip


def _dot(colour: str, marker: str, label: str, *, filled: bool = True) -> Line2D:
    face = colour if filled else "none"
    return Line2D(
        [], [], color=colour, markerfacecolor=face, marker=marker, linestyle="", markersize=7,
        label=label,
    )  # fmt: skip


def _facts(rows: pd.DataFrame) -> str:
    best = row_of_largest(rows, "speedup")
    ideal = float(best["ideal"])
    beside = "" if isnan(ideal) else f", where the ideal is {times(ideal)}"
    return (
        f"{count_of(len(rows), 'ratio')}; the highest is {times(float(best['speedup']))} by "
        f"{best['provider']} ({best['recipe']}, {best['mode']}) on {best['world_size']} GPUs at "
        f"m = {best['m']:,}, n = {best['n']:,}, k = {best['k']:,}{beside}."
    )


def draw_hidden(table: pd.DataFrame) -> Picture | None:
    """Overlap efficiency against gather / product, a panel per world size; None without any."""
    rows = table[table["hidden"].notna()]
    if rows.empty:
        return None
    rows = rows.assign(share=rows["gather_s"] / rows["product_s"])
    sizes = _sizes(rows)
    with look():
        figure = new_figure(330)
        grid = figure.subplots(1, len(sizes), squeeze=False, sharex=True, sharey=True)[0]
        for axes, size in zip(grid, sizes, strict=True):
            _efficiencies(axes, rows[rows["world_size"] == size])
            axes.set_title(f"{size} GPUs")
            axes.set_xlabel("time of gather / of product")
        grid[0].set_ylabel("of the shorter one hidden")
        _recipe_legend(figure, rows)
    found = rows.groupby("provider")["hidden"]
    told = [f"{name} {percent(float(some.median()), 0)}" for name, some in found]
    facts = f"{count_of(len(rows), 'point')}; hidden in the median: {', '.join(told)}."
    alt = f"Share of the shorter of gather and product that is hidden. {facts}"
    return Picture(key="gathered_hidden", figure=figure, op=OP, alt=alt, facts=facts)


def _efficiencies(axes: Axes, rows: pd.DataFrame) -> None:
    for level in (0, 1):
        axes.axhline(level, color=MUTED, linewidth=0.9)
    for (recipe, provider, mode), some in rows.groupby(["recipe", "provider", "mode"], sort=False):
        axes.scatter(
            some["share"], some["hidden"], marker=provider_marker(str(provider)), s=42, zorder=3,
            **_fill(recipe_colour(str(recipe)), filled=mode == GRAPH),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator((0.1, 0.2, 0.5, 1, 2, 5, 10)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value, 0)))
    _clip_below(axes, rows)


def _clip_below(axes: Axes, rows: pd.DataFrame) -> None:
    """What lies below -200 % is not drawn: eager calls of small shapes lie far below."""
    lowest = float(rows["hidden"].min())
    if lowest < _LOWEST:
        axes.set_ylim(bottom=_LOWEST)


def _recipe_legend(figure: Figure, rows: pd.DataFrame, *, markers: bool = True) -> None:
    handles = [
        Line2D([], [], color=recipe_colour(name), label=name, linewidth=4)
        for name in _recipes(rows)
    ]
    known = [name for name in FUSED if markers and name in set(rows["provider"])]
    handles += [_dot(INK, provider_marker(name), name) for name in known]
    figure.legend(
        handles=[*handles, *_modes(rows)], loc="outside upper left", ncols=6, handlelength=1.4
    )


def _modes(rows: pd.DataFrame) -> list[Line2D]:
    """What filled and open markers mean, where there are both."""
    if len(set(rows["mode"])) < 2:
        return []
    return [_dot(MUTED, "o", "graph"), _dot(MUTED, "o", "eager", filled=False)]


def draw_ranks(frame: pd.DataFrame) -> Picture | None:
    """How far the ranks of every point lie apart, a panel per world size; None without ranks."""
    rows = ranks(frame)
    if rows.empty:
        return None
    sizes = _sizes(rows)
    declared = [name for names in spec.OP.providers.values() for name in names]
    names = [name for name in dict.fromkeys(declared) if name in set(rows["provider"])]
    with look():
        figure = new_figure(100 + 26 * len(names))
        grid = figure.subplots(1, len(sizes), squeeze=False, sharex=True, sharey=True)[0]
        for axes, size in zip(grid, sizes, strict=True):
            some = rows[rows["world_size"] == size]
            for (recipe, mode), part in some.groupby(["recipe", "mode"], sort=False):
                axes.scatter(
                    part[RANK_SPREAD], [names.index(name) for name in part["provider"]], s=34,
                    **_fill(recipe_colour(str(recipe)), filled=mode == GRAPH),
                )  # fmt: skip
            axes.set_title(f"{size} ranks")
            axes.set_xlabel("slowest over fastest rank, less 1")
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.3g} %"))
        grid[0].set_xlim(0, 1.08 * max(0.001, float(rows[RANK_SPREAD].max())))
        grid[0].set_yticks(range(len(names)), names)
        grid[0].set_ylim(len(names) - 0.4, -0.6)
        _recipe_legend(figure, rows, markers=False)
    worst = row_of_largest(rows, RANK_SPREAD)
    facts = (
        f"{count_of(len(rows), 'point')}; ranks lie {percent(float(rows[RANK_SPREAD].median()))} "
        f"apart in the median, at most {percent(float(worst[RANK_SPREAD]))} ({worst['provider']} "
        f"on {worst['world_size']} ranks, m = {worst['m']:,}, n = {worst['n']:,}, "
        f"k = {worst['k']:,})."
    )
    alt = f"Slowest against fastest rank by provider and world size. {facts}"
    return Picture(key="gathered_ranks", figure=figure, op=OP, alt=alt, facts=facts)
