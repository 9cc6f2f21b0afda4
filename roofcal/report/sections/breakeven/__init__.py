"""From how many tokens on a linear in fp8, casts included, is faster than in bf16."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofcal.ops.linear.model import FASTEST
from roofcal.report.data.derived import DerivedTable
from roofcal.report.data.drawing import in_recipe_order
from roofcal.report.data.op_pages import headline_op
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import count, counts, ratio, text, texts
from roofcal.report.kit.numbers import TIMES, count_of, percent, times
from roofcal.report.kit.styles import hatching, label_edges, look, new_figure, ratio_heat_map
from roofcal.report.kit.writer import Picture, SectionWriter
from roofcal.report.section import Section, derived_contents, derived_file

FILE: Final = "breakeven.csv"
_KEYS: Final = ("recipe", "pass", "casts")
LABELS: Final = (*_KEYS, "class")
_ENDS: Final = ("breakeven_m_low", "breakeven_m", "breakeven_m_high")
NUMBERS: Final = ("m", "n", "k", "speedup", "low", "high", *_ENDS)
COLUMNS: Final = (
    *texts("recipe", "pass"),
    text("casts", "casts by"),
    *counts("n", "k"),
    count(
        "breakeven_m_low",
        "perhaps from m",
        "from here on the high end of the 95 % interval of the speed-up is above 1",
    ),
    count("breakeven_m", "best estimate"),
    count("breakeven_m_high", "surely from m", "from here on the low end is above 1"),
    ratio("best", "best speed-up"),
)
_ROW_PX: Final = 17
_LABEL_EVERY: Final = 4  # a label at every power of 4
_PASSES: Final = ("forward", "forward_backward")


def smallest_m(table: pd.DataFrame) -> pd.DataFrame:
    """Per recipe, pass, casts and weight the break-even m and the highest speed-up of the map."""
    keys = [*_KEYS, "n", "k"]
    rows = table.groupby(keys, sort=True, as_index=False)
    best = rows["speedup"].max()["speedup"]
    return rows[[*keys, *_ENDS]].head(1).sort_values(keys, ignore_index=True).assign(best=best)


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    if derived.rows.empty:
        yield absence("This run has no break-even map of linears.")
        return
    picture = draw_breakeven(derived.rows)
    yield from writer.figures(picture, source=FILE, command=derived.command)
    name = "Smallest m from which on a linear is faster than in bf16; none: never up to 131,072"
    yield writer.table("breakeven-m", name, smallest_m(derived.rows), COLUMNS, FILE)


def draw_breakeven(table: pd.DataFrame) -> Picture | None:
    """One panel per recipe and pass of the map: k = n down, m across; None for an empty map.

    With casts, or without if the map has none.
    """
    if table.empty:
        return None
    casts = next((str(name) for name in table["casts"] if name != "none"), "none")
    rows = table[table["casts"] == casts]
    recipes = in_recipe_order(rows["recipe"], headline_op())
    passes = [name for name in _PASSES if (rows["pass"] == name).any()]
    with look():
        sides = rows["n"].nunique()
        figure = new_figure(40 + len(recipes) * (34 + _ROW_PX * sides))
        grid = figure.subplots(len(recipes), len(passes), squeeze=False, sharex=True, sharey=True)
        for line, recipe in zip(grid, recipes, strict=True):
            for axes, passed in zip(line, passes, strict=True):
                cells = rows[(rows["recipe"] == recipe) & (rows["pass"] == passed)]
                axes.set_visible(len(cells) > 0)
                if len(cells):
                    _panel(axes, cells, sorted(rows["m"].unique()))
                    axes.set_title(f"{recipe}, {passed.replace('_', ' + ')}")
        label_edges(grid, "m", "n = k")
        _colour_scale(figure, grid)
    shares = [
        f"{percent(float((rows['class'] == name).mean()), 0)} {name}"
        for name in ("faster", "uncertain", "slower")
    ]
    best = row_of_largest(rows, "speedup")
    casting = {"none": "without casts", FASTEST: "with casts by whoever is fastest"}.get(
        casts, f"with casts by {casts}"
    )
    return Picture(
        key="breakeven",
        drawn=figure,
        op=headline_op(),
        alt="Maps of the predicted speed-up over bf16 by tokens and weight.",
        facts=f"{count_of(len(rows), 'linear')} {casting}: {', '.join(shares)} than bf16; highest "
        f"{times(float(best['speedup']))} ({best['recipe']} {best['pass'].replace('_', ' + ')} at "
        f"m = {best['m']:,}, n = k = {best['n']:,}).",
    )


def _colour_scale(figure: Figure, grid: Any) -> None:
    """The bar that says which colour stands for which ratio."""
    bar = figure.colorbar(grid[0, 0].collections[0], ax=grid, fraction=0.02, aspect=40, pad=0.01)
    ticks = np.array([0.5, 0.7, 1.0, 1.4, 2.0])
    bar.set_ticks(np.log2(ticks), labels=[f"{tick:g}{TIMES}" for tick in ticks])
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)


def _panel(axes: Axes, rows: pd.DataFrame, tokens: list[int]) -> None:
    """tokens: the columns of every panel; an m that no provider runs leaves a gap."""
    speedup = rows.pivot_table(index="n", columns="m", values="speedup", sort=True)
    classes = rows.pivot_table(index="n", columns="m", values="class", aggfunc="first", sort=True)
    speedup, classes = (cells.reindex(columns=tokens) for cells in (speedup, classes))
    ratio_heat_map(axes, speedup.to_numpy(dtype=float), linewidths=0)
    axes.add_collection(hatching((classes == "uncertain").to_numpy()))
    axes.set(xlabel="", ylabel="")
    axes.set_yticks(np.arange(len(speedup)) + 0.5, [f"{n:,}" for n in speedup.index], rotation=0)
    powers = np.log(speedup.columns.to_numpy(dtype=float)) / np.log(_LABEL_EVERY)
    labelled = np.nonzero(powers % 1 < 1e-9)[0]
    axes.set_xticks(
        [i + 0.5 for i in labelled], [f"{speedup.columns[i]:,}" for i in labelled], rotation=0
    )


SECTION = Section(
    "Break-even of linears in fp8",
    "recipe",
    derived_contents(FILE, LABELS, NUMBERS),
    _blocks,
    tables=derived_file,
)
