"""From how many tokens on a linear in fp8, casts included, is faster than in bf16."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from roofcal.ask.breakeven import LAYERS
from roofcal.ops.linear.model import FASTEST
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import headline_op
from roofcal.report.data.provenance import derived_table
from roofcal.report.data.tidy import row_of_largest, weights_by_size
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import Table, absence
from roofcal.report.kit.charts import PAPER, Picture
from roofcal.report.kit.columns import count, named, ratio, text
from roofcal.report.kit.numbers import TIMES, count_of, percent, shape_text, times
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "breakeven.csv"
_KEYS: Final = ("recipe", "pass", "casts")
LABELS: Final = (*_KEYS, "class")
_ENDS: Final = ("breakeven_m_low", "breakeven_m", "breakeven_m_high")
NUMBERS: Final = ("m", "n", "k", "speedup", "low", "high", *_ENDS)
COLUMNS: Final = (
    *named("recipe", "pass"),
    text("casts", "casts by"),
    *named("n", "k"),
    count(
        "breakeven_m_low",
        "perhaps from m",
        "from here on the high end of the 95 % interval of the speed-up is above 1",
    ),
    count("breakeven_m", "best estimate"),
    count("breakeven_m_high", "surely from m", "from here on the low end is above 1"),
    ratio("best", "best speed-up", "casts included where `casts by` names a provider"),
)
_ROW_PX: Final = 17
_PASSES: Final = ("forward", "forward_backward")


def show(analysis: Analysis) -> Iterator[Item]:
    """The map of breakeven.csv, and the smallest m of each weight."""
    table, command = derived_table(analysis.run, FILE, LABELS, NUMBERS)
    if table.empty:
        yield absence("This run has no break-even map of linears.")
        return
    yield CsvTable(FILE, table)
    yield draw_breakeven(table, command)
    keys = [*_KEYS, "n", "k"]
    ends = {name: (name, "first") for name in _ENDS}  # the same at every m
    groups = table.groupby(keys, sort=True, as_index=False, dropna=False)
    smallest = groups.agg(**ends, best=("speedup", "max"))
    name = "Smallest m from which on a linear is faster than in bf16; none: never up to 131,072"
    yield Table("breakeven-m", name, smallest, COLUMNS, FILE)


def draw_breakeven(table: pd.DataFrame, command: str) -> Picture | None:
    """One panel per recipe and pass of the map: weights down, m across.

    With casts, or without if the map has none; `command` prints the map. Recipes with slow
    accumulation are in the table alone. None for a map of nothing else.
    """
    casts = next((str(name) for name in table["casts"] if name != "none"), "none")
    rows = table[(table["casts"] == casts) & ~table["recipe"].str.endswith("_slow_accum")]
    if rows.empty:
        return None
    names = {
        sizes: ": ".join(filter(None, (LAYERS.get(sizes), shape_text(sizes))))
        for sizes in weights_by_size(rows)
    }
    rows = rows.assign(weight=[names[sizes] for sizes in zip(rows["n"], rows["k"], strict=True)])
    recipes = drawing.in_recipe_order(rows["recipe"], headline_op())
    cells = charts.in_order(rows, **{"recipe": recipes, "pass": _PASSES})
    cells = cells.assign(
        passes=cells["pass"].str.replace("_", " + "),
        **charts.cell_colours(np.log2(cells["speedup"]), charts.SLOWER_FASTER),
    )
    uncertain = cells[cells["class"] == "uncertain"]
    blank = rows[["m", "weight"]].drop_duplicates().assign(colour=PAPER)
    shares = [
        f"{percent(float((rows['class'] == name).mean()), 0)} {name}"
        for name in ("faster", "uncertain", "slower")
    ]
    best = row_of_largest(rows, "speedup")
    who = "the fastest provider" if casts == FASTEST else casts
    casting = "without casts" if casts == "none" else f"with casts by {who}"
    return Picture(
        key="breakeven",
        op=headline_op(),
        source=FILE,
        command=command,
        x=charts.Axis("m", "tokens m", "names"),
        y=charts.Axis("weight", f"n {TIMES} k, layer of Llama 3", "names", order=[*names.values()]),
        layers=[
            charts.Layer("cells", table="blank"),  # a column for an m that a recipe does not take
            charts.Layer("cells"),
            charts.Layer("hatched", table="uncertain"),
        ],
        tables={"points": cells, "blank": blank, "uncertain": uncertain},
        panels=[
            charts.Panel(
                title=str(recipe),
                choice=str(passes),
                where={"passes": passes, "recipe": recipe},
                height=_ROW_PX * (len(names) + 2),
            )
            for passes, recipe in sorted(
                dict.fromkeys(zip(cells["passes"], cells["recipe"], strict=True)),
                key=lambda pair: str(pair[0]),
            )
        ],
        tips=(
            charts.Tip("m", "m", "count"),
            *charts.text_tips(weight=f"n {TIMES} k"),
            charts.Tip("speedup", "speed-up", "ratio", low="low", high="high"),
            charts.Tip("class", "than bf16"),
        ),
        legend=drawing.speedup_legend(),
        further=("n", "k"),  # of the shape that is nearest to the one in the shape box
        alt="Maps of the predicted speed-up over bf16 by tokens and weight.",
        facts=f"{count_of(len(rows), 'linear')} {casting}: {', '.join(shares)} than bf16; highest "
        f"{times(float(best['speedup']))} ({best['recipe']} {best['pass'].replace('_', ' + ')} at "
        f"m = {best['m']:,}, n {TIMES} k = {best['weight']}).",
    )


SECTION = Section("Break-even of linears in fp8", "recipe", show, lead=("breakeven",))
