"""95 % intervals by resampling probes with replacement (Efron & Tibshirani, 1993, chapter 13)."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import CODE, Ceiling
from roofcal.core.times import Array

RESAMPLES = 200
Index = NDArray[np.int64]


def draw_resamples(count: int, generator: np.random.Generator) -> Index:
    """Indices of range(count) drawn with replacement, [RESAMPLES, count]."""
    return generator.integers(0, count, size=(RESAMPLES, count))


def interval_ends(values: Array) -> tuple[Array, Array]:
    """(low, high): 2.5 and 97.5 percentiles over the first axis, that of the resamples."""
    low, high = np.percentile(values, [2.5, 97.5], axis=0)
    return low, high


def interval(
    count: int, statistic: Callable[[Index], Array], generator: np.random.Generator
) -> tuple[Array, Array]:
    """(low, high) of `statistic`, a function of the indices of a resample of `count` probes."""
    return interval_ends(np.array([statistic(draw) for draw in draw_resamples(count, generator)]))


def ceiling(value: float, low: float, high: float, unit: str, evidence: str) -> Ceiling:
    """A constant with its interval, widened where needed so that it contains the value."""
    return Ceiling(
        value=float(value),
        ci95_low=float(min(low, value)),
        ci95_high=float(max(high, value)),
        unit=unit,
        evidence=evidence,
    )


def exact(value: float, unit: str, evidence: str) -> Ceiling:
    """A constant without an error: a count or a choice."""
    return ceiling(value, value, value, unit, evidence)


def encode_family(families: Iterable[str], family: str) -> Ceiling:
    """The constant that holds a family; raises ValueError for one that is not declared."""
    return exact(list(families).index(family), CODE, f"cross-validation: {family}")
