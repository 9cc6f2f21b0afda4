"""Is a change real? Tests on logarithms of ratios of times, many at once.

The change of a point is the difference of two means over turns. Its variance within the runs comes
from the scatter of turns, pooled over the two runs and moderated by that of the other points of its
group (`moderated`). Between two runs a point also moves for reasons that do not vary within a run:
another card, another address of a buffer, another temperature. That variance is taken from the
points themselves, most of which did not change (the empirical null of Efron, JASA 99, 2004): it is
chosen so that half of all changes lie within the quartiles of Student's distribution. Tests of all
points together are adjusted by Benjamini and Hochberg (J. R. Statist. Soc. B 57, 1995), so that at
most 5 % of the points that are called changed did not change.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma
from scipy.stats import t as student

Array = NDArray[np.float64]

FALSE_DISCOVERIES: Final = 0.05
_LARGEST: Final = 1.0  # of a variance between runs: points that differ by factors of e
_ALIKE: Final = 1e-3  # below this variance of log(variance) points scatter alike
_SHARED_DEGREES: Final = 2000.0  # degrees of freedom of the prior of points that scatter alike
RESOLUTION: Final = 1e-10  # variance of a point whose turns were all equal: 0.001 % of its time


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
        quartile = student.ppf(0.75, diluted(degrees, variances, total))
        return float(np.median(np.abs(residuals) / np.sqrt(total) / quartile)) > 1

    if not too_wide(0.0):
        return 0.0
    low, high = 0.0, _LARGEST
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if too_wide(middle) else (low, middle)
    return high


def diluted(degrees: Array, variances: Array, total: Array) -> Array:
    """Degrees of freedom after adding a variance that has many of its own (Satterthwaite)."""
    share = np.maximum(variances, RESOLUTION) / total
    return np.asarray(np.minimum(degrees / share**2, 1e6), dtype=np.float64)


def moderated(variances: Array, degrees: Array) -> tuple[Array, Array]:
    """(variances, degrees of freedom) of points that borrow from one another.

    Four turns tell little of their own scatter; the points of a group tell how scatters are
    distributed. Smyth's empirical Bayes (Stat. Appl. Genet. Mol. Biol. 3, 2004, section 6.2): a
    prior of d0 degrees around s0^2, matched to mean and variance of log(variance).
    """
    logs = np.log(np.maximum(variances, RESOLUTION))
    centred = logs - digamma(degrees / 2) + np.log(degrees / 2)
    extra = float(np.var(centred, ddof=1) - np.mean(polygamma(1, degrees / 2)))
    prior = 2 * _trigamma_inverse(extra) if extra > _ALIKE else _SHARED_DEGREES
    offset = float(digamma(prior / 2) - np.log(prior / 2))
    value = float(np.exp(np.mean(centred) + offset))
    return (prior * value + degrees * variances) / (prior + degrees), degrees + prior


def _trigamma_inverse(value: float) -> float:
    """The x with trigamma(x) = value, by bisection: trigamma falls from infinity to 0."""
    low, high = 1e-4, 1e4
    for _ in range(80):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if float(polygamma(1, middle)) > value else (low, middle)
    return low


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
    return np.asarray(2 * student.sf(np.abs(changes) / errors, degrees), dtype=np.float64)


def half_widths(errors: Array, degrees: Array) -> Array:
    """Half of the width of the 95 % intervals."""
    return np.asarray(student.ppf(0.975, degrees) * errors, dtype=np.float64)


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
