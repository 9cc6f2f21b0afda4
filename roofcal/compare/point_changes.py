"""Points of two runs held against each other: a verdict and a cause for each, and common shifts.

docs/method.md says what a common shift is, and how a cause is told.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from roofcal.compare.observations import Observation, ObservedRun, drift_regime, in_both
from roofcal.compare.visit_scatter import Scatter, moderated_in_groups
from roofcal.core.statistics import MATTERS
from roofcal.core.visits import differences
from roofcal.core.visits.differences import Array
from roofcal.core.visits.intervals import RESOLUTION

_LEAST: Final = 20  # points of a group: fewer join the next wider one
_TWO_SIDED: Final = 1.96  # standard errors of a 95 % interval
# The variance of a median of n squares is that of the mean of 0.37 n of them (normal sample).
_EFFICIENCY: Final = 0.37
_LEAST_WIDTH: Final = 1e-3  # of changes, in quartiles; changes of 0 have no logarithm

Pair = tuple[Observation, Observation]  # a point in run A and in run B


@dataclass(frozen=True, slots=True, kw_only=True)
class PointChange:
    """One point with a time in both runs. Changes are fractions of A's time; above 0 is slower.

    change      after the common shift of `group`, with the ends of its 95 % interval
    raw         the whole change
    clock       change of the SM clock; None without readings
    cycles      change of time x clock
    q           false discovery rate (Benjamini and Hochberg) of calling this point, after the
                shift; 1 for a change below the threshold, and for one whose mean in a run is among
                the visits of the other, whatever its interval says
    same_names  whether both runs launched kernels of the same names
    """

    a: Observation
    b: Observation
    group: str
    verdict: str
    verdict_raw: str
    cause: str | None
    change: float
    low: float
    high: float
    raw: float
    clock: float | None
    cycles: float | None
    q: float
    same_names: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """The change that most points of a group share: a fraction of A's time, with a 95 % interval.

    The interval comes from the scatter of the points, and from that of what they share in each
    visit where points were visited several times.

    cause    clock, or cycles: more or fewer of them at the same clock, or unclear, unknown
    between  standard deviation of points between the runs, beyond their scatter within the runs
    resolved share of the points whose interval is within the threshold on both sides
    """

    group: str
    points: int
    shift: float
    low: float
    high: float
    clock: float | None
    cause: str | None
    between: float
    resolved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """All pairs as arrays.

    groups    name of the group of each
    change    logarithm of B's time over A's
    variance  of `change`, from the scatter within the runs, with its degrees of freedom
    seen_low, seen_high   changes for which the mean of one run is within the visits of the other
    clock     logarithm of B's clock over A's; not a number without readings
    """

    groups: NDArray[np.str_]
    change: Array
    variance: Array
    degrees: Array
    seen_low: Array
    seen_high: Array
    clock: Array

    def large_groups(self) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """(name, which pairs are in it) of the groups with enough points, as they first occur."""
        for name in dict.fromkeys(self.groups.tolist()):
            inside = self.groups == name
            if inside.sum() >= _LEAST:
                yield name, inside


@dataclass(frozen=True, slots=True, kw_only=True)
class _Centres:
    """Per pair, the shift of its group, the variance of that, and the variance between runs.

    between_degrees   degrees of freedom of the variance between runs
    """

    shift: Array
    error: Array
    between: Array
    between_degrees: Array


class _Tests(NamedTuple):
    """Per pair, the change after the shift, half of its 95 % interval, and q (see PointChange).

    raw_q: of the whole change.
    """

    rest: Array
    half: Array
    q: Array
    raw_q: Array


def compare_points(
    a: ObservedRun, b: ObservedRun, threshold: float = MATTERS
) -> tuple[list[PointChange], list[Shift]]:
    """Points with a time and at least two turns in both runs, and the shifts of their groups.

    threshold: a change below it, a fraction of the time, does not matter.
    """
    pairs = [
        (x, y)
        for x, y in in_both(a, b)
        if min(len(x.log_turns_s), len(y.log_turns_s)) > 1 and x.log_turns_s != y.log_turns_s
    ]
    if not pairs:
        return [], []
    columns = _pairs_as_columns(pairs, _group_names(a, b, pairs))
    centres = _centres_of_groups(columns, np.ones(len(pairs), dtype=bool))
    tests = _tests_of_pairs(columns, centres, threshold)
    # Points that changed widen the variance between the runs, which is to be that of the others.
    # Without those that are sure to have changed, up to 6 % more of the changes of 3 % are found.
    unchanged = tests.q > differences.FALSE_DISCOVERIES
    centres = _centres_of_groups(columns, unchanged)
    tests = _tests_of_pairs(columns, centres, threshold)
    shifts = [
        _shift_of_group(name, pairs, columns, centres, inside, threshold)
        for name, inside in columns.large_groups()
    ]
    return _changes_of_pairs(pairs, columns, tests, threshold), shifts


def same_measurements(a: ObservedRun, b: ObservedRun) -> int:
    """Points of which both runs hold one and the same measurement, which cannot be compared.

    A study that is extended keeps what was measured before.
    """
    return sum(bool(x.log_turns_s) and x.log_turns_s == y.log_turns_s for x, y in in_both(a, b))


def _group_names(a: ObservedRun, b: ObservedRun, pairs: Sequence[Pair]) -> list[str]:
    """The group of each pair: the narrowest with _LEAST points.

    From op and regime, over op and whether the clock was limited (and for long), to all other
    points of the op.
    """
    narrow = [
        (x.point.op, drift_regime(a, x) if a.is_limited(x) else drift_regime(b, y))
        for x, y in pairs
    ]
    wide = [(op, name.partition(", ")[2] or "full clock") for op, name in narrow]
    names = [n if narrow.count(n) >= _LEAST else w for n, w in zip(narrow, wide, strict=True)]
    widest = [n if names.count(n) >= _LEAST else (n[0], "all other") for n in names]
    return [": ".join(name) for name in widest]


def _pairs_as_columns(pairs: Sequence[Pair], groups: Sequence[str]) -> _Columns:
    counts = np.array([[len(x.log_turns_s), len(y.log_turns_s)] for x, y in pairs], dtype=float)
    degrees = counts.sum(axis=1) - 2
    own = Scatter(
        variance=np.array([x.squares + y.squares for x, y in pairs]) / degrees,
        degrees=degrees,
    )
    turns = [(o.turn_variance * o.turn_degrees, o.turn_degrees) for pair in pairs for o in pair]
    squares, turn_degrees = np.array(turns, dtype=float).reshape(-1, 2, 2).sum(axis=1).T
    names = np.array(groups)
    known = moderated_in_groups(
        own, squares / np.maximum(turn_degrees, 1), turn_degrees, _groups_of_scatter(names)
    )
    seen_low, seen_high = np.array([_seen_changes(x, y) for x, y in pairs]).T
    return _Columns(
        groups=names,
        change=np.array([y.mean - x.mean for x, y in pairs]),
        variance=known.variance * (1 / counts).sum(axis=1),  # of a unit -> of two means' difference
        degrees=known.degrees,
        seen_low=seen_low,
        seen_high=seen_high,
        # The logarithm; not a number without readings.
        clock=np.array([(y.log_clock_hz or np.nan) - (x.log_clock_hz or np.nan) for x, y in pairs]),
    )


def _seen_changes(x: Observation, y: Observation) -> tuple[float, float]:
    """Lowest and highest change with which the mean of one run is within the visits of the other.

    A point that takes several states from visit to visit did not change when it takes one of them
    again. Turns of one visit are no states: those of a point at the power limit lie 2 % apart.
    """
    if "samples" in {time.basis for time in (x.time, y.time) if time is not None}:
        return 0.0, 0.0
    low = min(min(x.log_turns_s) - x.mean, y.mean - max(y.log_turns_s))
    high = max(max(x.log_turns_s) - x.mean, y.mean - min(y.log_turns_s))
    return low, high


def _groups_of_scatter(names: NDArray[np.str_]) -> list[NDArray[np.bool_]]:
    """Groups whose points tell of each other's scatter: the large ones, and all other points.

    With points of small groups left to their own two degrees of freedom, 1 to 3 % fewer changes of
    3 % were found in draws whose visits are 0.2 to 1 % apart.
    """
    _, position, counts = np.unique(names, return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts >= _LEAST)
    rest = np.isin(position, large, invert=True)
    groups = [position == number for number in large]
    return [*groups, rest] if rest.sum() >= _LEAST else groups


def _centres_of_groups(columns: _Columns, unchanged: NDArray[np.bool_]) -> _Centres:
    """Shifts and variances between runs of the large groups, and what they mean for each pair.

    A group of fewer than _LEAST points has no shift of its own, because its points would be their
    own null; its variance between the runs is the largest of the other groups. unchanged: pairs
    that count, unless they are fewer than half of their group.
    """
    count = len(columns.groups)
    centres = _Centres(
        shift=np.zeros(count),
        error=np.zeros(count),
        between=np.zeros(count),
        between_degrees=np.full(count, np.inf),
    )
    large = [inside for _, inside in columns.large_groups()]
    if not large:
        return centres
    nulls = [i & unchanged if 2 * (i & unchanged).sum() >= i.sum() else i for i in large]
    for inside, null, target in zip(large, nulls, _width_targets(columns, nulls), strict=True):
        shift, degrees = _common_shift(columns, null).shift, _between_degrees(null)
        variances = columns.variance[null]
        between = differences.between_variance(
            columns.change[null] - shift, variances, columns.degrees[null], degrees, target
        )
        centres.shift[inside] = shift
        centres.error[inside] = differences.error_of_shift(variances, between)
        centres.between[inside] = between
        centres.between_degrees[inside] = degrees
    in_small_group = ~np.logical_or.reduce(large)
    centres.between[in_small_group] = centres.between.max()
    centres.between_degrees[in_small_group] = centres.between_degrees.min()
    return centres


def _common_shift(columns: _Columns, inside: NDArray[np.bool_]) -> differences.CommonShift:
    return differences.common_shift(
        columns.change[inside],
        columns.variance[inside],
        columns.degrees[inside],
        _between_degrees(inside),
    )


def _between_degrees(null: NDArray[np.bool_]) -> float:
    """Degrees of freedom of the variance between runs of a group, by the points that count."""
    return float(_EFFICIENCY * null.sum())


def _width_targets(columns: _Columns, nulls: Sequence[NDArray[np.bool_]]) -> Array:
    """The multiple of Student's quartiles, for each group, that half of its changes should be in.

    It is 1 for many points. The width of thirty has a standard deviation of 20 % by chance, and
    variances cannot fall below 0: of groups whose runs are alike, half would have a variance
    between the runs. So widths are moved towards that of all groups, if these are alike.
    """
    widths = []
    for null in nulls:
        residuals = columns.change[null] - _common_shift(columns, null).shift
        ratio = differences.quartile_ratio(residuals, columns.variance[null], columns.degrees[null])
        widths.append(2 * np.log(max(ratio, _LEAST_WIDTH)))
    # The variance of the logarithm of a variance with so many degrees of freedom.
    chance = polygamma(1, np.array([_between_degrees(null) for null in nulls]) / 2)
    logs = np.array(widths)
    return np.asarray(np.exp((logs - differences.shrunk_to_mean(logs, chance)) / 2))


def _tests_of_pairs(columns: _Columns, centres: _Centres, threshold: float) -> _Tests:
    rest = columns.change - centres.shift
    total = columns.variance + centres.between + centres.error + RESOLUTION
    error = np.sqrt(total)
    degrees = differences.combined_degrees(
        columns.degrees, columns.variance, total, centres.between_degrees
    )
    edge = np.full(len(rest), np.log1p(threshold))
    at_edge = differences.p_values(edge, error, degrees)
    q, raw_q = (
        differences.adjusted(_p_values(columns, changes, error, degrees), at_edge)
        for changes in (rest, columns.change)
    )
    return _Tests(rest, differences.half_widths(error, degrees), q, raw_q)


class SharedByVisits(NamedTuple):
    """Variance of the difference of two runs by what all points of a visit share.

    degrees: of freedom of the variance; 0 where visits do not tell, as with one of each point.
    """

    variance: float
    degrees: float


def _shared_by_visits(pairs: Sequence[Pair]) -> SharedByVisits:
    """What the points of a group share in a visit, and their scatter does not show.

    A visit of all points, an hour or a session after another, may be slower as a whole: the medians
    over the points by visit scatter more than the points do. Degrees of freedom of the sum over
    both runs by Satterthwaite.
    """
    parts = [_shared_in_run([pair[side] for pair in pairs]) for side in (0, 1)]
    known = [part for part in parts if part.degrees and part.variance > 0]
    variance = sum(part.variance for part in known)
    if not known:
        return SharedByVisits(0.0, 0.0)
    return SharedByVisits(variance, variance**2 / sum(v**2 / degrees for v, degrees in known))


def _shared_in_run(observations: Sequence[Observation]) -> SharedByVisits:
    """The variance of a run's mean over visits by what the points of a visit share."""
    visited = [o.log_turns_s for o in observations if o.turn_degrees]
    if 2 * len(visited) < len(observations):
        return SharedByVisits(0.0, 0.0)
    count = min(map(len, visited))
    visits = np.array([means[:count] for means in visited])
    medians = np.median(visits - visits.mean(axis=1, keepdims=True), axis=0)
    return SharedByVisits(float((medians**2).sum()) / (count - 1) / count, count - 1)


