"""The 95 % interval of a point's time, from its cards, sessions, visits and samples together.

docs/method.md, "Medians and their intervals", has the method and its sources. Of 700 pairs of
visits at the power limit to one product of a published H200, 27 % differ within the intervals of
their samples alone, and 94 % within those of windows. One or two points of a kind cannot tell what
units share from their own scatter, and keep Student's interval, each by itself.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

# Student's distribution is stdtrit here and not scipy.stats.t, whose import costs half a second.
from scipy.special import digamma, polygamma, stdtrit

from roofcal.core import portable_math
from roofcal.core.records import Measurement, PlanPoint, Session, SettledTurns
from roofcal.core.statistics import Summary, summarise
from roofcal.core.visits.rows import is_sentinel

Array = NDArray[np.float64]
Basis = Literal["samples", "visits", "sessions", "cards"]

RESOLUTION: Final = 1e-10  # variance of a point whose turns were all equal: 0.001 % of its time
# How far an interval can be trusted, by what it is taken from, the narrowest first: the words of
# the column `interval_holds`.
HOLDS: Final[dict[Basis, str]] = {
    "samples": "this visit",
    "visits": "this session",
    "sessions": "another session",
    "cards": "another card",
}
MEANINGS: Final[dict[str, str]] = {
    HOLDS["samples"]: "the samples of one visit",
    HOLDS["visits"]: "repeated visits in one session",
    HOLDS["sessions"]: "several sessions on one card",
    HOLDS["cards"]: "several cards of one model",
}
_WINDOW_S: Final = 0.1
_SWITCH_S: Final = 0.1  # of a turn: its clock is still that of the contender before
_TWO_SIDED: Final = 1.959964
_MOST_DEGREES: Final = 1e6  # as good as infinitely many
_LEAST_POINTS: Final = 3  # fewer show neither a shared effect nor the distribution of variances
_ALIKE: Final = 1e-3  # below this variance of log(variance) points scatter alike
_SHARED_DEGREES: Final = 2000.0  # degrees of freedom of the prior of points that scatter alike
# The last bits of scipy's functions differ between processors, so results keep only so many digits.
_DIGITS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitTime(Summary):
    """The median of one visit to a point, and the ends of the interval of its own samples, in s.

    windows_s        medians of windows of _WINDOW_S, of the only visit of a point with long turns
    counted_windows  how many such windows the samples that count make up
    """

    session_id: str
    windows_s: tuple[float, ...] = ()
    counted_windows: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInterval(Summary):
    """The time of a point with its 95 % interval, in s; `count` is of settled samples.

    median   of the samples of one visit, or the geometric mean of the medians of several units
    basis    what the interval is taken from, and so how far it can be trusted: see HOLDS
    """

    basis: Basis

    @property
    def holds(self) -> str:
        """How far it can be trusted, in the words of HOLDS."""
        return HOLDS[self.basis]

    @property
    def ends(self) -> tuple[float, float, float]:
        """Median, low and high end."""
        return self.median, self.ci95_low, self.ci95_high


@dataclass(frozen=True, slots=True)
class _Units:
    """The units that a mean is taken over: their names, and the logarithm of the time of each.

    own: variance of one of them as the samples of the visits show it.
    """

    basis: Basis
    names: tuple[str, ...]
    logs: tuple[float, ...]
    own: float


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
            times.append(VisitTime(session_id=session_id, **asdict(summarise(samples))))
    if len(sessions) == 1 and times:
        windows, counted = _windows_of_only_visit(row)
        return (replace(times[0], windows_s=windows, counted_windows=max(1.0, counted)),)
    return tuple(times)


def _windows_of_only_visit(row: Measurement) -> tuple[tuple[float, ...], float]:
    """(medians of the windows of its settled turns, how many windows the counted samples fill).

    Windows end with their turn. What a turn recorded and did not count shows how the clock wanders
    as well, except for the first _SWITCH_S.
    """
    medians: list[float] = []
    counted_s = 0.0
    for start, first, end in row.settled_turn_bounds[0]:
        samples = row.latency_samples_s[start:end]
        ends = np.cumsum(samples) * row.calls_per_sample
        edges = ends[-1] - _WINDOW_S * np.arange(round((ends[-1] - _SWITCH_S) / _WINDOW_S), -1, -1)
        places = np.searchsorted(ends, edges, side="right").tolist()
        medians += [median(samples[a:b]) for a, b in pairwise(places) if a < b]
        counted_s += float(ends[-1] - (ends[first - start - 1] if first > start else 0.0))
    return tuple(medians), counted_s / _WINDOW_S


def cards_by_session(sessions: Sequence[Session]) -> dict[str, str]:
    """Session -> the cards it ran on; sessions that do not know theirs count as of one card."""
    return {session.session_id: session.device_uuid or "" for session in sessions}


def point_intervals(
    points: Sequence[Sequence[VisitTime]],
    cards: Mapping[str, str] | None = None,
    kinds: Sequence[str] | None = None,
    repeated_s: Sequence[Sequence[float]] | None = None,
) -> list[PointInterval | None]:
    """The interval of each point of an op from its visits; None for a point without any.

    Args:
        points: the visits of each point.
        cards: session -> card, see `cards_by_session`; None: all are of one card.
        kinds: of each point, the name of what speeds up and slows down together on another card;
            None: all points are of one kind.
        repeated_s: of each point, medians of the same point as a sentinel (`sentinel_medians`): its
            interval holds them. None: no point is a sentinel.
    """
    intervals: list[PointInterval | None] = [None] * len(points)
    single = [i for i, visits in enumerate(points) if len(visits) == 1]
    for i, interval in zip(single, _of_single_visits([points[i][0] for i in single]), strict=True):
        intervals[i] = interval
    several = [i for i, visits in enumerate(points) if len(visits) > 1]
    units = _units_of_points([points[i] for i in several], cards or {})
    pairs = list(zip(several, units, strict=True))
    for basis in HOLDS:
        chosen = [(i, of_point) for i, of_point in pairs if of_point.basis == basis]
        if not chosen:
            continue
        groups = [(kinds[i] if kinds else "", of_point.names) for i, of_point in chosen]
        halves = _half_widths_of_means([of_point for _, of_point in chosen], groups)
        centres = np.array([fmean(of_point.logs) for _, of_point in chosen])
        ends = (portable_math.exp(centres + sign * halves).tolist() for sign in (0, -1, 1))
        for (i, _), middle, low, high in zip(chosen, *ends, strict=True):
            count = sum(visit.count for visit in points[i])
            intervals[i] = PointInterval(
                median=middle, ci95_low=low, ci95_high=high, count=count, basis=basis
            )
    return [
        i and replace(i, ci95_low=min((i.ci95_low, *again)), ci95_high=max((i.ci95_high, *again)))
        for i, again in zip(intervals, repeated_s or [()] * len(points), strict=True)
    ]


def sentinel_medians(
    points: Iterable[PlanPoint], visits: Mapping[str, Sequence[VisitTime]]
) -> dict[str, list[float]]:
    """point_id of a point that is a sentinel, too -> the median of each of its repetitions, in s.

    visits: point_id -> the visits of a sentinel, which are its repetitions.
    """
    medians: dict[str, list[float]] = {}
    for point in (point for point in points if is_sentinel(point) and point.repeat):
        same = medians.setdefault(replace(point, repeat=0).point_id, [])
        same += [visit.median for visit in visits.get(point.point_id, ())]
    return medians


def _units_of_points(
    points: Sequence[Sequence[VisitTime]], cards: Mapping[str, str]
) -> list[_Units]:
    """The units of points of several visits: cards, else sessions, else visits."""
    every = [visit for visits in points for visit in visits]
    if not every:
        return []
    logs = iter(portable_math.log(np.array([visit.median for visit in every])).tolist())
    ends = np.array([visit.ci95_high / visit.ci95_low for visit in every])
    variances = iter(((portable_math.log(ends) / 2 / _TWO_SIDED) ** 2).tolist())
    units = []
    for visits in points:
        by_session: dict[str, list[float]] = {}
        for visit in visits:
            by_session.setdefault(visit.session_id, []).append(next(logs))
        by_card: dict[str, list[float]] = {}
        for session, of_session in by_session.items():
            by_card.setdefault(cards.get(session, ""), []).append(fmean(of_session))
        own = fmean(next(variances) for _ in visits) / len(visits)  # of the mean of all
        basis: Basis
        if len(by_card) > 1:
            basis, names = "cards", tuple(by_card)
            of_units = [fmean(of_card) for of_card in by_card.values()]
        elif len(by_session) > 1:
            basis, names = "sessions", tuple(by_session)
            of_units = [fmean(of_session) for of_session in by_session.values()]
        else:
            of_units = [log for of_session in by_session.values() for log in of_session]
            basis, names = "visits", tuple(f"visit {number}" for number in range(len(visits)))
        units.append(_Units(basis, names, tuple(of_units), own * len(of_units)))
    return units


def _of_single_visits(visits: Sequence[VisitTime]) -> list[PointInterval]:
    """The wider one of the intervals of samples and of windows, of points of one visit each."""
    wandering = [i for i, visit in enumerate(visits) if len(visit.windows_s) > 1]
    halves = np.zeros(len(visits))
    if wandering:
        windows = [portable_math.log(np.array(visits[i].windows_s)) for i in wandering]
        variances = np.array([float(np.var(logs, ddof=1)) for logs in windows])
        degrees = np.array([len(logs) - 1.0 for logs in windows])
        if len(wandering) >= _LEAST_POINTS:
            variances, degrees = moderated(variances, degrees)
        counted = np.array([visits[i].counted_windows for i in wandering])
        halves[wandering] = quantile(degrees) * np.sqrt(variances / counted)
    return [
        PointInterval(
            median=visit.median,
            ci95_low=min(visit.ci95_low, visit.median / factor),
            ci95_high=max(visit.ci95_high, visit.median * factor),
            count=visit.count,
            basis="samples",
        )
        for visit, factor in zip(visits, portable_math.exp(halves).tolist(), strict=True)
    ]


def _half_widths_of_means(
    units: Sequence[_Units], groups: Sequence[tuple[str, tuple[str, ...]]]
) -> Array:
    """Half of the 95 % interval of the mean of the logarithms of each point.

    groups: equal for points of one kind that were measured in the same units.
    """
    counts = np.array([float(len(of_point.logs)) for of_point in units])
    alone, shared = np.zeros(len(units)), np.zeros(len(units))
    is_moderated = np.zeros(len(units), dtype=bool)
    for group in dict.fromkeys(groups):
        inside = [i for i, name in enumerate(groups) if name == group]
        logs = np.array([units[i].logs for i in inside])
        rest = logs - logs.mean(axis=1, keepdims=True)
        degrees = logs.shape[1] - 1.0
        if len(inside) >= _LEAST_POINTS:
            common = rest.mean(axis=0)
            rest = (rest - common) * math.sqrt(len(inside) / (len(inside) - 1))
            shared[inside] = float((common**2).sum()) / degrees
            is_moderated[inside] = True
        alone[inside] = (rest**2).sum(axis=1) / degrees
    degrees_alone = counts - 1
    # In a smaller group, the variance of a point includes the shared effect of its units. Moderated
    # towards variances without that effect, 95 % intervals covered 57 to 73 % of such points.
    if is_moderated.any():
        alone[is_moderated], degrees_alone[is_moderated] = moderated(
            alone[is_moderated], degrees_alone[is_moderated]
        )
    own = np.array([of_point.own for of_point in units])
    alone = np.maximum(np.maximum(alone, own), RESOLUTION)
    squares = quantile(degrees_alone) ** 2 * alone + quantile(counts - 1) ** 2 * shared
    return np.asarray(np.sqrt(squares / counts))


def narrowest_hold(*holds: str | None) -> str | None:
    """How far an interval made of several can be trusted: as far as the least trusted of them."""
    order = list(HOLDS.values())
    known = [hold for hold in holds if hold in order]
    return min(known, key=order.index) if len(known) == len(holds) else None


def quantile(degrees: Array) -> Array:
    """Standard errors to either end of a 95 % interval, by Student's distribution."""
    return rounded(np.asarray(stdtrit(np.minimum(degrees, _MOST_DEGREES), 0.975), dtype=float))


