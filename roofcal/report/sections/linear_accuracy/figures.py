"""Accuracy of float8 linears: SQNR by recipe and data as numbers and as dots, and beside speed."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from roofcal.ops.linear.spec import OUTPUTS
from roofcal.report.data.drawing import provider_marker, recipe_colour
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import TIMES, axis_text, count_of, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.linear_accuracy.tables import OP, SQNR, data_kinds

# Few decibels: paper; many: blue. The number stands in every cell.
_ONE_LINE: Final = 3.0  # dB, half a bit: dots closer than this lie on one line
_DECIBELS: Final = LinearSegmentedColormap.from_list(
    "decibels", ["#f3efe9", "#9cc3df", "#3d83b8", "#0a5592"]
)
_RANGE_DB: Final = (15, 60)  # fp8 of 3 bits of mantissa: 28 dB; bf16: 55 dB
_ROW_PX: Final = 24
_LINE_PX: Final = 14
_MARKS: Final = dict(
    zip(OUTPUTS, ((styles.BLUE, "o"), (styles.VERMILLION, "s"), (styles.GREEN, "^")), strict=True)
)
_APART: Final = 0.24  # of the dots of one recipe, in rows
_BROKEN_FROM: Final = 34  # letters of a recipe


def draw_matrix(rows: pd.DataFrame) -> Picture | None:
    """The lowest SQNR over all shapes, a panel per kind of data; None without rows."""
    if rows.empty:
        return None
    row_names = _row_names(rows)
    kinds, names = data_kinds(rows), list(dict.fromkeys(row_names))
    with_names = rows.assign(name=row_names)
    with styles.look():
        figure = styles.new_figure(105 + _row_px(names) * len(names))
        grid = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
        for axes, kind in zip(grid, kinds, strict=True):
            of_kind = with_names[with_names["data"] == kind]
            _cells(axes, of_kind.groupby("name")[list(SQNR)].min().reindex(names))
            axes.set_title(kind)
    return Picture(
        key="linear_accuracy",
        drawn=figure,
        op=OP,
        alt="SQNR in dB by recipe, kind of data and product.",
        facts=_lowest(rows),
    )


def _cells(axes: Axes, values: pd.DataFrame) -> None:
    numbers = values.to_numpy(dtype=float)
    sns.heatmap(
        np.clip(numbers, *_RANGE_DB),
        annot=numbers,
        fmt=".1f",
        annot_kws={"fontsize": 10},
        cmap=_DECIBELS,
        vmin=_RANGE_DB[0],
        vmax=_RANGE_DB[1],
        cbar=False,
        yticklabels=list(values.index),
        ax=axes,
    )
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_yticklabels(list(values.index), rotation=0)
    axes.set_xticklabels(OUTPUTS, rotation=45, ha="right", rotation_mode="anchor")
    axes.set(xlabel="", ylabel="")


def _row_names(rows: pd.DataFrame) -> list[str]:
    """Recipe of each row, and its provider if the recipe has several."""
    several = rows.groupby("recipe")["provider"].transform("nunique") > 1
    names = []
    for label, provider, more in zip(rows["label"], rows["provider"], several, strict=True):
        # a long one is broken at its products
        is_long = len(label) >= _BROKEN_FROM
        name = label.replace("+", "+\n").replace(", ", ",\n") if is_long else label
        names.append(f"{name} ({provider})" if more else name)
    return names


def _row_px(names: Sequence[str]) -> float:
    """Height of a row that holds the name with the most lines."""
    return max(_ROW_PX, _LINE_PX * (1 + max(name.count("\n") for name in names)))


def _lowest(rows: pd.DataFrame) -> str:
    shapes = len(rows.drop_duplicates(["m", "n", "k"]))
    worst = row_of_largest(rows.assign(noise=-rows[list(SQNR)].min(axis=1)), "noise")
    column = min(SQNR, key=lambda name: float(worst[name]))
    return (
        f"{count_of(len(rows), 'point')} of {count_of(shapes, 'shape')}; lowest: "
        f"{worst[column]:.1f} dB in {column.removesuffix('_sqnr_db')} of {worst['label']} by "
        f"{worst['provider']}, {worst['data']} data, {axis_text(worst)}."
    )


def draw_dots(rows: pd.DataFrame) -> Picture | None:
    """A dot per shape and product, a panel per kind of data; None without rows."""
    if rows.empty:
        return None
    row_names = _row_names(rows)
    kinds, names = data_kinds(rows), list(dict.fromkeys(row_names))
    placed = rows.assign(place=[names.index(name) for name in row_names])
    with styles.look():
        figure = styles.new_figure(95 + 1.4 * _row_px(names) * len(names))
        grid = figure.subplots(1, len(kinds), squeeze=False, sharey=True, sharex=True)[0]
        for axes, kind in zip(grid, kinds, strict=True):
            _dots(axes, placed[placed["data"] == kind])
            axes.set_title(kind)
            axes.set_xlabel("SQNR")
            for between in range(1, len(names)):
                axes.axhline(between - 0.5, color=styles.GRID, linewidth=0.7, zorder=0)
        grid[0].set_yticks(range(len(names)), names)
        grid[0].set_ylim(len(names) - 0.5, -0.5)
        handles = [
            styles.marker_dot(name, marker, colour) for name, (colour, marker) in _MARKS.items()
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
    return Picture(
        key="linear_accuracy_by_shape",
        drawn=figure,
        op=OP,
        alt="Dots of SQNR by recipe, kind of data and product, one per shape.",
        facts=_widest_spread(rows),
    )


def _dots(axes: Axes, rows: pd.DataFrame) -> None:
    for number, (output, column) in enumerate(zip(OUTPUTS, SQNR, strict=True)):
        colour, marker = _MARKS[output]
        places = rows["place"] + (number - 1) * _APART
        styles.dots(axes, rows[column], places, colour, 34, edge=0.6, marker=marker)
    styles.show_ticks(axes.xaxis, _decibel_text, 4)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _widest_spread(rows: pd.DataFrame) -> str:
    """How far the shapes of one recipe, kind of data and product lie apart at most."""
    keys = ["label", "provider", "data"]
    long = rows.melt([*keys], list(SQNR), "product", "sqnr")
    ends = long.groupby([*keys, "product"], sort=False)["sqnr"].agg(["min", "max"]).reset_index()
    widest = row_of_largest(ends.assign(apart=ends["max"] - ends["min"]), "apart")
    return (
        f"{count_of(len(rows), 'point')}; shapes lie furthest apart in "
        f"{widest['product'].removesuffix('_sqnr_db')} of {widest['label']} on {widest['data']} "
        f"data: {widest['min']:.1f} to {widest['max']:.1f} dB."
    )


def spread_db(table: pd.DataFrame, column: str) -> float:
    """How far the decibels of a column lie apart; 0 without any."""
    values = table[column].dropna() if column in table else pd.Series(dtype=float)
    return float(values.max() - values.min()) if len(values) else 0.0


def equal_accuracy_text(table: pd.DataFrame) -> str:
    """A sentence on products in which recipes are equally accurate; "" without any."""
    parts = [
        f"{output} ({table[column].min():.1f} to {table[column].max():.1f} dB)"
        for output, column in zip(OUTPUTS, SQNR, strict=True)
        if len(table) and spread_db(table, column) < _ONE_LINE
    ]
    if not parts:
        return ""
    return (
        f"Recipes timed beside bf16 lie within half a bit of one another in {' and '.join(parts)}."
    )


def draw_speed(table: pd.DataFrame) -> Picture | None:
    """SQNR against speed-up, a panel per product and a dot per shape.

    Products whose dots would lie on one line have no panel. None without rows, or with no panel.
    """
    panels = {o: c for o, c in zip(OUTPUTS, SQNR, strict=True) if spread_db(table, c) >= _ONE_LINE}
    if not panels:
        return None
    with styles.look():
        figure = styles.new_figure(330)
        grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (output, column) in zip(grid, panels.items(), strict=True):
            _dots_by_speed(axes, table, column)
            axes.set_title(output)
            axes.set_xlabel("speed against bf16")
        grid[0].set_ylabel("SQNR")
        labels = dict(zip(table["recipe"], table["label"], strict=True))
        handles = styles.colour_lines(
            {label: recipe_colour(name) for name, label in labels.items()}
        )
        providers = dict.fromkeys(str(provider) for provider in table["provider"])
        handles += [styles.marker_dot(name, provider_marker(name)) for name in providers]
        styles.legend(figure, handles, 4, 1.4)
    best = row_of_largest(table, "speedup")
    return Picture(
        key="linear_accuracy_and_speed",
        drawn=figure,
        op=OP,
        alt="SQNR of output and gradients against speed-up over bf16.",
        facts=f"{count_of(len(table), 'ratio')} on normal data; the fastest is {best['label']} by "
        f"{best['provider']} at {axis_text(best)}: {times(float(best['speedup']))} with "
        f"{best[list(SQNR)].min():.1f} dB in its worst output.",
    )


def _dots_by_speed(axes: Axes, table: pd.DataFrame, column: str) -> None:
    axes.axvline(1, color=styles.MUTED, linewidth=0.8)
    for (recipe, provider), dots in table.groupby(["recipe", "provider"], sort=False):
        colour, marker = recipe_colour(str(recipe)), provider_marker(str(provider))
        styles.dots(axes, dots["speedup"], dots[column], colour, 40, edge=0.6, marker=marker)
    styles.show_ticks(axes.xaxis, lambda value: f"{value:g}{TIMES}", 5)
    styles.show_ticks(axes.yaxis, _decibel_text)


def _decibel_text(value: float) -> str:
    return f"{value:g}\N{NO-BREAK SPACE}dB"
