"""How far models of time are from what was measured: the error of each point, and their statistics.

Errors are fractions of the measured time: predicted / measured - 1.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaincinv

from roofcal.core.portable_math import log
from roofcal.points.columns import interval_columns

STATISTICS: Final = (
    *("count", "mape", "median_abs_error", "p95_abs_error", "median_error", "worst_error"),
    *("coverage", "coverage_low", "coverage_high", "interval_score", "violations"),
)
_MISSED: Final = 0.05  # of points, that a 95 % interval may miss


def errors_of_models(rows: pd.DataFrame, models: Mapping[str, str]) -> pd.DataFrame:
    """One row per measured point and model that predicts it: the columns of the table, and more.

    model         name of the model
    model_s       its prediction, s
    model_low_s   ends of the interval of the prediction, s; NaN for a model that states none
    model_high_s
    error         model_s / median_s - 1
    score         interval score of the logarithms (Gneiting and Raftery, JASA 102, 2007): width,
                  and 40 times the distance of a median outside; NaN without an interval
    inside        1.0 if the median lies in the interval of the prediction, else 0.0; NaN without
                  an interval
    faster        whether the whole interval of the measurement lies below the prediction, interval
                  and all

    Args:
        rows: points with a median, s.
        models: name of a model -> its column of predicted seconds.
    """
    parts = []
    for model, column in models.items():
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
            model_low_s=low,
            model_high_s=high,
            error=seconds / median - 1,
            inside=inside,
            score=pd.Series(most - least + 2 / _MISSED * outside, index=median.index),
            faster=predicted["ci95_high_s"] < low.fillna(seconds),
        )
        parts += [] if of_model.empty else [of_model]
    if parts:
        return pd.concat(parts, ignore_index=True)
    names = ("model_s", "model_low_s", "model_high_s", "error", "inside", "score")
    numbers = dict.fromkeys(names, np.nan)
    return rows.iloc[:0].assign(model=pd.Series(dtype=object), **numbers, faster=False)


def error_statistics(
    error: NDArray[np.float64],
    inside: NDArray[np.float64],
    score: NDArray[np.float64],
    faster: NDArray[np.bool_],
) -> dict[str, float]:
    """STATISTICS by name, of columns of `errors_of_models` with at least one row."""
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
    return dict(zip(STATISTICS, numbers, strict=True))


def coverage_interval(inside: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of `count` points (Clopper and Pearson); NaN without points."""
    if not count:
        return np.nan, np.nan
    low = betaincinv(inside, count - inside + 1, _MISSED / 2) if inside else 0.0
    high = betaincinv(inside + 1, count - inside, 1 - _MISSED / 2) if inside < count else 1.0
    return round(float(low), 4), round(float(high), 4)
