"""How wrong the models of time are: |predicted / measured - 1| over the points they are judged on.

Judged are points of study ops that were measured as the study measures (graph replay, cold cache,
normal data, no repetition): other methods of the panel give other numbers, and a sentinel measured
twenty times would count twenty times.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final

import pandas as pd

from roofcal.core.environments import origin_labels
from roofcal.ops import BY_NAME
from roofcal.points.errors import STATISTICS, error_statistics, errors_of_models
from roofcal.report.data.tidy import models_in, standard_rows

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

    An op with one provider has rows of `all` providers alone.

    Fractions of the measured time: mape (mean of |error|), median and 95th percentile of |error|,
    median of the signed error (a bias), the signed error that is furthest from zero, and coverage:
    the share of points inside the 95 % interval of their prediction, between the ends of its own 95
    % interval (Clopper and Pearson); 0.95 is wanted. `interval_score` is a mean, see `residuals`;
    less is better. `violations` counts the points
    that were faster than the model allows.
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


def providers_in(errors: pd.DataFrame, op: str) -> list[str]:
    """Providers that error_by_regime tells apart for an op: two or more, or none."""
    providers = dict.fromkeys(errors.loc[errors["op"] == op, "provider"])
    return [str(name) for name in providers if name != ALL]


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
