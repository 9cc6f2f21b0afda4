"""The break-even map: speed-up of fp8 linears over bf16 by m and weight, the uncertain hatched."""

from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofcal.report.data.drawing import in_recipe_order
from roofcal.report.data.op_pages import headline_op
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import TIMES, count_of, percent, times
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import hatching, label_edges, look, new_figure, ratio_heat_map

_ROW_PX: Final = 17
_LABEL_EVERY: Final = 4  # a label at every power of 4
_PASSES: Final = ("forward", "forward_backward")


def draw_breakeven(table: pd.DataFrame) -> Picture | None:
    """One panel per recipe and pass of the map: k = n down, m across; None for an empty map.

    With the casts of the first provider in the map, without casts if it has none.
    """
    if table.empty:
        return None
    casts = next((str(name) for name in table["casts"] if name != "none"), "none")
    rows = table[table["casts"] == casts]
    recipes = in_recipe_order(rows["recipe"], headline_op())
    passes = [name for name in _PASSES if (rows["pass"] == name).any()]
    with look():
        figure = _panels(rows, recipes, passes)
    return Picture(
        key="breakeven",
        figure=figure,
        op=headline_op(),
        alt="Maps of the predicted speed-up over bf16 by tokens and weight.",
        facts=_facts(rows, casts),
    )


def _panels(rows: pd.DataFrame, recipes: list[str], passes: list[str]) -> Figure:
    sides = rows["n"].nunique()
    figure = new_figure(40 + len(recipes) * (34 + _ROW_PX * sides))
    grid = figure.subplots(len(recipes), len(passes), squeeze=False, sharex=True, sharey=True)
    for line, recipe in zip(grid, recipes, strict=True):
        for axes, name in zip(line, passes, strict=True):
            cells = rows[(rows["recipe"] == recipe) & (rows["pass"] == name)]
            axes.set_visible(len(cells) > 0)
            if len(cells):
                _panel(axes, cells)
                axes.set_title(f"{recipe}, {name.replace('_', ' + ')}")
    label_edges(grid, "m", "n = k")
    _colour_scale(figure, grid)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    speedup = rows.pivot_table(index="n", columns="m", values="speedup", sort=True)
    classes = rows.pivot_table(index="n", columns="m", values="class", aggfunc="first", sort=True)
    ratio_heat_map(axes, speedup.to_numpy(dtype=float), linewidths=0)
    axes.add_collection(hatching((classes == "uncertain").to_numpy()))
    axes.set(xlabel="", ylabel="")
    axes.set_yticks(np.arange(len(speedup)) + 0.5, [f"{n:,}" for n in speedup.index], rotation=0)
    powers = np.log(speedup.columns.to_numpy(dtype=float)) / np.log(_LABEL_EVERY)
    labelled = np.nonzero(powers % 1 < 1e-9)[0]
    axes.set_xticks(
        [i + 0.5 for i in labelled], [f"{speedup.columns[i]:,}" for i in labelled], rotation=0
    )


def _colour_scale(figure: Figure, grid: Any) -> None:
    """The bar that says which colour stands for which ratio."""
    bar = figure.colorbar(grid[0, 0].collections[0], ax=grid, fraction=0.02, aspect=40, pad=0.01)
    ticks = np.array([0.5, 0.7, 1.0, 1.4, 2.0])
    bar.set_ticks(np.log2(ticks), labels=[f"{tick:g}{TIMES}" for tick in ticks])
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)


def _facts(rows: pd.DataFrame, casts: str) -> str:
    shares = [
        f"{percent(float((rows['class'] == name).mean()), 0)} {name}"
        for name in ("faster", "uncertain", "slower")
    ]
    best = row_of_largest(rows, "speedup")
    casting = "without casts" if casts == "none" else f"with casts by {casts}"
    return (
        f"{count_of(len(rows), 'linear')} {casting}: {', '.join(shares)} than bf16; highest "
        f"{times(float(best['speedup']))} ({best['recipe']} {best['pass'].replace('_', ' + ')} at "
        f"m = {best['m']:,}, n = k = {best['n']:,})."
    )
