"""All-gathers fused with their product: speed-up against the ideal, what is hidden, ranks apart."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from roofcal.ops.all_gather_matmul import spec
from roofcal.points.columns import RANK_SPREAD
from roofcal.report.data import drawing
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import axis_text, count_of, percent, shape_text, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.gathered.overlap import FUSED, GRAPH, OP, rows_with_ranks

_ROW_PX: Final = 21
_COLOURS: Final = {spec.OURS: styles.BLUE, spec.TORCH: styles.VERMILLION}
_LOWEST_HIDDEN: Final = -2.0  # eager calls of small shapes lie far below; the table has them
_RATIOS: Final = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)


def draw_speedup(table: pd.DataFrame) -> Picture | None:
    """A row per shape, a panel per world size and recipe; None if nothing fused has a time."""
    rows = table[table["provider"].isin(FUSED)]
    if rows.empty:
        return None
    sizes, recipes = _world_sizes(rows), drawing.in_recipe_order(rows["recipe"], OP)
    # by weights, then rows of A
    ordered = rows.assign(weight=rows["n"] * rows["k"]).sort_values(["weight", "n", "k", "m"])
    shapes = {s: list(dict.fromkeys(_shapes(ordered[ordered["world_size"] == s]))) for s in sizes}
    heights = [len(shapes[size]) + 2 for size in sizes]
    with styles.look():
        figure = styles.new_figure(90 + _ROW_PX * sum(heights))
        grid = figure.subplots(
            len(sizes), len(recipes), squeeze=False, sharex=True, height_ratios=heights
        )
        for line, size in zip(grid, sizes, strict=True):
            for axes, recipe in zip(line, recipes, strict=True):
                cells = rows[(rows["world_size"] == size) & (rows["recipe"] == recipe)]
                _speedups(axes, cells, shapes[size], with_names=axes is line[0])
                axes.set_title(f"{size} GPUs, {recipe}")
        styles.label_edges(grid, "speed-up over NCCL and product", "")
        present = [name for name in FUSED if name in set(rows["provider"])]
        handles = [
            styles.marker_dot(name, drawing.provider_marker(name), _COLOURS[name])
            for name in present
        ]
        ideal = Line2D(
            [], [], color=styles.INK, marker="|", linestyle="", markersize=11, label="ideal"
        )
        styles.legend(figure, [*handles, *_mode_handles(rows), ideal], 6, 1.4)
    best = row_of_largest(rows, "speedup")
    best_ideal = float(best["ideal"])
    beside = "" if isnan(best_ideal) else f", where the ideal is {times(best_ideal)}"
    return Picture(
        key="gathered_speedup",
        drawn=figure,
        op=OP,
        alt="Speed-up of fused all-gathers and products by shape, beside the ideal.",
        facts=f"{count_of(len(rows), 'ratio')}; the highest is {times(float(best['speedup']))} by "
        f"{best['provider']} ({best['recipe']}, {best['mode']}) on {best['world_size']} GPUs at "
        f"{axis_text(best)}{beside}.",
    )


def _world_sizes(rows: pd.DataFrame) -> list[int]:
    return sorted({int(size) for size in rows["world_size"]})


def _shapes(rows: pd.DataFrame) -> list[str]:
    """The shape of each row."""
    return [shape_text(sizes) for sizes in rows[["m", "n", "k"]].to_numpy()]


def _speedups(axes: Axes, rows: pd.DataFrame, shapes: Sequence[str], *, with_names: bool) -> None:
    placed = rows.assign(place=[shapes.index(shape) for shape in _shapes(rows)])
    axes.axvline(1, color=styles.MUTED, linewidth=0.9)
    captured = placed[placed["mode"] == GRAPH]
    ideal = (captured if len(captured) else placed).drop_duplicates("place")
    axes.scatter(ideal["ideal"], ideal["place"], color=styles.INK, marker="|", s=150, linewidth=1.6)
    for (provider, mode), dots in placed.groupby(["provider", "mode"], sort=False):
        fill = _fill(_COLOURS[str(provider)], str(mode))
        _scatter(axes, dots["speedup"], dots["place"], str(provider), fill)
    axes.set_xscale("log")
    styles.ratio_ticks(axes.xaxis, _RATIOS)
    axes.set_yticks(range(len(shapes)), shapes if with_names else [""] * len(shapes))
    axes.set_ylim(len(shapes) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _scatter(
    axes: Axes, x: pd.Series, y: pd.Series, provider: str, fill: Mapping[str, Any]
) -> None:
    axes.scatter(x, y, marker=drawing.provider_marker(provider), s=42, zorder=3, **fill)


def _fill(colour: str, mode: str) -> dict[str, Any]:
    """Markers of graphs are filled, those of eager calls open."""
    if mode == GRAPH:
        return {"facecolor": colour, "edgecolor": styles.PAPER, "linewidth": 0.6}
    return {"facecolor": "none", "edgecolor": colour, "linewidth": 1.2}


def _mode_handles(rows: pd.DataFrame) -> list[Line2D]:
    """What filled and open markers mean, if there are both."""
    if len(set(rows["mode"])) < 2:
        return []
    return [
        styles.marker_dot("graph", "o", styles.MUTED),
        styles.marker_dot("eager", "o", styles.MUTED, filled=False),
    ]


def _recipe_handles(rows: pd.DataFrame) -> list[Line2D]:
    return styles.colour_lines(drawing.recipe_colours(drawing.in_recipe_order(rows["recipe"], OP)))


def draw_hidden(table: pd.DataFrame) -> Picture | None:
    """Overlap efficiency against gather / product, a panel per world size; None without any."""
    rows = table[table["hidden"].notna()]
    if rows.empty:
        return None
    rows = rows.assign(share=rows["gather_s"] / rows["product_s"])
    sizes = _world_sizes(rows)
    with styles.look():
        figure = styles.new_figure(330)
        panels = styles.panel_grid(figure, len(sizes), len(sizes), sharex=True, sharey=True)
        for axes, size in zip(panels, sizes, strict=True):
            _efficiencies(axes, rows[rows["world_size"] == size])
            axes.set_title(f"{size} GPUs")
            axes.set_xlabel("time of gather / of product")
        panels[0].set_ylabel("of the shorter one hidden")
        present = [name for name in FUSED if name in set(rows["provider"])]
        markers = [styles.marker_dot(name, drawing.provider_marker(name)) for name in present]
        styles.legend(figure, [*_recipe_handles(rows), *markers, *_mode_handles(rows)], 6, 1.4)
    medians = rows.groupby("provider")["hidden"].median()
    shares = [f"{name} {percent(float(median), 0)}" for name, median in medians.items()]
    facts = f"{count_of(len(rows), 'point')}; hidden in the median: {', '.join(shares)}."
    alt = "Share of the shorter of gather and product that is hidden."
    return Picture(key="gathered_hidden", drawn=figure, op=OP, alt=alt, facts=facts)


def _efficiencies(axes: Axes, rows: pd.DataFrame) -> None:
    for level in (0, 1):
        axes.axhline(level, color=styles.MUTED, linewidth=0.9)
    for (recipe, provider, mode), dots in rows.groupby(["recipe", "provider", "mode"], sort=False):
        fill = _fill(drawing.recipe_colour(str(recipe)), str(mode))
        _scatter(axes, dots["share"], dots["hidden"], str(provider), fill)
    axes.set_xscale("log")
    styles.fixed_ticks(axes.xaxis, (0.1, 0.2, 0.5, 1, 2, 5, 10))
    styles.show_ticks(axes.yaxis, lambda value: percent(value, 0))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    if float(rows["hidden"].min()) < _LOWEST_HIDDEN:
        axes.set_ylim(bottom=_LOWEST_HIDDEN)


def draw_ranks(frame: pd.DataFrame) -> Picture | None:
    """How far the ranks of every point lie apart, a panel per world size; None without ranks."""
    rows = rows_with_ranks(frame)
    if rows.empty:
        return None
    sizes = _world_sizes(rows)
    declared = spec.OP.every_provider
    names = [name for name in dict.fromkeys(declared) if name in set(rows["provider"])]
    with styles.look():
        figure = styles.new_figure(100 + 26 * len(names))
        panels = styles.panel_grid(figure, len(sizes), len(sizes), sharex=True, sharey=True)
        for axes, size in zip(panels, sizes, strict=True):
            _spreads(axes, rows[rows["world_size"] == size], names)
            axes.set_title(f"{size} ranks")
        panels[0].set_xlim(0, 1.08 * max(0.001, float(rows[RANK_SPREAD].max())))
        panels[0].set_yticks(range(len(names)), names)
        panels[0].set_ylim(len(names) - 0.4, -0.6)
        styles.legend(figure, [*_recipe_handles(rows), *_mode_handles(rows)], 6, 1.4)
    worst = row_of_largest(rows, RANK_SPREAD)
    return Picture(
        key="gathered_ranks",
        drawn=figure,
        op=OP,
        alt="Slowest against fastest rank by provider and world size.",
        facts=f"{count_of(len(rows), 'point')}; ranks lie "
        f"{percent(float(rows[RANK_SPREAD].median()))} apart in the median, at most "
        f"{percent(float(worst[RANK_SPREAD]))} ({worst['provider']} on {worst['world_size']} "
        f"ranks, {axis_text(worst)}).",
    )


def _spreads(axes: Axes, rows: pd.DataFrame, names: Sequence[str]) -> None:
    for (recipe, mode), dots in rows.groupby(["recipe", "mode"], sort=False):
        axes.scatter(
            dots[RANK_SPREAD],
            [names.index(name) for name in dots["provider"]],
            s=34,
            **_fill(drawing.recipe_colour(str(recipe)), str(mode)),
        )
    axes.set_xlabel("slowest over fastest rank, less 1")
    styles.show_ticks(axes.xaxis, lambda value: f"{100 * value:.3g} %", 5)
