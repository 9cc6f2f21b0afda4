"""Speed-up against the baseline recipe as heat maps: by shape, the number in every cell."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from roofcal.report.data.drawing import in_recipe_order
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import TIMES, axis_text, count_of, shape_text, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import label_edges, look, new_figure, ratio_heat_map
from roofcal.report.sections.speedup.chart import cube_chart, speedup_chart

_SIZES: Final = ["m", "n", "k"]
_MOST_ROWS: Final = 72
_MOST_COLUMNS: Final = 16
_ROW_PX: Final = 19
_WIDE: Final = 7  # more columns than this and a panel takes half the width
_GRID_FROM: Final = 3  # so many sizes of m, or weights of one m, make a grid


def draw_speedups(
    table: pd.DataFrame, baseline: str, frame: pd.DataFrame | None = None
) -> list[Picture]:
    """Heat maps of `comparisons.speedups` of products, up to four.

    Cubes; weights measured at many m; layers, measured at few m; and shape by shape what fits no
    grid. None of ops on several devices: a cell has no room for a ratio per world size.

    frame: tidy frame of the op, whose points the charts lead to; no charts without it.
    """
    if table.empty or "world_size" in table or not set(_SIZES) <= set(table.columns):
        return []
    is_cube = (table["m"] == table["n"]) & (table["n"] == table["k"])
    rest = table[~is_cube]
    has_many_m = rest.groupby(["n", "k"])["m"].transform("nunique") >= _GRID_FROM
    few_m = rest[~has_many_m]
    weights = few_m.assign(weight=_weight_texts(few_m)).groupby("m")["weight"]
    in_layers = weights.transform("nunique") >= _GRID_FROM
    pictures = [
        _cubes(table[is_cube], baseline, frame),
        _grid(rest[has_many_m], baseline, "speedup_by_tokens", frame),
        _grid(few_m[in_layers], baseline, "speedup_by_layer", frame),
        _shapes(few_m[~in_layers], baseline),
    ]
    return [picture for picture in pictures if picture is not None]


def _cubes(table: pd.DataFrame, baseline: str, frame: pd.DataFrame | None) -> Picture | None:
    if table.empty:
        return None
    recipes = _recipes(table)
    pivot = _pivot(table, "recipe", "m").reindex(index=recipes, columns=_most_common(table["m"]))
    with look():
        figure = new_figure(62 + 24 * len(recipes))
        axes = figure.subplots()
        _heat_map(axes, pivot, _size_texts(pivot.columns), recipes)
        axes.set(xlabel="m = n = k", ylabel="")
    chart = None if frame is None else cube_chart(table, frame, recipes)
    return replace(_picture("speedup_cubes", figure, table, baseline), chart=chart)


def _grid(
    table: pd.DataFrame, baseline: str, key: str, frame: pd.DataFrame | None
) -> Picture | None:
    """One panel per recipe, weights (n x k) down, m across."""
    if table.empty:
        return None
    recipes, tokens = _recipes(table), _most_common(table["m"])
    weights = _weights(table[table["m"].isin(tokens)])
    kept = _thinned(weights)
    across = min(len(recipes), 2 if len(tokens) > _WIDE else 4)
    down = -(-len(recipes) // across)
    with look():
        figure = new_figure(down * (75 + _ROW_PX * len(kept)))
        grid = figure.subplots(down, across, squeeze=False, sharey=True, sharex=True)
        for axes, recipe in zip(grid.flat, recipes, strict=False):
            rows = table[table["recipe"] == recipe]
            pivot = _pivot(rows.assign(weight=_weight_texts(rows)), "weight", "m")
            _heat_map(axes, pivot.reindex(index=kept, columns=tokens), _size_texts(tokens), kept)
            axes.set_title(recipe)
            axes.set(xlabel="", ylabel="")
        for axes in grid.flat[len(recipes) :]:
            axes.set_visible(False)
        label_edges(grid, "m", f"n {TIMES} k")
    weight_count, token_count = len(_weights(table)), table["m"].nunique()
    note = ""
    if (len(kept), len(tokens)) != (weight_count, token_count):
        note = (
            f" {len(kept)} of {weight_count} weights and {len(tokens)} of {token_count} sizes m "
            "are drawn."
        )
    chart = None
    if frame is not None:
        named = table.assign(weight=_weight_texts(table))
        named = named[named["m"].isin(tokens)]
        chart = speedup_chart(named, frame, recipes, kept, "weight")
    return replace(_picture(key, figure, table, baseline, note), chart=chart)


def _shapes(table: pd.DataFrame, baseline: str) -> Picture | None:
    """Shapes down, recipes across."""
    if table.empty:
        return None
    recipes = _recipes(table)
    ordered = table.sort_values(_SIZES)
    texts = [shape_text(sizes) for sizes in ordered[_SIZES].to_numpy()]
    shapes = list(dict.fromkeys(texts))
    kept = _thinned(shapes)
    pivot = _pivot(ordered.assign(shape=texts), "shape", "recipe")
    with look():
        figure = new_figure(40 + _ROW_PX * len(kept))
        axes = figure.subplots()
        _heat_map(axes, pivot.reindex(index=kept, columns=recipes), recipes, kept)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set(xlabel="", ylabel=f"m {TIMES} n {TIMES} k")
    note = "" if len(kept) == len(shapes) else f" {len(kept)} of {len(shapes)} shapes are drawn."
    return _picture("speedup_by_shape", figure, table, baseline, note)


def _picture(
    key: str, figure: Figure, table: pd.DataFrame, baseline: str, note: str = ""
) -> Picture:
    best = row_of_largest(table, "speedup")
    slower = int((table["speedup_high"] < 1).sum())
    return Picture(
        key=key,
        figure=figure,
        op=str(table["op"].iloc[0]),
        alt=f"Heat map of the speed-up against {baseline}.",
        facts=f"{count_of(len(table), 'ratio')} to {baseline}; median "
        f"{times(float(table['speedup'].median()))}, highest {times(float(best['speedup']))} "
        f"({best['recipe']} at {axis_text(best)}); {slower} slower than {baseline} beyond their "
        f"interval.{note}",
    )


def _recipes(table: pd.DataFrame) -> list[str]:
    return in_recipe_order(table["recipe"], str(table["op"].iloc[0]))


def _weight_texts(table: pd.DataFrame) -> list[str]:
    return [shape_text(sizes) for sizes in table[["n", "k"]].to_numpy()]


def _weights(table: pd.DataFrame) -> list[str]:
    """Names of the weights, smallest first."""
    unique = table.drop_duplicates(["n", "k"])
    return _weight_texts(unique.assign(size=unique["n"] * unique["k"]).sort_values(["size", "n"]))


def _thinned(names: Sequence[str]) -> list[str]:
    """At most _MOST_ROWS names, evenly spaced."""
    return list(names[:: -(-len(names) // _MOST_ROWS)])


def _most_common(values: "pd.Series[int]") -> list[int]:
    """The sizes that most points have, in order."""
    counts = values.value_counts(sort=False).sort_index()
    return sorted(counts.sort_values(ascending=False, kind="stable").index[:_MOST_COLUMNS])


def _size_texts(values: Any) -> list[str]:
    return [f"{size:,}" for size in values]


def _pivot(table: pd.DataFrame, index: str, columns: str) -> pd.DataFrame:
    """A cell that several providers have shows the fastest."""
    return table.pivot_table(index=index, columns=columns, values="speedup", aggfunc="max")


def _heat_map(axes: Any, pivot: pd.DataFrame, columns: Sequence[str], rows: Sequence[str]) -> None:
    values = pivot.to_numpy(dtype=float)
    ratio_heat_map(
        axes,
        values,
        annot=values,
        fmt=".2f",
        annot_kws={"fontsize": 9.5},
        xticklabels=columns,
        yticklabels=rows,
    )
    axes.set_yticklabels(rows, rotation=0)
    if len(columns) > _WIDE:
        axes.set_xticklabels(columns, rotation=45, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticklabels(columns, rotation=0)
