"""Products with narrow weights: bandwidth by tokens, the roofs of int4, the fastest formats.

The crossover map says which format of the weights is fastest, and how surely. Its cells have
colours and words of their own in any colour scheme: a name is dark on a light tint.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration
from roofcal.report.data import drawing
from roofcal.report.data.drawing import (
    BYTES_TIP,
    HEAD_TIPS,
    TAIL_TIPS,
    TIME_TIP,
    bandwidth_levels,
    point_legend,
    styled_points,
)
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.charts import Axis, Chart, Layer, Panel, Tip
from roofcal.report.kit.numbers import TIMES, count_of, percent, scaled, shape_text
from roofcal.report.kit.writer import Picture
from roofcal.report.sections.mixed import tables

_MOST_PANELS: Final = 4
_OTHER_RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_weight_only")  # drawn beside int4
# part -> colour and dashes
_PARTS: Final[dict[str, tuple[str, Any]]] = {
    "dram": (styles.BLUE, "-"),
    "slots": (styles.GREEN, styles.DASHED),
    "math": (styles.VERMILLION, styles.DOTTED),
    "launch": (styles.GREY, styles.DASH_DOTTED),
}
# Colours of memory and launch, which set the lower end of the axis of time: other parts may lie far
# below them.
_LOWEST: Final = (styles.BLUE, styles.GREY)
_TINTS: Final = {"bf16": "#a8cbe6", "fp8": "#f0b795", "int4": "#e4bdd2"}
_NAME_COLOUR: Final = "#14181c"
_ROW_PX: Final = 19
_TITLES: Final = {"plain": "plain launches", "chained": "int4 chained, others plain"}


def draw_bandwidth(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per weight with many m; None without such a weight or without int4."""
    rows = tables.rows_with_format(frame)
    weights = tables.weights_with_curves(rows)[:_MOST_PANELS]
    recipe = _int4_recipe(rows)
    if not weights or recipe is None:
        return None
    rows = rows[rows["recipe"].isin((*_OTHER_RECIPES, recipe))]
    best = row_of_largest(rows[rows["format"] == "int4"], "achieved_bytes_per_s")
    facts = (
        f"int4 is {recipe}. Its highest: {best['provider']} at m = {best['m']:,}, "
        f"{shape_text((best['n'], best['k']))}, "
        f"{scaled(float(best['achieved_bytes_per_s']), 'B/s')}."
    )
    alt = "Achieved bandwidth against tokens by recipe and provider."
    # Lines of the rows by recipe and provider
    drawn = rows[[pair in set(weights) for pair in zip(rows["n"], rows["k"], strict=True)]]
    points = styled_points(drawn).assign(
        m=drawn["m"],
        weight=[shape_text(pair) for pair in drawn[["n", "k"]].to_numpy()],
        series=drawn["recipe"] + " by " + drawn["provider"],
        relative_error=drawn["relative_error"],
    )
    levels, level_entries = bandwidth_levels(calibration, spec)
    legend = [*point_legend(drawn), *level_entries]
    chart = Chart(
        x=Axis("m", "tokens m", "count"),
        y=Axis("achieved_bytes_per_s", "B/s", "linear"),
        layers=[
            Layer(mark="level", table="levels", hidden=("recipe",)),
            Layer(mark="line", detail="series", size=1.6, hidden=("recipe",)),
            Layer(mark="dots"),
        ],
        tables={"points": points, "levels": levels},
        panels=[
            Panel(title=f"weights {text}", where={"weight": text})
            for text in map(shape_text, weights)
        ],
        tips=(
            *HEAD_TIPS,
            BYTES_TIP,
            TIME_TIP,
            Tip(key="relative_error", label="error of prediction", kind="percent"),
            *TAIL_TIPS,
        ),
        legend=legend,
    )
    return Picture(key="mixed_bandwidth", drawn=chart, op=tables.OP, alt=alt, facts=facts)


def _int4_recipe(rows: pd.DataFrame) -> str | None:
    """The int4 recipe with the largest groups that has a time, a symmetric one if there is any."""
    recipes = drawing.in_recipe_order(rows.loc[rows["format"] == "int4", "recipe"], tables.OP)
    symmetric = [recipe for recipe in recipes if not RECIPES[recipe].b.zero_point]
    return next(reversed(symmetric or recipes), None)


