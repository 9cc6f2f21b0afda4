"""Two small tables that say most: speed-up by recipe and regime, error by model and regime."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.report.data.prediction_errors import ALL, rank_of_regime
from roofcal.report.data.tidy import MODEL
from roofcal.report.kit.blocks import Column, Table, make_table
from roofcal.report.kit.columns import count, text
from roofcal.report.kit.numbers import percent, times
from roofcal.report.kit.styles import by_recipe_order


def gain_matrix(speedups: pd.DataFrame) -> pd.DataFrame:
    """Rows: recipes by provider. Columns: medians by regime and `all`, `shapes`, `slower`."""
    order = by_recipe_order(list(dict.fromkeys(speedups["recipe"])), str(speedups["op"].iloc[0]))
    pairs = sorted(
        set(zip(speedups["recipe"], speedups["provider"], strict=True)),
        key=lambda pair: (order.index(pair[0]), pair[1]),
    )
    return pd.DataFrame([_gain_row(recipe, provider, speedups) for recipe, provider in pairs])


def _gain_row(recipe: str, provider: str, speedups: pd.DataFrame) -> dict[str, Any]:
    rows = speedups[(speedups["recipe"] == recipe) & (speedups["provider"] == provider)]
    medians = rows.groupby("regime")["speedup"].median()
    return {
        "recipe": recipe,
        "provider": provider,
        ALL: float(rows["speedup"].median()),
        **{str(regime): float(value) for regime, value in medians.items()},
        "shapes": len(rows),
        "slower": int((rows["speedup_high"] < 1).sum()),
    }


def error_matrix(errors: pd.DataFrame, op: str) -> pd.DataFrame:
    """Rows: models, the calibrated one first, over all providers and by each of several.

    Columns: MAPE by regime and `all`, `points`.
    """
    chosen = errors[(errors["op"] == op) & (errors["recipe"] == ALL)]
    groups = chosen.groupby(["model", "provider"])
    rows = [_error_row(str(model), str(whose), group) for (model, whose), group in groups]
    rows.sort(key=lambda r: (r["model"] != MODEL, r["model"], r["provider"] != ALL, r["provider"]))
    return pd.DataFrame(rows)


def _error_row(model: str, provider: str, rows: pd.DataFrame) -> dict[str, Any]:
    total = rows.loc[rows["regime"] == ALL, "count"].iloc[0]
    by_regime = dict(zip(rows["regime"], rows["mape"], strict=True))
    return {"model": model, "provider": provider, "points": int(total), **by_regime}


def gain_table(speedups: pd.DataFrame, *, id: str) -> Table:
    """The gain_matrix for the page."""
    op = str(speedups["op"].iloc[0])
    matrix = gain_matrix(speedups)
    columns = [
        text("recipe", "recipe"),
        *_providers(matrix),
        *_regimes(matrix, times),
        count("shapes", "shapes"),
        count("slower", "slower"),
    ]
    casts = "with" if BY_NAME[op].written_recipe else "without"
    caption = f"Speed of {op} against {BY_NAME[op].baseline_recipe}, medians, {casts} casts"
    return make_table(matrix, columns, id=id, caption=caption)


def error_table(errors: pd.DataFrame, op: str, *, id: str) -> Table:
    """The error_matrix for the page."""
    matrix = error_matrix(errors, op)
    columns = [
        text("model", "model"),
        *_providers(matrix),
        *_regimes(matrix, percent),
        count("points", "points"),
    ]
    return make_table(matrix, columns, id=id, caption=f"Mean error of {op} (MAPE) by regime")


def _providers(matrix: pd.DataFrame) -> Sequence[Column]:
    """The column of providers, where there are several."""
    return [text("provider", "provider")] if matrix["provider"].nunique() > 1 else []


def _regimes(matrix: pd.DataFrame, show: Any) -> Sequence[Column]:
    fixed = {"recipe", "model", "provider", "shapes", "slower", "points"}
    names = sorted((name for name in matrix.columns if name not in fixed), key=rank_of_regime)
    return [Column(key=name, label=name, kind="number", show=show) for name in names]
