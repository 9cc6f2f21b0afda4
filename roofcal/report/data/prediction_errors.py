"""How wrong the models of time are: |predicted / measured - 1| over the points they are judged on.

Judged are points of study ops that were measured as the study measures (graph replay, cold cache,
normal data, no repetition): other methods of the panel give other numbers, and a sentinel measured
twenty times would count twenty times.
"""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, Final

import pandas as pd

from roofcal.core.environments import origin_labels
from roofcal.ops import BY_NAME
from roofcal.points.columns import MODEL
from roofcal.points.errors import STATISTICS, error_statistics, errors_of_models
from roofcal.report.data.drawing import in_recipe_order
from roofcal.report.data.op_pages import casts_note
from roofcal.report.data.tidy import models_in, standard_rows
from roofcal.report.kit.blocks import Column, Table
from roofcal.report.kit.columns import count, fraction, ratio, text

ALL: Final = "all"
_KEYS: Final = ["op", "model", "regime", "recipe", "provider"]
COLUMNS: Final = (*_KEYS, *STATISTICS)
# The keys of the rows of error_by_regime; a row is a sum over its other keys.
_SUMMED_UP: Final = tuple(
    ("op", "model", *keys) for size in range(4) for keys in combinations(_KEYS[2:], size)
)
# Regimes of products by their size; regimes of other ops follow by name.
_REGIME_ORDER: Final = (ALL, "decode", "small", "mid", "large", "skinny_k", "ragged")


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows on which predictions are judged; none of a probe op, whose points were fitted on."""
    is_study = len(frame) > 0 and BY_NAME[str(frame["op"].iloc[0])].role == "study"
    return standard_rows(frame) if is_study else frame.iloc[:0]


def residuals(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of `errors_of_models` of the judged points, of every model of the frame."""
    return errors_of_models(judged(frame), models_in(frame))


def error_by_regime(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors per model, regime, recipe and provider; `all` sums up any of the last three.

    An op with one provider has rows of `all` providers alone. error_by_regime.csv.md of the section
    describes the columns.
    """
    errors = residuals(frame)
    several = errors.groupby(["op", "model"])["provider"].nunique() > 1
    columns = [errors[name].to_numpy() for name in ("error", "inside", "score", "faster")]
    rows: list[dict[str, Any]] = []
    for keys in _SUMMED_UP:
        groups: Mapping[Any, Any] = errors.groupby(list(keys), sort=False).indices
        for values, places in groups.items():
            row = dict.fromkeys(_KEYS, ALL) | dict(zip(keys, values, strict=True))
            if row["provider"] == ALL or several[row["op"], row["model"]]:
                rows.append(row | error_statistics(*(column[places] for column in columns)))

    def place(row: Any) -> tuple[Any, ...]:  # what sums up stands before its parts
        names = ((row[key] != ALL, row[key]) for key in ("recipe", "provider"))
        return row["op"], row["model"], regime_rank(row["regime"]), *names

    return pd.DataFrame(sorted(rows, key=place), columns=list(COLUMNS))


def regime_rank(name: str) -> tuple[int, str]:
    """Sorting key: all, then the regimes of products by size, then others by name."""
    rank = _REGIME_ORDER.index(name) if name in _REGIME_ORDER else len(_REGIME_ORDER)
    return rank, name


def error_of(
    errors: pd.DataFrame,
    model: str,
    *,
    op: str,
    regime: str = ALL,
    recipe: str = ALL,
    provider: str = ALL,
) -> "pd.Series[Any] | None":
    """One row of error_by_regime, None if it has no such row."""
    chosen = (errors["op"] == op) & (errors["model"] == model) & (errors["provider"] == provider)
    chosen &= (errors["regime"] == regime) & (errors["recipe"] == recipe)
    return errors[chosen].iloc[0] if chosen.any() else None


def model_labels(environment_id: str, errors: pd.DataFrame) -> dict[str, str]:
    """Model -> what people read, for models with the constants of another environment.

    environment_id: of the run whose points they predict.
    """
    models = errors["model"] if len(errors) else ()
    labels = origin_labels(environment_id, models)
    return {model: f"calibrated of {label}" for model, label in labels.items()}


def with_model_labels(frame: pd.DataFrame, labels: Mapping[str, str]) -> pd.DataFrame:
    """A frame whose column `model` holds what people read."""
    return frame.assign(model=frame["model"].replace(dict(labels))) if labels else frame


# --- by regime: speed-ups by recipe, errors by model ---------------------------------------------


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
