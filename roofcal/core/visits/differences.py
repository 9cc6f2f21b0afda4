"""Is B slower than A? The statistics of every comparison of times. See docs/method.md.

A difference is the logarithm of a ratio of times, above 0 where B is slower. What decides:
- of one number: its whole 95 % interval lies beyond a threshold (`TimeRatio.is_slower`);
- of hundreds of points at once: `verdicts`, which limits the false discovery rate; the rule above
  would miss most changes near the threshold;
- of a card among others: the scatter between the others (`limit_from_others`), because no interval
  of its own times tells how much healthy cards differ.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Student's distribution is stdtr here and not scipy.stats.t, whose import costs half a second.
from scipy.special import chdtri, stdtr, stdtrit

from roofcal.core import portable_math
from roofcal.core.statistics import MATTERS
from roofcal.core.visits.intervals import RESOLUTION, rounded

Array = NDArray[np.float64]

FALSE_DISCOVERIES: Final = 0.05  # share of the points called changed by `verdicts` that did not
FALSE_ALARMS: Final = 0.01  # share of healthy fleets in which any card is called slower
_KEPT: Final = 3.5  # robust deviations from the median within which a card counts as healthy
_LARGEST: Final = 1.0  # of a variance between runs or visits: times that differ by factors of e


class TimeRatio(NamedTuple):
    """How many times as long B takes as A, and the ends of the 95 % interval of that."""

    ratio: Array
    low: Array
    high: Array

    def is_slower(self, threshold: float) -> bool:
        """Whether the whole interval says that B takes longer by more than a threshold."""
        return bool(self.low > 1 + threshold)

    def is_within(self, threshold: float) -> bool:
        """Whether the whole interval says that B takes at most so much longer."""
        return bool(self.high <= 1 + threshold)


def error_of_difference(
    b: Sequence[Array | float], a: Sequence[Array | float]
) -> tuple[Array, Array]:
    """How far below and above b - a its 95 % interval reaches, by the intervals of both.

    Half-widths add as squares (the method of variance estimates recovery: Zou and Donner,
    Statistics in Medicine 27, 2008). That of two of Student's intervals with equal degrees of
    freedom is again Student's interval. a, b: values, low ends and high ends; independent.
    """
    below = np.sqrt((b[0] - b[1]) ** 2 + (a[2] - a[0]) ** 2)
    above = np.sqrt((b[2] - b[0]) ** 2 + (a[0] - a[1]) ** 2)
    return below, above


def time_ratio(b: Sequence[Array | float], a: Sequence[Array | float]) -> TimeRatio:
    """b / a of independent times, value by value; of each the value and the ends of its interval.

    The interval is that of the difference of logarithms.
    """
    logs = ([portable_math.log(np.asarray(part)) for part in times] for times in (b, a))
    below, above = error_of_difference(*logs)
    ratio = np.asarray(b[0]) / np.asarray(a[0])
    return TimeRatio(ratio, ratio * portable_math.exp(-below), ratio * portable_math.exp(above))


def is_of_clock(change: float, clock: float, threshold: float) -> bool:
    """Whether a change of the clock explains one of the time: the cycles are about the same.

    change, clock: logarithms of the ratio of times and of clocks.
    """
    return abs(change + clock) <= float(np.log1p(threshold))


class CommonShift(NamedTuple):
    """The change that most points of a group share.

    error     variance of the shift by the scatter of the points
    between   variance of a point between the runs, beyond the variance that it has within them
    """

    shift: float
    error: float
    between: float


def common_shift(
    changes: Array, variances: Array, degrees: Array, between_degrees: float = np.inf
) -> CommonShift:
    """The shift of a group whose points have those changes.

    The shift is a weighted median, so a change of fewer than half of the points does not move it
    far; its variance is pi/2 times that of a weighted mean (the median of a normal sample).

    Args:
        variances, degrees: of each change within the runs.
        between_degrees: degrees of freedom of the variance between the runs.
    """
    between, shift = 0.0, 0.0
    order = np.argsort(changes, kind="stable")
    for _ in range(4):  # each depends on the other; both converge in three rounds
        cumulated = np.cumsum(1 / (variances + between + RESOLUTION)[order])
        shift = float(changes[order][np.searchsorted(cumulated, cumulated[-1] / 2)])
        between = between_variance(changes - shift, variances, degrees, between_degrees)
    return CommonShift(shift, error_of_shift(variances, between), between)


def error_of_shift(variances: Array, between: float) -> float:
    """The variance of a common shift."""
    return np.pi / 2 / float(np.sum(1 / (variances + between + RESOLUTION)))


def between_variance(
    residuals: Array,
    variances: Array,
    degrees: Array,
    between_degrees: float = np.inf,
    target: float = 1.0,
) -> float:
    """The variance to add so that half of the residuals lie within Student's quartiles.

    Zero where the variances alone explain the residuals. target: what `quartile_ratio` is brought
    to, if half should be within other multiples of the quartiles.
    """
    return least_variance(
        lambda added: quartile_ratio(residuals, variances, degrees, added, between_degrees) > target
    )


def least_variance(is_too_small: Callable[[float], bool], rounds: int = 40) -> float:
    """The smallest variance that is large enough, found by bisection."""
    if not is_too_small(0.0):
        return 0.0
    low, high = 0.0, _LARGEST
    for _ in range(rounds):
        middle = (low + high) / 2
        low, high = (middle, high) if is_too_small(middle) else (low, middle)
    return high


def quartile_ratio(
    residuals: Array,
    variances: Array,
    degrees: Array,
    added: float = 0.0,
    between_degrees: float = np.inf,
) -> float:
    """How many times as wide as Student's quartiles the middle half of the residuals is."""
    total = variances + added + RESOLUTION
    quartiles = stdtrit(combined_degrees(degrees, variances, total, between_degrees), 0.75)
    return float(np.median(np.abs(residuals) / np.sqrt(total) / quartiles))


