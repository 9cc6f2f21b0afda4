"""The 95 % interval of a point's time, from its sessions, visits and samples together.

A row of one visit has the order-statistic interval of its samples: all that one visit shows. A row
of several has Student's interval of the mean of the logarithms of their medians. Two or three
visits say little of their own variance, so the variances of all points of an op moderate each
other: s^2 = (d0 s0^2 + d s^2) / (d0 + d) with d0 + d degrees of freedom, prior d0 and s0 matched to
the points (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004, section 6.2; limma in genomics). No
interval is narrower than the scatter of samples within visits allows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

# Student's distribution is stdtrit here and not scipy.stats.t, whose import costs half a second.
from scipy.special import digamma, polygamma, stdtrit

from roofcal.core.records import Measurement, SettledTurns
from roofcal.core.statistics import Summary, summarise

Array = NDArray[np.float64]
Basis = Literal["samples", "visits", "sessions"]

RESOLUTION: Final = 1e-10  # variance of a point whose turns were all equal: 0.001 % of its time
BASES: Final[dict[Basis, str]] = {
    "samples": "interval of the samples of one visit; covers that visit only",
    "visits": "interval of the visits of one session; covers this session on this card",
    "sessions": "interval of several sessions; covers another session on these cards too",
}
_TWO_SIDED: Final = 1.959964
_MOST_DEGREES: Final = 1e6  # as good as infinitely many
_LEAST_POINTS: Final = 3  # fewer do not tell how variances are distributed
_ALIKE: Final = 1e-3  # below this variance of log(variance) points scatter alike
_SHARED_DEGREES: Final = 2000.0  # degrees of freedom of the prior of points that scatter alike


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitTime:
    """The median of one visit to a point, and the ends of the interval of its own samples, in s."""

    session_id: str
    median: float
    ci95_low: float
    ci95_high: float
    count: int

    @property
    def variance(self) -> float:
        """Of the logarithm of the median, as the samples of the visit show it."""
        return (math.log(self.ci95_high / self.ci95_low) / 2 / _TWO_SIDED) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInterval(Summary):
    """The time of a point with its 95 % interval, in s; `count` is of settled samples.

    median   of the samples of one visit, or the geometric mean of the medians of several
    basis    what it is taken from, and so what it holds: see BASES
    error    standard error of log(median), a fraction of the time
    degrees  of freedom of that
    """

    basis: Basis
    error: float
    degrees: float


def visit_times(row: Measurement, turns: SettledTurns | None = None) -> tuple[VisitTime, ...]:
    """The time of each visit of a row that has settled samples; () for a row without a time.

    turns: the row's `settled_turns_s`, where they are at hand.
    """
    if row.status != "ok":
        return ()
    turns_of_visits = row.settled_turns_s if turns is None else turns
    sessions = [visit.session_id for visit in row.visits] or [row.session_id]
    times = []
    for session_id, of_visit in zip(sessions, turns_of_visits, strict=True):
        if samples := [sample for turn in of_visit for sample in turn]:
            summary = summarise(samples)
            ends = {"ci95_low": summary.ci95_low, "ci95_high": summary.ci95_high}
            times.append(
                VisitTime(session_id=session_id, median=summary.median, count=summary.count, **ends)
            )
    return tuple(times)


def point_intervals(points: Sequence[Sequence[VisitTime]]) -> list[PointInterval | None]:
    """The interval of each point of an op from its visits; None for a point without any.

    Sessions are the units of a point that was visited in several, else visits are.
    """
    units = [_units(visits) for visits in points]
    intervals: list[PointInterval | None] = [
        _of_one_visit(visits[0]) if len(visits) == 1 else None for visits in points
    ]
    for basis in ("visits", "sessions"):
        chosen = [i for i, visits in enumerate(points) if _basis(visits) == basis]
        variances = np.array([np.var(units[i], ddof=1) for i in chosen])
        degrees = np.array([len(units[i]) - 1.0 for i in chosen])
        if len(chosen) >= _LEAST_POINTS:
            variances, degrees = moderated(variances, degrees)
        for i, variance, freedom in zip(chosen, variances, degrees, strict=True):
            intervals[i] = _of_units(points[i], units[i], basis, float(variance), float(freedom))
    return intervals


def _units(visits: Sequence[VisitTime]) -> list[float]:
    """Logarithms of the time by session, or by visit where all are of one session."""
    by_session: dict[str, list[float]] = {}
    for visit in visits:
        by_session.setdefault(visit.session_id, []).append(math.log(visit.median))
    if len(by_session) > 1:
        return [fmean(logs) for logs in by_session.values()]
    return [log for logs in by_session.values() for log in logs]


def _basis(visits: Sequence[VisitTime]) -> Basis | None:
    if len(visits) < 2:
        return "samples" if visits else None
    return "sessions" if len({visit.session_id for visit in visits}) > 1 else "visits"


def _of_one_visit(visit: VisitTime) -> PointInterval:
    return PointInterval(
        median=visit.median,
        ci95_low=visit.ci95_low,
        ci95_high=visit.ci95_high,
        count=visit.count,
        basis="samples",
        error=math.sqrt(visit.variance),
        degrees=math.inf,
    )


def _of_units(
    visits: Sequence[VisitTime],
    logs: Sequence[float],
    basis: Basis,
    variance: float,
    degrees: float,
) -> PointInterval:
    """The interval of a point of several visits, by the moderated variance of one of them."""
    own = fmean(visit.variance for visit in visits) * len(logs) / len(visits)
    error = math.sqrt(max(variance, own, RESOLUTION) / len(logs))
    centre, half = fmean(logs), _half_width(error, degrees)
    return PointInterval(
        median=math.exp(centre),
        ci95_low=math.exp(centre - half),
        ci95_high=math.exp(centre + half),
        count=sum(visit.count for visit in visits),
        basis=basis,
        error=error,
        degrees=degrees,
    )


def ratio_interval(a: PointInterval, b: PointInterval) -> tuple[float, float, float]:
    """(a / b, ends of its 95 % interval), with the fewer degrees of freedom of both.

    Those of the prior are in both, so that the sum of Welch and Satterthwaite counts them twice.
    """
    error = math.hypot(a.error, b.error)
    half = _half_width(error, min(a.degrees, b.degrees))
    ratio = a.median / b.median
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


def _half_width(error: float, degrees: float) -> float:
    """Half of a 95 % interval by Student's distribution."""
    return float(stdtrit(min(degrees, _MOST_DEGREES), 0.975)) * error


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
