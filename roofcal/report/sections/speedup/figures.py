"""Speed-up against the baseline recipe as heat maps: by shape, the number in every cell."""

from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import count_of, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import by_recipe_order, look, new_figure

# Slower than the baseline: vermillion; equal: paper; faster: blue. Symmetric in log2.
SLOWER_FASTER: Final = LinearSegmentedColormap.from_list(
    "slower_faster", ["#a63d00", "#d98a56", "#f3efe9", "#6aa5cf", "#0a5592"]
)
_MOST_ROWS: Final = 72
_MOST_COLUMNS: Final = 16
_ROW_PX: Final = 19
_WIDE: Final = 7  # more columns than this and a panel takes half the width
_MANY: Final = 3  # so many sizes of m, or weights of one m, make a grid
_BY: Final = " \N{MULTIPLICATION SIGN} "


def draw_speedups(table: pd.DataFrame, baseline: str) -> list[Picture]:
    """Heat maps of `comparisons.speedups` of products, up to four.

    Cubes; weights measured at many m; layers, measured at few m; what fits no grid, shape by shape.
    None of ops on several devices: a cell has no room for a ratio per world size.
    """
    if table.empty or "world_size" in table or not {"m", "n", "k"} <= set(table.columns):
        return []
    cube = (table["m"] == table["n"]) & (table["n"] == table["k"])
    rest = table[~cube]
    many = rest.groupby(["n", "k"])["m"].transform("nunique") >= _MANY
    few = rest[~many]
    shared = few.assign(weight=_labels(few)).groupby("m")["weight"].transform("nunique") >= _MANY
    found = [
        _cubes(table[cube], baseline),
        _grid(rest[many], baseline, "speedup_by_tokens"),
        _grid(few[shared], baseline, "speedup_by_layer"),
        _shapes(few[~shared], baseline),
    ]
    return [picture for picture in found if picture is not None]


def _cubes(table: pd.DataFrame, baseline: str) -> Picture | None:
    if table.empty:
        return None
    recipes = _recipes(table)
    pivot = _pivot(table, "recipe", "m").reindex(index=recipes, columns=_most_common(table["m"]))
    with look():
        figure = new_figure(62 + 24 * len(recipes))
        axes = figure.subplots()
        _heat(axes, pivot, _sizes(pivot.columns), recipes)
        axes.set(xlabel="m = n = k", ylabel="")
    return _picture("speedup_cubes", figure, table, baseline, "")