def _p_values(columns: _Columns, changes: Array, errors: Array, degrees: Array) -> Array:
    """Of no change; 1 of a change that visits within a run show, too."""
    is_seen = (columns.seen_low <= changes) & (changes <= columns.seen_high)
    return np.where(is_seen, 1.0, differences.p_values(changes, errors, degrees))


def _shift_of_group(
    name: str,
    pairs: Sequence[Pair],
    columns: _Columns,
    centres: _Centres,
    inside: NDArray[np.bool_],
    threshold: float,
) -> Shift:
    members = np.flatnonzero(inside)
    shift, error, between, between_degrees = (
        float(values[members[0]])
        for values in (centres.shift, centres.error, centres.between, centres.between_degrees)
    )
    shared = _shared_by_visits([pairs[i] for i in members])
    variance, clocks = columns.variance[inside], columns.clock[inside]
    total = variance + between + error + RESOLUTION
    degrees = differences.combined_degrees(
        columns.degrees[inside], variance, total, between_degrees
    )
    half = differences.half_widths(np.sqrt(total), degrees)
    shift_half = (
        float(
            differences.half_widths(
                np.array([(error + shared.variance) ** 0.5]),
                differences.combined_degrees(
                    np.array([float(shared.degrees)]),
                    np.array([shared.variance]),
                    np.array([error + shared.variance + RESOLUTION]),
                ),
            )[0]
        )
        if shared.degrees
        else _TWO_SIDED * error**0.5
    )
    clock = _median_of_numbers(clocks)
    # The variance of a median is pi/2 times that of a mean.
    clock_error = differences.scatter(clocks) * (np.pi / 2 / inside.sum()) ** 0.5
    cause = _cause_of_change(shift, clock, shift_half, clock_error * _TWO_SIDED, threshold)
    return Shift(
        group=name,
        points=int(inside.sum()),
        shift=_fraction(shift),
        low=_fraction(shift - shift_half),
        high=_fraction(shift + shift_half),
        clock=None if clock is None else _fraction(clock),
        cause="cycles" if cause == "kernel" else cause,
        between=float(np.sqrt(between)),
        resolved=float((half <= np.log1p(threshold)).mean()),
    )


