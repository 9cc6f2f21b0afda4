"""95 % intervals by resampling points with replacement (Efron & Tibshirani, 1993, chapter 13)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import Ceiling

RESAMPLES = 200
Array = NDArray[np.float64]


def interval(
    count: int, statistic: Callable[[NDArray[np.int64]], Array], generator: np.random.Generator
) -> tuple[Array, Array]:
    """(low, high) 2.5 and 97.5 percentiles of a statistic of indices drawn from range(count)."""
    draws = generator.integers(0, count, size=(RESAMPLES, count))
    values = np.array([statistic(draw) for draw in draws])
    low, high = np.percentile(values, [2.5, 97.5], axis=0)
    return low, high


def ceiling(value: float, low: float, high: float, unit: str, evidence: str) -> Ceiling:
    """A constant with its interval, widened to hold the value itself."""
    return Ceiling(
        value=float(value),
        ci95_low=float(min(low, value)),
        ci95_high=float(max(high, value)),
        unit=unit,
        evidence=evidence,
    )
