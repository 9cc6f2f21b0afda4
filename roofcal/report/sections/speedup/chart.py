"""Speed-ups as maps that answer: cubes by recipe, and a tab per recipe for all other shapes."""

from collections.abc import Sequence
from typing import Final

import pandas as pd

from roofcal.report.data.drawing import HEAD_TIPS, TAIL_TIPS, TIME_TIP, styled_points
from roofcal.report.data.tidy import standard_rows
from roofcal.report.kit.chart_parts import cells, layered
from roofcal.report.kit.charts import Chart, Panel, Tip

_KEYS: Final = ["provider", "recipe", "m", "n", "k"]
_ROW_PX: Final = 20
_CELL_PX: Final = 36  # width of a cell
_RECIPE_PX: Final = 115  # width of a cell above the name of a recipe
_LABELS_PX: Final = 150
_FEW_SIZES: Final = 3
_TIPS: Final = (
    *HEAD_TIPS,
    Tip(key="ratio", label="speed-up", kind="ratio", low="speedup_low", high="speedup_high"),
    TIME_TIP,
    Tip(key="baseline_s", label="baseline", kind="si", unit="s"),
    *TAIL_TIPS,
)


def cube_chart(table: pd.DataFrame, frame: pd.DataFrame, recipes: Sequence[str]) -> Chart:
    """The map of the cubes: recipes down, m across.

    Args:
        table: their speed-ups.
        frame: tidy frame of the op.
        recipes: in order.
    """
    return Chart(
        spec=layered(cells("m", "m = n = k", "recipe", "", None, recipes), []),
        tables={"points": _cells_of(table, frame)},
        panels=[
            Panel(height=_ROW_PX * (len(recipes) + 2), width=_width(table["m"].nunique(), _CELL_PX))
        ],
        x="m",
        y="recipe",
        tips=_TIPS,
        zooms=False,
    )


def speedup_chart(
    table: pd.DataFrame, frame: pd.DataFrame, recipes: Sequence[str], rows: Sequence[str], y: str
) -> Chart:
    """A map per recipe, behind its tab, m across; with few m one per m, the recipes across.

    Args:
        table: speed-ups, with their column `y`.
        frame: tidy frame of the op.
        recipes: in order.
        rows: of each map, in order.
        y: what the rows are.
    """
    points = _cells_of(table, frame).join(table[y])
    points = points[points[y].isin(rows)]
    sizes = sorted(set(points["m"]))
    by_size = len(sizes) <= _FEW_SIZES
    x, tab, tabs = ("recipe", "m", sizes) if by_size else ("m", "recipe", list(recipes))
    order = recipes if by_size else None
    return Chart(
        spec=layered(
            cells(x, "" if by_size else "m", y, "n \N{MULTIPLICATION SIGN} k", order, rows), []
        ),
        tables={"points": points},
        panels=[
            Panel(
                choice=f"m = {value:,}" if by_size else value,
                where={tab: value},
                height=_ROW_PX * (points.loc[points[tab] == value, y].nunique() + 2),
                width=_width(points[x].nunique(), _RECIPE_PX if by_size else _CELL_PX),
            )
            for value in tabs
        ],
        x=x,
        y=y,
        tips=_TIPS,
        zooms=False,
    )


def _width(columns: int, cell: int) -> int:
    return _LABELS_PX + cell * columns


def _cells_of(table: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """The fastest provider of each recipe and shape, with what was measured of its point."""
    best = table.sort_values("speedup", ascending=False, kind="stable")
    best = best.drop_duplicates(["recipe", "m", "n", "k"]).sort_index()
    rows = standard_rows(frame)
    points = styled_points(rows).assign(**{axis: rows[axis] for axis in ("m", "n", "k")})
    measured = points.drop_duplicates(_KEYS).set_index(_KEYS)
    found = measured.loc[pd.MultiIndex.from_frame(best[_KEYS])].reset_index().set_index(best.index)
    return found.assign(
        ratio=best["speedup"],
        label=[f"{value:.2f}" for value in best["speedup"]],
        **{name: best[name] for name in ("speedup_low", "speedup_high", "baseline_s")},
    )
