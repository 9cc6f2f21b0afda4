"""Speed-up of every recipe against the baseline of its op."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.ops.spec import OpSpec
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import best_by_regime, best_text, products_alone_text
from roofcal.report.data.op_pages import casts_note, headline_op
from roofcal.report.data.tidy import row_of_largest, shape_texts, standard_rows, weights_by_size
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import Column, Table, absence
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import counts, named, ratio, seconds
from roofcal.report.kit.numbers import TIMES, axis_text, count_of, shape_text, times
from roofcal.report.section import Answer, CsvTable, Item, Section

_SIZES: Final = ["m", "n", "k"]
_KEYS: Final = ["provider", "recipe", *_SIZES]
_MOST_ROWS: Final = 72
_MOST_COLUMNS: Final = 8  # a page 390 pixels wide shows them whole
_GRID_FROM: Final = 3  # so many sizes of m, or weights of one m, make a grid
_ROW_PX: Final = 20
_CELL_PX: Final = 28  # least width of a cell
_RECIPE_PX: Final = 115  # width of a cell above the name of a recipe
_LABELS_PX: Final = 110
_TIPS: Final = drawing.point_tips(
    charts.Tip("ratio", "speed-up", "ratio", low="speedup_low", high="speedup_high"),
    drawing.TIME_TIP,
    charts.Tip("baseline_s", "baseline", "si", "s"),
)
FILE: Final = "speedups.csv"

# Both axes, cells and panels of a map, and what it leaves out
_Grid = tuple[charts.Axis, charts.Axis, pd.DataFrame, Sequence[charts.Panel], str]


def show(analysis: Analysis) -> Iterator[Item]:
    """Maps and table of each op with a baseline, and the fastest recipes as the answer."""
    yield answer(analysis)
    for op, table in analysis.speedups.items():
        yield CsvTable(FILE, table)
        baseline = str(BY_NAME[op].baseline_recipe)
        yield from draw_speedups(table, analysis.frames[op])
        if len(table):
            name = f"Speed-up of {op} against {baseline}{casts_note(op)}"
            yield Table(f"speedups-{op}", name, table, columns_of(BY_NAME[op]), FILE)
        elif BY_NAME[op].role == "study":
            yield absence(f"No shape of {op} has a time in both {baseline} and another recipe.")


def answer(analysis: Analysis) -> Answer:
    """The fastest recipe by regime of the op that the first page is about."""
    op = headline_op()
    speedups, baseline = analysis.speedups.get(op), str(BY_NAME[op].baseline_recipe)
    best, alone = best_by_regime(speedups, op), products_alone_text(speedups, op)
    if not best.empty:
        is_any_faster = (best["speedup"] > 1).any()
        lead = "It depends on the shape" if is_any_faster else "No narrow recipe is faster"
        text = f"{lead}: {best_text(best, baseline)} (medians, casts not counted)."
    elif alone:
        text = f"{baseline}: no narrow recipe that serves a linear was measured beside it."
    else:
        reason = f"no narrow recipe of {op} was measured beside its baseline."
        return Answer(f"Cannot be told here: {reason}", is_open=True)
    return Answer(f"{text} {alone}".rstrip())


def columns_of(op: OpSpec) -> list[Column]:
    """The columns of the speed-ups of an op; the page leaves out those without a value."""
    return [
        *named("recipe", "provider", "world_size"),
        *counts(*op.axes),
        *named("regime"),
        seconds("baseline_s", "baseline"),
        seconds("median_s", "median"),
        *named("speedup", "speedup_low", "speedup_high", "interval_holds"),
        ratio("memory_ratio", "memory", "peak memory over that of the baseline"),
    ]


def draw_speedups(table: pd.DataFrame, frame: pd.DataFrame) -> list[Picture]:
    """Maps of `comparisons.speedups` of products, up to three.

    Cubes; weights by tokens m; and single shapes that fit no grid. No map for ops on several
    devices: a cell has no room for a ratio per world size.

    frame: tidy frame of the op, whose points the cells lead to.
    """
    if table.empty or "world_size" in table or not set(_SIZES) <= set(table.columns):
        return []
    is_cube = (table["m"] == table["n"]) & (table["n"] == table["k"])
    rest = table[~is_cube]
    has_many_m = rest.groupby(["n", "k"])["m"].transform("nunique") >= _GRID_FROM
    few_m = rest[~has_many_m]
    weights = few_m.assign(weight=shape_texts(few_m, ("n", "k"))).groupby("m")["weight"]
    in_layers = weights.transform("nunique") >= _GRID_FROM
    maps = (
        (_grid_of_cubes, "speedup_cubes", table[is_cube]),
        (_grid_of_weights, "speedup_by_tokens", rest.drop(few_m.index[~in_layers])),
        (_grid_of_shapes, "speedup_by_shape", few_m[~in_layers]),
    )
    return [
        _picture(key, rows, grid_of(rows, _cells_of(rows, frame)))
        for grid_of, key, rows in maps
        if len(rows)
    ]


def _grid_of_cubes(table: pd.DataFrame, cells: pd.DataFrame) -> _Grid:
    """Recipes down, m across."""
    x, y = charts.Axis("m", "m = n = k", "names"), _recipe_axis(table)
    panel = charts.Panel(
        height=_ROW_PX * (len(y.order or ()) + 2),
        width=_LABELS_PX + _CELL_PX * table["m"].nunique(),
    )
    return x, y, cells, [panel], ""


def _grid_of_weights(table: pd.DataFrame, cells: pd.DataFrame) -> _Grid:
    """A map per recipe, weights (n x k) down, m across."""
    counts = table["m"].value_counts(sort=False).sort_index()
    tokens = sorted(counts.sort_values(ascending=False, kind="stable").index[:_MOST_COLUMNS])
    kept = _thinned(weights_by_size(table[table["m"].isin(tokens)]))
    cells = cells.assign(weight=shape_texts(cells, ("n", "k")))
    cells = cells[cells["m"].isin(tokens) & cells["weight"].isin(kept)]
    panels = [
        charts.Panel(
            choice=recipe,
            where={"recipe": recipe},
            height=_ROW_PX * (cells.loc[cells["recipe"] == recipe, "weight"].nunique() + 2),
            width=_LABELS_PX + _CELL_PX * cells["m"].nunique(),
        )
        for recipe in _recipe_axis(table).order or ()
    ]
    weights, all_tokens = len(weights_by_size(table)), len(counts)
    is_whole = (len(kept), len(tokens)) == (weights, all_tokens)
    left_out = f" {len(kept)} of {weights} weights and {len(tokens)} of {all_tokens} sizes m"
    y = charts.Axis("weight", f"n {TIMES} k", "names", order=kept)
    x = charts.Axis("m", "tokens m", "names")
    return x, y, cells, panels, "" if is_whole else f"{left_out} are drawn."


def _grid_of_shapes(table: pd.DataFrame, cells: pd.DataFrame) -> _Grid:
    """Shapes down, recipes across."""
    shapes = table.sort_values(_SIZES)[_SIZES].drop_duplicates().to_numpy().tolist()
    kept = _thinned(shapes)
    x = _recipe_axis(table)
    y = charts.Axis("shape", f"m {TIMES} n {TIMES} k", "names", order=kept)
    height, width = _ROW_PX * (len(kept) + 2), _LABELS_PX + _RECIPE_PX * len(x.order or ())
    note = "" if len(kept) == len(shapes) else f" {len(kept)} of {len(shapes)} shapes are drawn."
    cells = cells[cells["shape"].isin(kept)]
    return x, y, cells, [charts.Panel(height=height, width=width)], note


def _cells_of(table: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """The fastest provider of each recipe and shape, with what was measured of its point."""
    best = table.sort_values("speedup", ascending=False, kind="stable")
    best = best.drop_duplicates(["recipe", *_SIZES]).sort_index()
    rows = standard_rows(frame)
    measured = drawing.styled_points(rows).drop_duplicates(_KEYS).set_index(_KEYS)
    found = measured.loc[pd.MultiIndex.from_frame(best[_KEYS])].reset_index().set_index(best.index)
    return found.assign(
        ratio=best["speedup"],
        label=[f"{value:.2f}" for value in best["speedup"]],
        **charts.cell_colours(np.log2(best["speedup"]), charts.SLOWER_FASTER),
        **{name: best[name] for name in ("speedup_low", "speedup_high", "baseline_s")},
    )


def _picture(key: str, table: pd.DataFrame, grid: _Grid) -> Picture:
    """A map, and what all ratios of the table say."""
    x, y, cells, panels, note = grid
    op, best = str(table["op"].iloc[0]), row_of_largest(table, "speedup")
    baseline, slower = BY_NAME[op].baseline_recipe, int((table["speedup_high"] < 1).sum())
    return Picture(
        key=key,
        op=op,
        x=x,
        y=y,
        layers=[charts.Layer("cells", detail="label")],
        tables={"points": cells},
        panels=panels,
        tips=_TIPS,
        legend=drawing.speedup_legend(),
        alt=f"Heat map of the speed-up against {baseline}.",
        facts=f"{count_of(len(table), 'ratio')} to {baseline}{casts_note(op)}; median "
        f"{times(float(table['speedup'].median()))}, highest {times(float(best['speedup']))} "
        f"({best['recipe']} at {axis_text(best)}); {slower} slower than {baseline} beyond their "
        f"interval.{note}",
    )


def _recipe_axis(table: pd.DataFrame) -> charts.Axis:
    recipes = drawing.in_recipe_order(table["recipe"], str(table["op"].iloc[0]))
    return charts.Axis("recipe", "", "names", order=recipes)


def _thinned(sizes: Sequence[Iterable[int]]) -> list[str]:
    """At most _MOST_ROWS sizes as people write them, evenly spaced."""
    return [shape_text(of_one) for of_one in sizes[:: -(-len(sizes) // _MOST_ROWS)]]


SECTION = Section(
    "Speed-up against the baseline",
    "recipe",
    show,
    lead=("speedup_by_tokens", "speedup_cubes", "speedup_by_shape"),
)