def _grid(table: pd.DataFrame, baseline: str, key: str) -> Picture | None:
    """One panel per recipe, weights (n x k) down, m across."""
    if table.empty:
        return None
    recipes, tokens = _recipes(table), _most_common(table["m"])
    weights = _weights(table[table["m"].isin(tokens)])
    kept = weights[:: -(-len(weights) // _MOST_ROWS)]
    across = min(len(recipes), 2 if len(tokens) > _WIDE else 4)
    down = -(-len(recipes) // across)
    with look():
        figure = new_figure(down * (75 + _ROW_PX * len(kept)))
        grid = figure.subplots(down, across, squeeze=False, sharey=True, sharex=True)
        for axes, recipe in zip(grid.flat, recipes, strict=False):
            some = table[table["recipe"] == recipe]
            pivot = _pivot(some.assign(weight=_labels(some)), "weight", "m")
            _heat(axes, pivot.reindex(index=kept, columns=tokens), _sizes(tokens), kept)
            axes.set_title(recipe)
            axes.set(xlabel="", ylabel="")
        for axes in grid.flat[len(recipes) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("n \N{MULTIPLICATION SIGN} k")
        for axes in grid[-1]:
            axes.set_xlabel("m")
    every, sizes = len(_weights(table)), table["m"].nunique()
    note = ""
    if (len(kept), len(tokens)) != (every, sizes):
        note = f" {len(kept)} of {every} weights and {len(tokens)} of {sizes} sizes m are drawn."
    return _picture(key, figure, table, baseline, note)


def _shapes(table: pd.DataFrame, baseline: str) -> Picture | None:
    """Shapes down, recipes across."""
    if table.empty:
        return None
    recipes = _recipes(table)
    labelled = table.assign(shape=_shape_labels(table)).sort_values(["m", "n", "k"])
    shapes = list(dict.fromkeys(labelled["shape"]))
    kept = shapes[:: -(-len(shapes) // _MOST_ROWS)]
    pivot = _pivot(labelled, "shape", "recipe").reindex(index=kept, columns=recipes)
    with look():
        figure = new_figure(40 + _ROW_PX * len(kept))
        axes = figure.subplots()
        _heat(axes, pivot, recipes, kept)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set(xlabel="", ylabel="m \N{MULTIPLICATION SIGN} n \N{MULTIPLICATION SIGN} k")
    note = "" if len(kept) == len(shapes) else f" {len(kept)} of {len(shapes)} shapes are drawn."
    return _picture("speedup_by_shape", figure, table, baseline, note)


def _picture(key: str, figure: Figure, table: pd.DataFrame, baseline: str, note: str) -> Picture:
    best = row_of_largest(table, "speedup")
    slower = int((table["speedup_high"] < 1).sum())
    facts = (
        f"{count_of(len(table), 'ratio')} to {baseline}; median "
        f"{times(float(table['speedup'].median()))}, highest {times(float(best['speedup']))} "
        f"({best['recipe']} at m = {best['m']:,}, n = {best['n']:,}, k = {best['k']:,}); "
        f"{slower} slower than {baseline} beyond their interval."
    )
    return Picture(
        key=key,
        figure=figure,
        op=str(table["op"].iloc[0]),
        alt=f"Heat map of the speed-up against {baseline}. {facts}",
        facts=facts + note,
    )


def _recipes(table: pd.DataFrame) -> list[str]:
    return by_recipe_order([str(r) for r in set(table["recipe"])], str(table["op"].iloc[0]))


def _labels(table: pd.DataFrame) -> list[str]:
    return [f"{n:,}{_BY}{k:,}" for n, k in zip(table["n"], table["k"], strict=True)]


def _shape_labels(table: pd.DataFrame) -> list[str]:
    return [_BY.join(f"{v:,}" for v in sizes) for sizes in table[["m", "n", "k"]].to_numpy()]


def _weights(table: pd.DataFrame) -> list[str]:
    """Labels of the weights, smallest first."""
    unique = table.drop_duplicates(["n", "k"])
    ordered = unique.assign(size=unique["n"] * unique["k"]).sort_values(["size", "n"])
    return _labels(ordered)


def _most_common(values: "pd.Series[int]") -> list[int]:
    """The sizes that most points have, in order."""
    counts = values.value_counts(sort=False).sort_index()
    return sorted(counts.sort_values(ascending=False, kind="stable").index[:_MOST_COLUMNS])


def _sizes(values: Any) -> list[str]:
    return [f"{size:,}" for size in values]


def _pivot(table: pd.DataFrame, index: str, columns: str) -> pd.DataFrame:
    """The fastest where several providers have the same cell."""
    return table.pivot_table(index=index, columns=columns, values="speedup", aggfunc="max")


def _heat(axes: Any, pivot: pd.DataFrame, columns: list[str], rows: list[str]) -> None:
    values = pivot.to_numpy(dtype=float)
    sns.heatmap(
        np.log2(values),
        annot=values,
        fmt=".2f",
        annot_kws={"fontsize": 9.5},
        cmap=SLOWER_FASTER,
        vmin=-1,
        vmax=1,
        cbar=False,
        xticklabels=columns,
        yticklabels=rows,
        ax=axes,
    )
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_yticklabels(rows, rotation=0)
    if len(columns) > _WIDE:
        axes.set_xticklabels(columns, rotation=45, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticklabels(columns, rotation=0)