def draw_roofs(frame: pd.DataFrame, calibration: Calibration | None) -> Picture | None:
    """One panel per provider and weight; None without calibrated roofs or a weight of many m."""
    rows = tables.rows_with_format(frame)
    weights, pairs = tables.weights_with_curves(rows), tables.pairs_with_roofs(calibration)
    recipe = _int4_recipe(rows[rows["recipe"].isin([name for _, name in pairs])])
    providers = [provider for provider, name in pairs if name == recipe]
    if calibration is None or recipe is None or not weights or not providers:
        return None
    drawn = list(dict.fromkeys((weights[0], weights[-1])))
    with styles.look():
        figure = styles.new_figure(50 + 280 * len(providers))
        grid = figure.subplots(len(providers), len(drawn), squeeze=False, sharex=True, sharey="col")
        for line, provider in zip(grid, providers, strict=True):
            of_provider = rows[(rows["provider"] == provider) & (rows["recipe"] == recipe)]
            for axes, (n, k) in zip(line, drawn, strict=True):
                measured = of_provider[(of_provider["n"] == n) & (of_provider["k"] == k)]
                _roofs(axes, calibration, measured, (provider, recipe, n, k))
        styles.label_edges(grid, "m", "time")
        # The axis of time of a column of panels begins below its least launch and memory time
        for column in grid.T:
            lines = [line for axes in column for line in axes.lines if line.get_color() in _LOWEST]
            low = min(float(min(line.get_ydata())) for line in lines)
            column[0].set_ylim(bottom=0.7 * low)
        handles = [
            Line2D([], [], color=colour, linestyle=dashes, label=tables.ROOFS[name])
            for name, (colour, dashes) in _PARTS.items()
        ]
        handles.append(Line2D([], [], color=styles.INK, linewidth=2, label="predicted"))
        handles.append(Line2D([], [], color=styles.INK, marker="o", linestyle="", label="measured"))
        styles.legend(figure, handles, 6, 2.6)
    dots = rows[(rows["recipe"] == recipe) & rows["provider"].isin(providers)]
    ours = [name for name in providers if name in tables.OURS]
    return Picture(
        key="mixed_roofs",
        drawn=figure,
        op=tables.OP,
        alt="Parts of the calibrated time of int4 products against tokens.",
        facts=f"{recipe}, {count_of(len(dots), 'measured point')} by {', '.join(providers)}; our "
        f"kernels among them: {', '.join(ours) or 'none'}.",
    )


def _roofs(
    axes: Axes, calibration: Calibration, rows: pd.DataFrame, pair: tuple[str, str, int, int]
) -> None:
    provider, recipe, n, k = pair
    tokens = tables.tokens_of_pair(provider, recipe)
    parts = tables.roofs_of_pair(calibration, provider, recipe, n, k)
    times = {"dram": parts.dram, "slots": parts.slots, "math": parts.math, "launch": parts.fixed}
    for name, values in times.items():
        colour, dashes = _PARTS[name]
        axes.plot(tokens, values, color=colour, linestyle=dashes)
    axes.plot(tokens, parts.total, color=styles.INK, linewidth=2)
    axes.plot(rows["m"], rows["median_s"], "o", color=styles.INK, markersize=5)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_yscale("log")
    styles.log_axis(axes.yaxis, "s")
    # The binding part by m along the top of the panel, in words
    for first, last, part in tables.runs_of_equal(parts.bound_by):
        left, right = (
            float(tokens[first]),
            float(tokens[min(last + 1, len(parts.bound_by) - 1)]),
        )
        axes.axvspan(left, right, ymin=0.985, ymax=1, color=_PARTS[part][0], linewidth=0)
        if right / left >= 2:
            axes.annotate(
                tables.ROOFS[part],
                xy=((left * right) ** 0.5, 0.975),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                fontsize=10,
            )
    axes.set_title(f"{provider}, {shape_text((n, k))}")


