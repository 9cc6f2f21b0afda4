"""Two summary tables: speed-up by recipe and regime, error by model and regime."""

from collections.abc import Callable

import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.points.columns import MODEL
from roofcal.report.data.drawing import in_recipe_order
from roofcal.report.data.op_pages import casts_note
from roofcal.report.data.prediction_errors import ALL, regime_rank
from roofcal.report.kit.blocks import Column, Table
from roofcal.report.kit.columns import count, fraction, ratio, text


def gain_table(speedups: pd.DataFrame, *, id: str) -> Table:
    """Rows: recipes by provider. Columns: medians by regime and `all`, `shapes`, `slower`."""
    keys = ["recipe", "provider"]
    medians = speedups.pivot_table("speedup", keys, "regime", aggfunc="median")
    matrix = medians.assign(
        **{ALL: speedups.groupby(keys)["speedup"].median()},
        shapes=speedups.groupby(keys).size(),
        slower=(speedups["speedup_high"] < 1).groupby([speedups[key] for key in keys]).sum(),
    )
    op = str(speedups["op"].iloc[0])
    order = in_recipe_order(speedups["recipe"], op)
    rows = matrix.reset_index().sort_values(
        keys, key=lambda names: names.map(order.index) if names.name == "recipe" else names
    )
    columns = (text("recipe", "recipe"), count("shapes", "shapes"), count("slower", "slower"))
    caption = f"Speed of {op} against {BY_NAME[op].baseline_recipe}, medians{casts_note(op)}"
    return _by_regime(rows, columns, ratio, id=id, caption=caption)


def error_table(errors: pd.DataFrame, op: str, *, id: str) -> Table:
    """Rows: models, the calibrated one first, over all providers and by each of several.

    Columns: MAPE by regime and `all`, `points`.
    """
    keys = ["model", "provider"]
    chosen = errors[(errors["op"] == op) & (errors["recipe"] == ALL)]
    points = chosen[chosen["regime"] == ALL].set_index(keys)["count"]
    matrix = chosen.pivot(index=keys, columns="regime", values="mape").assign(points=points)
    first = {"model": MODEL, "provider": ALL}
    rows = matrix.reset_index().sort_values(
        keys, key=lambda names: names.where(names != first[str(names.name)], ""), kind="stable"
    )
    columns = (text("model", "model"), count("points", "points"))
    caption = f"Mean error of {op} (MAPE) by regime"
    return _by_regime(rows, columns, fraction, id=id, caption=caption)


def _by_regime(
    matrix: pd.DataFrame,
    columns: tuple[Column, ...],
    regime_column: Callable[[str, str], Column],
    *,
    id: str,
    caption: str,
) -> Table:
    """The first of `columns`, the provider if there are several, the regimes, the other columns."""
    fixed = {"provider", *(column.key for column in columns)}
    regimes = sorted((name for name in matrix.columns if name not in fixed), key=regime_rank)
    several = matrix["provider"].nunique() > 1
    shown = [
        columns[0],
        *([text("provider", "provider")] if several else []),
        *(regime_column(name, name) for name in regimes),
        *columns[1:],
    ]
    return Table(id, caption, matrix, shown)
