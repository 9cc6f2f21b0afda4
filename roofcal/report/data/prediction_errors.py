"""How wrong the models of time are: |predicted / measured - 1| over the points they are judged on.

Judged are points of study ops that were measured as the study measures (graph replay, cold cache,
normal data, no repetition): other methods of the panel give other numbers, and a sentinel measured
twenty times would count twenty times.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.environments import origin_labels
from roofcal.report.data.tidy import interval_columns, models_in, role_of, standard_rows

ALL: Final = "all"
_STATISTICS: Final = (
    *("count", "mape", "median_abs_error", "p95_abs_error", "median_error", "worst_error"),
    *("coverage", "violations"),
)
_KEYS: Final = ["op", "model", "regime", "recipe", "provider"]
COLUMNS: Final = (*_KEYS, *_STATISTICS)
# Regimes of products by their size; regimes of other ops follow by name.
_REGIME_ORDER: Final = (ALL, "decode", "small", "mid", "large", "skinny_k", "ragged")


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows on which predictions are judged; none of a probe op, whose points were fitted on."""
    return standard_rows(frame) if role_of(frame) == "study" else frame.iloc[:0]


def residuals(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per judged point and model that predicts it: the columns of the frame, and more.

    model    name of the model
    model_s  its prediction, s
    error    model_s / median_s - 1
    inside   1.0 if the median lies in the interval of the prediction, else 0.0; NaN for a model
             that states no interval
    faster   whether the whole interval of the measurement lies below the prediction and its
             interval
    """
    rows = judged(frame)
    parts = [_residuals_of(rows, model, column) for model, column in models_in(frame).items()]
    filled = [part for part in parts if not part.empty]
    if not filled:
        return rows.iloc[:0].assign(
            model=pd.Series(dtype=object), model_s=np.nan, error=np.nan, inside=np.nan, faster=False
        )
    return pd.concat(filled, ignore_index=True)


def _residuals_of(rows: pd.DataFrame, model: str, column: str) -> pd.DataFrame:
    predicted = rows[rows[column].notna()]
    seconds, median = predicted[column], predicted["median_s"]
    unstated = pd.Series(np.nan, index=predicted.index)
    low, high = (predicted.get(name, unstated) for name in interval_columns(model))
    return predicted.assign(
        model=model,
        model_s=seconds,
        error=seconds / median - 1,
        inside=median.between(low, high).astype(float).where(low.notna() & high.notna()),
        faster=predicted["ci95_high_s"] < low.fillna(seconds),
    )


def error_by_regime(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors per model, regime, recipe and provider; `all` sums up any of the last three.

    An op with one provider has rows of `all` providers alone.

    Fractions of the measured time: mape (mean of |error|), median and 95th percentile of |error|,
    median of the signed error (a bias), the signed error that is furthest from zero, and coverage:
    the share of points inside the 95 % interval of their prediction. `violations` counts the points
    that were faster than the model allows.
    """
    errors = residuals(frame)
    groups = (group for _, group in errors.groupby(["op", "model"], sort=True))
    rows = [row for group in groups for row in _rows_of_model(group)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    if not rows:
        return table
    order = table[_KEYS].copy()
    order["regime"] = [regime_rank(str(name)) for name in order["regime"]]
    for key in ("recipe", "provider"):
        order[key] = [(name != ALL, name) for name in order[key]]
    ranked = order.apply(tuple, axis=1)
    return table.loc[ranked.sort_values().index].reset_index(drop=True)


def regime_rank(name: str) -> tuple[int, str]:
    """Sorting key: all, then the regimes of products by size, then others by name."""
    rank = _REGIME_ORDER.index(name) if name in _REGIME_ORDER else len(_REGIME_ORDER)
    return rank, name


def providers_in(errors: pd.DataFrame, op: str) -> list[str]:
    """Providers that error_by_regime tells apart for an op: two or more, or none."""
    providers = dict.fromkeys(errors.loc[errors["op"] == op, "provider"])
    return [str(name) for name in providers if name != ALL]


def _rows_of_model(group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    regimes = [ALL, *sorted(set(group["regime"]))]
    recipes = [ALL, *sorted(set(group["recipe"]))]
    several = sorted(set(group["provider"]))
    providers = [ALL, *(several if len(several) > 1 else ())]
    head = {"op": group["op"].iloc[0], "model": group["model"].iloc[0]}
    for cell in product(regimes, recipes, providers):
        keys = dict(zip(("regime", "recipe", "provider"), cell, strict=True))
        chosen = pd.Series(data=True, index=group.index)
        for key, value in keys.items():
            chosen &= (group[key] == value) | (value == ALL)
        if chosen.any():
            yield head | keys | _statistics(group[chosen])


def _statistics(rows: pd.DataFrame) -> dict[str, float]:
    values = rows["error"].to_numpy(dtype=float)
    size = np.abs(values)
    numbers: Sequence[float] = (
        len(values),
        float(size.mean()),
        float(np.median(size)),
        float(np.percentile(size, 95)),
        float(np.median(values)),
        float(values[size.argmax()]),
        float(rows["inside"].mean()),
        int(rows["faster"].sum()),
    )
    return dict(zip(_STATISTICS, numbers, strict=True))


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