def draw_crossover(table: pd.DataFrame) -> Picture | None:
    """One panel per mode and kind of the table of winners; None for an empty table."""
    if table.empty:
        return None
    modes = [mode for mode in tables.MODES if (table["mode"] == mode).any()]
    kinds = [kind for kind in tables.KINDS if (table["kind"] == kind).any()]
    with styles.look():
        figure = _panels(table, modes, kinds)
    return Picture(
        key="mixed_crossover",
        drawn=figure,
        op=tables.OP,
        alt="Maps of the fastest format of the weights by tokens and shape.",
        facts=_facts(table),
    )


def _panels(table: pd.DataFrame, modes: Sequence[str], kinds: Sequence[str]) -> Figure:
    tokens = sorted(set(table["m"]))
    weights = {mode: tables.weights_by_size(table[table["mode"] == mode]) for mode in modes}
    heights = [len(weights[mode]) for mode in modes]
    figure = styles.new_figure(60 + sum(52 + _ROW_PX * height for height in heights))
    ratios = [height + 1.5 for height in heights]
    grid = figure.subplots(
        len(modes), len(kinds), squeeze=False, sharey="row", height_ratios=ratios
    )
    for line, mode in zip(grid, modes, strict=True):
        for axes, kind in zip(line, kinds, strict=True):
            cells = table[(table["mode"] == mode) & (table["kind"] == kind)]
            _panel(axes, cells, weights[mode], tokens)
            axes.set_title(f"{kind}, {_TITLES[mode]}")
    styles.label_edges(grid, "m", f"n {TIMES} k")
    handles = [Patch(facecolor=_TINTS[name], label=name) for name in tables.FORMATS]
    handles.append(
        Patch(
            facecolor="none",
            edgecolor=styles.MUTED,
            hatch="///",
            label="hatched, with ?: uncertain",
        )
    )
    styles.legend(figure, handles, 4, 1.2)
    return figure


def _panel(
    axes: Axes, rows: pd.DataFrame, weights: Sequence[tuple[int, int]], tokens: Sequence[int]
) -> None:
    colours = np.full((len(weights), len(tokens)), np.nan)
    uncertain = np.zeros(colours.shape, dtype=bool)
    for row in rows.to_dict("records"):
        cell = weights.index((row["n"], row["k"])), tokens.index(row["m"])
        colours[cell] = tables.FORMATS.index(row["format"])
        uncertain[cell] = row["class"] == "uncertain"
        axes.text(
            cell[1] + 0.5,
            cell[0] + 0.5,
            f"{row['format']}{'?' if uncertain[cell] else ''}",
            color=_NAME_COLOUR,
            fontsize=9.5,
            ha="center",
            va="center_baseline",
        )
    axes.pcolormesh(
        colours,  # NaN: no cell
        cmap=ListedColormap([_TINTS[name] for name in tables.FORMATS]),
        vmin=-0.5,
        vmax=len(tables.FORMATS) - 0.5,
    )
    strokes = styles.hatching(uncertain)
    strokes.set(color=_NAME_COLOUR, alpha=0.4, zorder=2)
    axes.add_collection(strokes)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(len(tokens)) + 0.5, [f"{m:,}" for m in tokens])
    axes.set_yticks(np.arange(len(weights)) + 0.5, [shape_text(sizes) for sizes in weights])
    axes.set(xlim=(0, len(tokens)), ylim=(len(weights), 0))


def _facts(table: pd.DataFrame) -> str:
    """Per kind and mode: how often each format wins, and how much of that is uncertain."""
    parts = []
    for (kind, mode), rows in table.groupby(["kind", "mode"], sort=False):
        shares = [
            f"{name} {percent(float((rows['format'] == name).mean()), 0)}"
            for name in tables.FORMATS
            if (rows["format"] == name).any()
        ]
        uncertain = percent(float((rows["class"] == "uncertain").mean()), 0)
        parts.append(
            f"{kind}, {_TITLES[str(mode)]}: {', '.join(shares)} of {count_of(len(rows), 'shape')}, "
            f"{uncertain} uncertain"
        )
    return f"Fastest: {'; '.join(parts)}."
