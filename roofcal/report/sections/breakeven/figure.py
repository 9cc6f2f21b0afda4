"""The break-even map: speed-up of fp8 linears over bf16 by M and weight, the uncertain hatched."""

from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import count_of, percent, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import INK, by_recipe_order, look, new_figure
from roofcal.report.sections.speedup.figures import SLOWER_FASTER

_ROW_PX: Final = 17
_LABEL_EVERY: Final = 4  # a label at every power of 4
_PASSES: Final = ("forward", "forward_backward")


def draw_breakeven(table: pd.DataFrame) -> Picture | None:
    """One panel per recipe and pass of `breakeven_section.read_map`: k = n down, m across.

    With the casts of the provider that the map has, without casts where it has none; None for an
    empty map.
    """
    if table.empty:
        return None
    providers = [name for name in dict.fromkeys(table["casts"]) if name != "none"]
    casts = str(providers[0]) if providers else "none"
    rows = table[table["casts"] == casts]
    recipes = by_recipe_order([str(recipe) for recipe in dict.fromkeys(rows["recipe"])], "gemm")
    passes = [name for name in _PASSES if (rows["pass"] == name).any()]
    with look():
        figure = _panels(rows, recipes, passes)
    facts = _facts(rows, casts)
    return Picture(
        key="breakeven",
        figure=figure,
        op="gemm",
        alt=f"Maps of the predicted speed-up over bf16 by tokens and weight. {facts}",
        facts=facts,
    )


def _panels(rows: pd.DataFrame, recipes: list[str], passes: list[str]) -> Figure:
    sides = rows["n"].nunique()
    figure = new_figure(40 + len(recipes) * (34 + _ROW_PX * sides))
    grid = figure.subplots(len(recipes), len(passes), squeeze=False, sharex=True, sharey=True)
    for line, recipe in zip(grid, recipes, strict=True):
        for axes, name in zip(line, passes, strict=True):
            some = rows[(rows["recipe"] == recipe) & (rows["pass"] == name)]
            axes.set_visible(len(some) > 0)
            if len(some):
                _panel(axes, some)
                axes.set_title(f"{recipe}, {name.replace('_', ' + ')}")
    for axes in grid[-1]:
        axes.set_xlabel("m")
    for axes in grid[:, 0]:
        axes.set_ylabel("n = k")
    _scale(figure, grid)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    speedup = rows.pivot_table(index="n", columns="m", values="speedup", sort=True)
    classes = rows.pivot_table(index="n", columns="m", values="class", aggfunc="first", sort=True)
    sns.heatmap(
        np.log2(speedup.to_numpy(dtype=float)),
        cmap=SLOWER_FASTER,
        vmin=-1,
        vmax=1,
        cbar=False,
        ax=axes,
        linewidths=0,
    )
    axes.add_collection(hatching((classes == "uncertain").to_numpy()))
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set(xlabel="", ylabel="")
    axes.set_yticks(np.arange(len(speedup)) + 0.5, [f"{n:,}" for n in speedup.index], rotation=0)
    shown = [i for i, m in enumerate(speedup.columns) if _labelled(int(m))]
    axes.set_xticks(
        [i + 0.5 for i in shown], [f"{speedup.columns[i]:,}" for i in shown], rotation=0
    )


def _labelled(m: int) -> bool:
    """Whether m is a power of _LABEL_EVERY."""
    return bool(np.log(m) / np.log(_LABEL_EVERY) % 1 < 1e-9)


def hatching(cells: NDArray[np.bool_]) -> LineCollection:
    """A stroke through every true cell of a matrix, and a line around each area of them."""
    rows, columns = np.nonzero(cells)
    segments = [[(c, r + 1.0), (c + 1.0, r)] for r, c in zip(rows, columns, strict=True)]
    padded = np.pad(cells, 1)
    for r, c in zip(*np.nonzero(padded[1:, 1:-1] != padded[:-1, 1:-1]), strict=True):
        segments.append([(c, r), (c + 1.0, r)])
    for r, c in zip(*np.nonzero(padded[1:-1, 1:] != padded[1:-1, :-1]), strict=True):
        segments.append([(c, r), (c, r + 1.0)])
    return LineCollection(segments, colors=INK, linewidths=0.7)


def _scale(figure: Figure, grid: Any) -> None:
    """The colours, and what they stand for."""
    bar = figure.colorbar(grid[0, 0].collections[0], ax=grid, fraction=0.02, aspect=40, pad=0.01)
    ticks = (0.5, 0.7, 1.0, 1.4, 2.0)
    labels = [f"{tick:g}\N{MULTIPLICATION SIGN}" for tick in ticks]
    bar.set_ticks([float(np.log2(tick)) for tick in ticks], labels=labels)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)


def _facts(rows: pd.DataFrame, casts: str) -> str:
    shares = [
        f"{percent(float((rows['class'] == name).mean()), 0)} {name}"
        for name in ("faster", "uncertain", "slower")
    ]
    best = row_of_largest(rows, "speedup")
    by = "without casts" if casts == "none" else f"with casts by {casts}"
    return (
        f"{count_of(len(rows), 'linear')} {by}: {', '.join(shares)} than bf16; highest "
        f"{times(float(best['speedup']))} ({best['recipe']} {best['pass'].replace('_', ' + ')} at "
        f"m = {best['m']:,}, n = k = {best['n']:,})."
    )