def combined_degrees(
    degrees: Array, variances: Array, total: Array, added_degrees: Array | float = np.inf
) -> Array:
    """Degrees of freedom of variances to which another was added (Satterthwaite).

    added_degrees: of what was added; the default is for a variance that is known exactly.
    """
    share = np.maximum(variances, RESOLUTION) / total
    inverse = share**2 / degrees + (1 - share) ** 2 / added_degrees
    return np.asarray(1 / np.maximum(inverse, 1e-6), dtype=np.float64)


def shrunk_to_mean(values: Array, variances: Array) -> Array:
    """Values of groups, each moved to their mean as far as its own chance explains the distance.

    How far the true values differ is estimated by moments (DerSimonian and Laird, Controlled
    Clinical Trials 7, 1986), and a value is its mean given that (Morris, JASA 78, 1983).

    variances: of the chance of each value.
    """
    weights = 1 / variances
    mean = np.average(values, weights=weights)
    surplus = np.sum(weights * (values - mean) ** 2) - (len(values) - 1)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    true = max(float(surplus / scale), 0.0) if len(values) > 1 else 0.0
    mean = np.average(values, weights=1 / (variances + true))
    return np.asarray((true * values + variances * mean) / (true + variances))


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


def half_widths(errors: Array, degrees: Array, level: float = 0.95) -> Array:
    """Half of the width of the intervals of a level."""
    return np.asarray(stdtrit(degrees, (1 + level) / 2) * errors, dtype=np.float64)


def adjusted(p: Array, p_at_edge: Array) -> Array:
    """The false discovery rate (Benjamini and Hochberg) at each point, as adjusted p values.

    A change below the threshold is never called, so an unchanged point is called with probability t
    or, if that is smaller, the one of a change as large as the threshold by chance. The sum of
    these takes the place of count * t (Heyse, 2011; docs/method.md, "Comparing").

    Args:
        p: of each point.
        p_at_edge: that a change as large as the threshold would have. Points with larger p values
            are never called, and get 1.
    """
    order = np.argsort(p, kind="stable")
    ascending = np.sort(p_at_edge)
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    smaller = np.searchsorted(ascending, p[order])
    false = sums[smaller] + p[order] * (len(p) - smaller)
    is_large = (p <= p_at_edge)[order]
    rate = np.where(is_large, false / np.maximum(np.cumsum(is_large), 1), 1.0)
    result = np.empty(len(p))
    result[order] = np.minimum(np.minimum.accumulate(rate[::-1])[::-1], 1.0)
    return np.where(p <= p_at_edge, result, 1.0)


def verdicts(changes: Array, half: Array, q: Array, threshold: float) -> list[str]:
    """SLOWER, FASTER, SAME or AMBIGUOUS of every change (a logarithm; above 0 is slower).

    SLOWER, FASTER: a discovery, and by more than `threshold`, a fraction of the time. SAME: the
    whole interval is within the threshold. AMBIGUOUS: too uncertain to tell.
    """
    edge = np.log1p(threshold)
    moved = (q <= FALSE_DISCOVERIES) & (np.abs(changes) >= edge)
    same = np.abs(changes) + half <= edge
    names = np.where(moved, np.where(changes > 0, "SLOWER", "FASTER"), "AMBIGUOUS")
    return [str(name) for name in np.where(same & ~moved, "SAME", names)]


def healthy_values(values: Array) -> Array:
    """The values that do not stand out: two at least, of two or more.

    Median and MAD find them (Rousseeuw and Croux, JASA 88, 1993). A value within 2 % of the median
    never stands out: a MAD of 0, or that of three values, would leave out cards that differ by
    noise.

    values: one per card, differences of natural logarithms of time.
    """
    distance = np.abs(values - np.median(values))
    return values[distance <= max(_KEPT * scatter(values), float(np.log1p(MATTERS)))]


def limit_from_others(others: Array, tests: int) -> float:
    """The largest deviation that one more healthy card would show, in `tests` tests.

    It comes from the standard deviation of the healthy ones of the other cards, and is exceeded by
    a healthy card in FALSE_ALARMS of all fleets (Student's t, Bonferroni); never below 2 %.
    """
    healthy = healthy_values(others)
    spread = float(np.std(healthy, ddof=1) * np.sqrt(1 + 1 / len(healthy)))
    quantile = float(stdtrit(len(healthy) - 1, 1 - FALSE_ALARMS / tests))
    return max(float(np.log1p(MATTERS)), quantile * spread)


class CardSpread(NamedTuple):
    """Standard deviation between cards of one model, a fraction of the time, for a kind of work.

    It includes the error of measuring the cards. low, high: of its 95 % interval.
    """

    kind: str
    cards: int
    spread: float
    low: float
    high: float


def spread_between_cards(kind: str, values: Sequence[float]) -> CardSpread:
    """The standard deviation of cards, with the interval of a normal sample (chi-square).

    values: logarithm of the factor of each card; at least two.
    """
    degrees = len(values) - 1
    centre = fmean(values)
    variance = sum((value - centre) ** 2 for value in values) / degrees
    lower, upper = rounded(chdtri(degrees, np.array([0.975, 0.025])))
    variances = (variance, variance * degrees / upper, variance * degrees / lower)
    return CardSpread(kind, len(values), *(float(np.sqrt(part)) for part in variances))
