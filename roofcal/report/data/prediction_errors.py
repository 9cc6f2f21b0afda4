"""How wrong the models of time are: |predicted / measured - 1| over the points they are judged on.

Judged are points of study ops that were measured as the study measures (graph replay, cold cache,
normal data, no repetition): other methods of the panel give other numbers, and a sentinel measured
twenty times would count twenty times.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaincinv

from roofcal.core.environments import origin_labels
from roofcal.core.portable_math import log
from roofcal.ops import BY_NAME
from roofcal.points.columns import interval_columns
from roofcal.report.data.tidy import models_in, standard_rows

ALL: Final = "all"
_MISSED: Final = 0.05  # of points, that a 95 % interval may miss
_STATISTICS: Final = (
    *("count", "mape", "median_abs_error", "p95_abs_error", "median_error", "worst_error"),
    *("coverage", "coverage_low", "coverage_high", "interval_score", "violations"),
)
_KEYS: Final = ["op", "model", "regime", "recipe", "provider"]
COLUMNS: Final = (*_KEYS, *_STATISTICS)
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
    """One row per judged point and model that predicts it: the columns of the frame, and more.

    model    name of the model
    model_s  its prediction, s
    error    model_s / median_s - 1
    score    interval score of the logarithms (Gneiting and Raftery, JASA 102, 2007): width, and 40
             times the distance of a median outside; NaN for a model that states no interval
    inside   1.0 if the median lies in the interval of the prediction, else 0.0; NaN for a model
             that states no interval
    faster   whether the whole interval of the measurement lies below the prediction, interval and
             all
    """
    rows = judged(frame)
    parts = []
    for model, column in models_in(frame).items():
        predicted = rows[rows[column].notna()]
        seconds, median = predicted[column], predicted["median_s"]
        unstated = pd.Series(np.nan, index=predicted.index)
        low, high = (predicted.get(name, unstated) for name in interval_columns(model))
        y, least, most = (log(np.asarray(values, dtype=float)) for values in (median, low, high))
        outside = np.maximum(least - y, 0.0) + np.maximum(y - most, 0.0)
        inside = median.between(low, high).astype(float).where(low.notna() & high.notna())
        of_model = predicted.assign(
            model=model,
            model_s=seconds,
            error=seconds / median - 1,
            inside=inside,
            score=pd.Series(most - least + 2 / _MISSED * outside, index=median.index),
            faster=predicted["ci95_high_s"] < low.fillna(seconds),
        )
        parts += [] if of_model.empty else [of_model]
    if parts:
        return pd.concat(parts, ignore_index=True)
    numbers = dict.fromkeys(("model_s", "error", "inside", "score"), np.nan)
    return rows.iloc[:0].assign(model=pd.Series(dtype=object), **numbers, faster=False)


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
                rows.append(row | _statistics(*(column[places] for column in columns)))

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


def _statistics(
    error: NDArray[np.float64],
    inside: NDArray[np.float64],
    score: NDArray[np.float64],
    faster: NDArray[np.bool_],
) -> dict[str, float]:
    size = np.abs(error)
    is_stated = ~np.isnan(inside)
    stated = inside[is_stated]
    low, high = coverage_interval(int(stated.sum()), len(stated))
    numbers: Sequence[float] = (
        len(error),
        float(size.mean()),
        float(np.median(size)),
        float(np.percentile(size, 95)),
        float(np.median(error)),
        float(error[size.argmax()]),
        float(stated.mean()) if len(stated) else np.nan,
        low,
        high,
        float(score[is_stated].mean()) if len(stated) else np.nan,
        int(faster.sum()),
    )
    return dict(zip(_STATISTICS, numbers, strict=True))


def coverage_interval(inside: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of `count` points (Clopper and Pearson); NaN without points."""
    if not count:
        return np.nan, np.nan
    low = betaincinv(inside, count - inside + 1, _MISSED / 2) if inside else 0.0
    high = betaincinv(inside + 1, count - inside, 1 - _MISSED / 2) if inside < count else 1.0
    return round(float(low), 4), round(float(high), 4)


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
