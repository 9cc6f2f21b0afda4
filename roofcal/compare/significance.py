"""Is a change real? Tests on logarithms of ratios of times, many at once. See docs/method.md."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

# Student's distribution is stdtr here and not scipy.stats.t, whose import costs half a second.
from scipy.special import stdtr, stdtrit

from roofcal.fitting.intervals import RESOLUTION

Array = NDArray[np.float64]

FALSE_DISCOVERIES: Final = 0.05
_LARGEST: Final = 1.0  # of a variance between runs: points that differ by factors of e


def weighted_median(values: Array, weights: Array) -> float:
    """The value that half of the weight lies below; weights need not add up to 1."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulated, cumulated[-1] / 2)])


def common_shift(changes: Array, variances: Array, degrees: Array) -> tuple[float, float, float]:
    """(shift that most points share, its variance, variance between runs beyond `variances`).

    The shift is a weighted median, so a change of fewer than half of the points does not move it
    far; its variance is pi/2 times that of a weighted mean (the median of a normal sample).
    """
    between, shift = 0.0, 0.0
    for _ in range(4):  # each depends on the other; they stand still after three rounds
        weights = 1 / (variances + between + RESOLUTION)
        shift = weighted_median(changes, weights)
        between = between_variance(changes - shift, variances, degrees)
    return shift, np.pi / 2 / float(np.sum(1 / (variances + between + RESOLUTION))), between


def between_variance(residuals: Array, variances: Array, degrees: Array) -> float:
    """The variance that, added to all, puts half of the residuals within Student's quartiles.

    Zero where the variances alone explain the residuals. It is found by bisection.
    """

    def too_wide(added: float) -> bool:
        total = variances + added + RESOLUTION
        quartile = stdtrit(combined_degrees(degrees, variances, total), 0.75)
        return float(np.median(np.abs(residuals) / np.sqrt(total) / quartile)) > 1

    if not too_wide(0.0):
        return 0.0
    low, high = 0.0, _LARGEST
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if too_wide(middle) else (low, middle)
    return high


def combined_degrees(degrees: Array, variances: Array, total: Array) -> Array:
    """Degrees of freedom of variances to which an exactly known one was added (Satterthwaite)."""
    share = np.maximum(variances, RESOLUTION) / total
    return np.asarray(np.minimum(degrees / share**2, 1e6), dtype=np.float64)


def scatter(values: Array) -> float:
    """A standard deviation that outliers do not move; values that are not numbers are left out.

    1.4826 times the median distance from the median is that of a normal distribution.
    """
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return 0.0
    return float(1.4826 * np.median(np.abs(numbers - np.median(numbers))))


def p_values(changes: Array, errors: Array, degrees: Array) -> Array:
    """Two-sided p values of no change."""
    return np.asarray(2 * stdtr(degrees, -np.abs(changes) / errors), dtype=np.float64)


def half_widths(errors: Array, degrees: Array) -> Array:
    """Half of the width of the 95 % intervals."""
    return np.asarray(stdtrit(degrees, 0.975) * errors, dtype=np.float64)


def adjusted(p: Array) -> Array:
    """p values adjusted by Benjamini and Hochberg: at or below q, the discoveries at rate q."""
    count = len(p)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * count / np.arange(1, count + 1)
    result = np.empty(count)
    result[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return result


def verdicts(changes: Array, half: Array, q: Array, threshold: float) -> list[str]:
    """SLOWER, FASTER, SAME or AMBIGUOUS of every change (a logarithm; above 0 is slower).

    SLOWER, FASTER: a discovery, and by more than `threshold`, a fraction of the time. SAME: the
    whole interval is within the threshold. AMBIGUOUS: the samples do not decide.
    """
    edge = np.log1p(threshold)
    moved = (q <= FALSE_DISCOVERIES) & (np.abs(changes) >= edge)
    same = np.abs(changes) + half <= edge
    names = np.where(moved, np.where(changes > 0, "SLOWER", "FASTER"), "AMBIGUOUS")
    return [str(name) for name in np.where(same & ~moved, "SAME", names)]