def _changes_of_pairs(
    pairs: Sequence[Pair], columns: _Columns, tests: _Tests, threshold: float
) -> list[PointChange]:
    """The verdict and the cause of every pair."""
    rest, half, q, raw_q = tests
    verdicts = differences.verdicts(rest, half, q, threshold)
    raw_verdicts = differences.verdicts(columns.change, half, raw_q, threshold)
    clocks, clock_halves = _clocks_within_groups(pairs, columns)
    changes: list[PointChange] = []
    for i, (x, y) in enumerate(pairs):
        cause = None
        if verdicts[i] in ("SLOWER", "FASTER"):
            clock = None if np.isnan(clocks[i]) else float(clocks[i])
            cause = _cause_of_change(rest[i], clock, half[i], clock_halves[i], threshold)
        changes.append(
            PointChange(
                a=x,
                b=y,
                group=str(columns.groups[i]),
                verdict=verdicts[i],
                verdict_raw=raw_verdicts[i],
                cause=cause,
                change=_fraction(rest[i]),
                low=_fraction(rest[i] - half[i]),
                high=_fraction(rest[i] + half[i]),
                raw=_fraction(columns.change[i]),
                clock=_fraction_or_none(columns.clock[i]),
                cycles=_fraction_or_none(columns.change[i] + columns.clock[i]),
                q=float(q[i]),
                same_names=x.kernel_names == y.kernel_names,
            )
        )
    return changes


