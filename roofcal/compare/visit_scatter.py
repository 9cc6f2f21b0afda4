"""The variance of each point within two runs, by its own scatter and by that of other points.

Two visits in each run leave two degrees of freedom. Three more things inform the variance of a
point: the scatter of turns within a visit, what all points of its group add to that between visits,
and how much points of a group differ. See docs/method.md.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from roofcal.core.visits.differences import Array, least_variance, shrunk_to_mean
from roofcal.core.visits.intervals import RESOLUTION, centred_logs, prior_degrees, prior_variance

_MOST_DEGREES: Final = 1e6  # as good as infinitely many


class Scatter(NamedTuple):
    """Variances with their degrees of freedom."""

    variance: Array
    degrees: Array


def moderated_in_groups(
    own: Scatter, turns: Array, turn_degrees: Array, groups: Sequence[NDArray[np.bool_]]
) -> Scatter:
    """The scatter of each point, moderated by that of the points of its group.

    Smyth's empirical Bayes (`moderated` in roofcal/core/visits/intervals.py) with two additions.
    The variance that is expected of a point comes from its turns, with their uncertainty. And how
    far variances of a group differ, which thirty points with two degrees of freedom tell badly, is
    moved towards that of all groups: groups by themselves found priors of 2 to 2000 degrees of
    freedom for visits that were drawn from one distribution.

    Args:
        own: of units (visits, or turns of a point visited once) about the mean of their point.
        turns, turn_degrees: variance of the mean of a visit by its turns, if these are known.
        groups: which points are in each; points in none keep their own scatter.
    """
    if not groups:
        return own
    variance, degrees = own.variance.copy(), own.degrees.copy()
    expected, certain = np.ones(len(variance)), np.full(len(variance), _MOST_DEGREES)
    for inside in groups:
        # Without turns of most points nothing says what to expect: they are moderated as they are.
        if 2 * np.count_nonzero(turn_degrees[inside]) >= inside.sum():
            expected[inside], certain[inside] = _expected_of_visits(
                own.variance[inside], own.degrees[inside], turns[inside], turn_degrees[inside]
            )
    # How much variances of a group differ, beyond their own chance and that of the expected ones.
    logs = centred_logs(own.variance, own.degrees) - np.log(expected)
    chance = polygamma(1, own.degrees / 2) + polygamma(1, certain / 2)
    extra = np.array([np.var(logs[i], ddof=1) - chance[i].mean() for i in groups])
    # The variance of that, by moments: the fourth central moment of the logarithm of a chi-square
    # variable is psi''' + 3 psi'^2.
    totals = np.array([chance[i].mean() for i in groups]) + max(float(extra.mean()), 0.0)
    fourth = np.array([polygamma(3, own.degrees[i] / 2).mean() for i in groups])
    errors = np.asarray((fourth + 2 * totals**2) / [i.sum() for i in groups])
    for inside, extra_of_group in zip(groups, shrunk_to_mean(extra, errors), strict=True):
        prior = prior_degrees(float(extra_of_group))
        value = prior_variance(logs[inside], prior) * expected[inside]
        # trigamma(k / 2), the variance of a logarithm, is about 2 / k.
        fitted = 2 * inside.sum() / chance[inside].mean()
        known = 1 / (1 / prior + 1 / certain[inside] + 1 / fitted)
        degrees[inside] = known + own.degrees[inside]
        squares = known * value + own.degrees[inside] * own.variance[inside]
        variance[inside] = squares / degrees[inside]
    return Scatter(variance, degrees)


def _expected_of_visits(
    variances: Array, degrees: Array, turns: Array, turn_degrees: Array
) -> tuple[Array, Array]:
    """(expected variance of a visit, its degrees of freedom) for the points of one group.

    It is that of the mean of the visit's turns, and one between visits that all points share, which
    counts as known exactly.
    """
    has_turns = turn_degrees > 0
    logs = centred_logs(turns[has_turns], turn_degrees[has_turns])
    chance = polygamma(1, turn_degrees[has_turns] / 2).mean()
    prior = prior_degrees(float(np.var(logs, ddof=1) - chance))
    known = prior + turn_degrees
    of_turns = (prior * prior_variance(logs, prior) + turn_degrees * turns) / known
    # The variance between visits that, added to that of turns, explains the mean logarithm; 0 where
    # turns alone explain it. Logarithms keep the influence of a visit in another state small, whose
    # variance is a hundred times larger.
    of_visits = centred_logs(variances, degrees)
    between = least_variance(
        lambda added: float(np.mean(of_visits - np.log(of_turns + added + RESOLUTION))) > 0,
        rounds=50,
    )
    expected = of_turns + between + RESOLUTION
    return expected, np.minimum(known * (expected / of_turns) ** 2, _MOST_DEGREES)
