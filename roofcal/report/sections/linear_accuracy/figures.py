"""Accuracy of float8 linears: SQNR by recipe and data as numbers and as dots, and beside speed."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from roofcal.ops.linear.spec import OUTPUTS
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import count_of, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import (
    BLUE,
    GREEN,
    GRID,
    INK,
    MUTED,
    PAPER,
    VERMILLION,
    look,
    new_figure,
    provider_marker,
    recipe_colour,
)
from roofcal.report.sections.linear_accuracy.tables import OP, SQNR, kinds_of

# Few decibels: paper; many: blue. The number stands in every cell.
_DECIBELS: Final = LinearSegmentedColormap.from_list(
    "decibels", ["#f3efe9", "#9cc3df", "#3d83b8", "#0a5592"]
)
_RANGE: Final = (15, 60)  # fp8 of 3 bits of mantissa: 28 dB; bf16: 55 dB
_ROW_PX: Final = 24
_MARKS: Final = dict(zip(OUTPUTS, ((BLUE, "o"), (VERMILLION, "s"), (GREEN, "^")), strict=True))
_APART: Final = 0.24  # of the dots of one recipe, in rows
_NEWLINE_FROM: Final = 34  # letters of a recipe


def draw_matrix(rows: pd.DataFrame) -> Picture | None:
    """The lowest SQNR over all shapes, a panel per kind of data; None without rows."""
    if rows.empty:
        return None
    who = _names(rows)
    data, names = kinds_of(rows), list(dict.fromkeys(who))
    named = rows.assign(who=who)
    with look():
        figure = new_figure(105 + _row_px(names) * len(names))
        grid = figure.subplots(1, len(data), squeeze=False, sharey=True)[0]
        for axes, kind in zip(grid, data, strict=True):
            some = named[named["data"] == kind]
            _cells(axes, some.groupby("who")[list(SQNR)].min().reindex(names))
            axes.set_title(kind)
    facts = _facts(rows)
    alt = f"SQNR in dB by recipe, kind of data and product. {facts}"
    return Picture(key="linear_accuracy", figure=figure, op=OP, alt=alt, facts=facts)


def _cells(axes: Axes, values: pd.DataFrame) -> None:
    numbers = values.to_numpy(dtype=float)
    sns.heatmap(
        np.clip(numbers, *_RANGE),
        annot=numbers,
        fmt=".1f",
        annot_kws={"fontsize": 10},
        cmap=_DECIBELS,
        vmin=_RANGE[0],
        vmax=_RANGE[1],
        cbar=False,
        yticklabels=list(values.index),
        ax=axes,
    )
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_yticklabels(list(values.index), rotation=0)
    axes.set_xticklabels(OUTPUTS, rotation=45, ha="right", rotation_mode="anchor")
    axes.set(xlabel="", ylabel="")


def _names(rows: pd.DataFrame) -> list[str]:
    """Recipe of each row, and its provider where a recipe has several."""
    several = rows.groupby("recipe")["provider"].transform("nunique") > 1
    return [
        _broken(str(label)) + (f" ({provider})" if more else "")
        for label, provider, more in zip(rows["label"], rows["provider"], several, strict=True)
    ]


def _broken(label: str) -> str:
    """A line of text is broken at its products."""
    return label if len(label) < _NEWLINE_FROM else label.replace("+", "+\n").replace(", ", ",\n")


def _row_px(names: Sequence[str]) -> float:
    """Height of a row that holds the name with the most lines."""
    return max(_ROW_PX, 14 * (1 + max(name.count("\n") for name in names)))


def _facts(rows: pd.DataFrame) -> str:
    shapes = len(rows.drop_duplicates(["m", "n", "k"]))
    at = row_of_largest(rows.assign(noise=-rows[list(SQNR)].min(axis=1)), "noise")
    name = min(SQNR, key=lambda column: float(at[column]))
    return (
        f"{count_of(len(rows), 'point')} of {count_of(shapes, 'shape')}; lowest: {at[name]:.1f} dB "
        f"in {name.removesuffix('_sqnr_db')} of {at['label']} by {at['provider']}, {at['data']} "
        f"data, m = {at['m']:,}, n = {at['n']:,}, k = {at['k']:,}."
    )


def draw_dots(rows: pd.DataFrame) -> Picture | None:
    """A dot per shape and product, a panel per kind of data; None without rows."""
    if rows.empty:
        return None
    who = _names(rows)
    data, names = kinds_of(rows), list(dict.fromkeys(who))
    with look():
        figure = new_figure(95 + 1.4 * _row_px(names) * len(names))
        grid = figure.subplots(1, len(data), squeeze=False, sharey=True, sharex=True)[0]
        places = rows.assign(place=[names.index(name) for name in who])
        for axes, kind in zip(grid, data, strict=True):
            _dots(axes, places[places["data"] == kind])
            axes.set_title(kind)
            axes.set_xlabel("SQNR")
            for between in range(1, len(names)):
                axes.axhline(between - 0.5, color=GRID, linewidth=0.7, zorder=0)
        grid[0].set_yticks(range(len(names)), names)
        grid[0].set_ylim(len(names) - 0.5, -0.5)
        _product_legend(figure)
    facts = _spread(rows)
    alt = f"Dots of SQNR by recipe, kind of data and product, one per shape. {facts}"
    return Picture(key="linear_accuracy_by_shape", figure=figure, op=OP, alt=alt, facts=facts)


def _dots(axes: Axes, rows: pd.DataFrame) -> None:
    for number, (output, column) in enumerate(zip(OUTPUTS, SQNR, strict=True)):
        colour, marker = _MARKS[output]
        axes.scatter(
            rows[column],
            rows["place"] + (number - 1) * _APART,
            color=colour,
            marker=marker,
            s=34,
            edgecolor=PAPER,
            linewidth=0.6,
            label=output,
        )
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}\N{NO-BREAK SPACE}dB"))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _product_legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="", markersize=7, label=name)
        for name, (colour, marker) in _MARKS.items()
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3)


def _spread(rows: pd.DataFrame) -> str:
    """How far the shapes of one recipe, kind of data and product lie apart at most."""
    keys = ["label", "provider", "data"]
    long = rows.melt([*keys], list(SQNR), "product", "sqnr")
    found = long.groupby([*keys, "product"], sort=False)["sqnr"].agg(["min", "max"]).reset_index()
    found["apart"] = found["max"] - found["min"]
    at = row_of_largest(found, "apart")
    return (
        f"{count_of(len(rows), 'point')}; shapes lie furthest apart in "
        f"{at['product'].removesuffix('_sqnr_db')} of {at['label']} on {at['data']} data: "
        f"{at['min']:.1f} to {at['max']:.1f} dB."
    )


def draw_speed(table: pd.DataFrame) -> Picture | None:
    """SQNR against speed-up, a panel per product and a dot per shape; None without rows."""
    if table.empty:
        return None
    with look():
        figure = new_figure(330)
        grid = figure.subplots(1, len(SQNR), sharex=True, sharey=True)
        for axes, output, column in zip(grid, OUTPUTS, SQNR, strict=True):
            _against_speed(axes, table, column)
            axes.set_title(output)
            axes.set_xlabel("speed against bf16")
        grid[0].set_ylabel("SQNR")
        _recipe_legend(figure, table)
    best = row_of_largest(table, "speedup")
    facts = (
        f"{count_of(len(table), 'ratio')} on normal data; the fastest is {best['label']} by "
        f"{best['provider']} at m = {best['m']:,}, n = {best['n']:,}, k = {best['k']:,}: "
        f"{times(float(best['speedup']))} with {best[list(SQNR)].min():.1f} dB in its worst output."
    )
    alt = f"SQNR of output and gradients against speed-up over bf16. {facts}"
    return Picture(key="linear_accuracy_and_speed", figure=figure, op=OP, alt=alt, facts=facts)


def _against_speed(axes: Axes, table: pd.DataFrame, column: str) -> None:
    axes.axvline(1, color=MUTED, linewidth=0.8)
    for (recipe, provider), some in table.groupby(["recipe", "provider"], sort=False):
        axes.scatter(
            some["speedup"],
            some[column],
            color=recipe_colour(str(recipe)),
            marker=provider_marker(str(provider)),
            s=40,
            edgecolor=PAPER,
            linewidth=0.6,
        )
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}\N{MULTIPLICATION SIGN}")
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}\N{NO-BREAK SPACE}dB"))


def _recipe_legend(figure: Figure, table: pd.DataFrame) -> None:
    pairs: list[Any] = list(dict(zip(table["recipe"], table["label"], strict=True)).items())
    handles = [Line2D([], [], color=recipe_colour(r), label=name, linewidth=4) for r, name in pairs]
    handles += [
        Line2D(
            [], [], color=INK, marker=provider_marker(name), linestyle="", markersize=7, label=name
        )
        for name in dict.fromkeys(str(p) for p in table["provider"])
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=1.4)