def _clocks_within_groups(pairs: Sequence[Pair], columns: _Columns) -> tuple[Array, Array]:
    """Changes of the clock after that of the group, and half of their 95 % intervals.

    An interval comes from the scatter of the point's own readings or from that of its group,
    whichever is larger.
    """
    rest = columns.clock.copy()
    half = np.array([_TWO_SIDED * np.hypot(x.clock_error, y.clock_error) for x, y in pairs])
    for _, inside in columns.large_groups():
        clocks = columns.clock[inside]
        rest[inside] -= _median_of_numbers(clocks) or 0.0
        half[inside] = np.maximum(half[inside], _TWO_SIDED * differences.scatter(clocks))
    return rest, half


def _cause_of_change(
    change: float, clock: float | None, half: float, clock_half: float, threshold: float
) -> str | None:
    """Whether a change of time (a logarithm) is one of the clock or of what runs at it.

    half, clock_half: of the 95 % intervals of change and clock. None for a change within its own.
    """
    if abs(change) < half:
        return None
    if clock is None:
        return "unknown"
    cycles, edge = change + clock, float(np.log1p(threshold))
    if abs(clock) <= edge / 4 or (cycles * change > 0 and abs(cycles) > max(edge, half)):
        return "kernel"
    if (
        clock * change < 0
        and abs(clock) > clock_half
        and differences.is_of_clock(change, clock, threshold)
    ):
        return "clock"
    return "unclear"


def _median_of_numbers(values: Array) -> float | None:
    """The median of the values that are numbers; None without any."""
    numbers = values[~np.isnan(values)]
    return float(np.median(numbers)) if len(numbers) else None


def _fraction(logarithm: float) -> float:
    return float(np.expm1(logarithm))


def _fraction_or_none(logarithm: float) -> float | None:
    return None if np.isnan(logarithm) else _fraction(logarithm)