def rounded(values: Array) -> Array:
    """Values to _DIGITS significant digits."""
    return np.array([float(f"{value:.{_DIGITS - 1}e}") for value in np.atleast_1d(values)])


def moderated(variances: Array, degrees: Array) -> tuple[Array, Array]:
    """(variances, degrees of freedom) of points that borrow from one another.

    Four turns tell little of their own scatter; the points of a group tell how scatters are
    distributed. Smyth's empirical Bayes (Stat. Appl. Genet. Mol. Biol. 3, 2004, section 6.2): a
    prior of d0 degrees around s0^2, matched to mean and variance of log(variance).
    """
    centred = centred_logs(variances, degrees)
    prior = prior_degrees(float(np.var(centred, ddof=1) - np.mean(polygamma(1, degrees / 2))))
    prior, value = rounded(np.array([prior, prior_variance(centred, prior)])).tolist()
    return (prior * value + degrees * variances) / (prior + degrees), degrees + prior


def centred_logs(variances: Array, degrees: Array) -> Array:
    """log(variance) less the mean that it would have around a variance of 1 (Smyth's e)."""
    logs = portable_math.log(np.maximum(variances, RESOLUTION))
    return np.asarray(logs - digamma(degrees / 2) + portable_math.log(degrees / 2))


def prior_degrees(extra: float) -> float:
    """Smyth's d0, by the variance of log(variance) between points beyond that of their chance."""
    if not extra > _ALIKE:  # a NaN too
        return _SHARED_DEGREES
    low, high = 1e-4, 1e4  # trigamma falls from infinity to 0: the x where it is `extra`
    for _ in range(80):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if float(polygamma(1, middle)) > extra else (low, middle)
    return 2 * low


def prior_variance(centred: Array, degrees: float) -> float:
    """Smyth's s0^2, by `centred_logs` of the points and the degrees of freedom of the prior."""
    offset = float(digamma(degrees / 2) - math.log(degrees / 2))
    return math.exp(float(np.mean(centred)) + offset)
