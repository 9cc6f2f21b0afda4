"""Points of two runs held against each other: a verdict and a cause for each, and common shifts.

Two runs differ in two ways. All points of a kind move together (another card, another power limit,
warmer air: on two cards of one H200 host everything at the full clock was 1 % slower and everything
at the power limit 2.7 % faster), and single points move because their kernel changed. A person who
looks for the second must not be shown the first five hundred times. So points are put into groups
that drift together (op, regime of the shape, clock limited or not), the shift that most of a group
shares is said once, and the verdict of a point is on what remains; `verdict_raw` is on the whole.

The cause compares clock cycles (time times SM clock): the same cycles at another clock is `clock`,
other cycles are `kernel`. `unclear` where the clock's readings do not decide, `unknown` without any
(CPUs). NVML's reading lags behind at the power limit, where the time of a turn does not even follow
it: the mean over a point's turns is taken, and its scatter over the group is its error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.compare import statistics as st
from roofcal.compare.observations import Observation, Observed, regime
from roofcal.compare.statistics import Array

THRESHOLD: Final = 0.02
_LEAST: Final = 20  # points of a group: fewer join the next wider one


@dataclass(frozen=True, slots=True, kw_only=True)
class PointChange:
    """One point with a time in both runs. Changes are fractions of A's time; above 0 is slower.

    change      after the common shift of `group`, with the ends of its 95 % interval
    raw         the whole change
    clock       change of the SM clock; None without readings
    cycles      change of time x clock
    q           adjusted p value of no change after the shift
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
    """What most points of a group share: fractions of A's time, with 95 % intervals.

    cause    clock, or cycles: more or fewer of them at the same clock, or unclear, unknown
    between  standard deviation of points between the runs beyond what each run sees of itself
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
    """Logarithms of all points as arrays."""

    change: Array
    variance: Array
    degrees: Array
    clock: Array


def compare_points(
    a: Observed, b: Observed, threshold: float = THRESHOLD
) -> tuple[list[PointChange], list[Shift]]:
    """Points with a time and at least two turns in both runs, and the shifts of their groups."""
    keys = [key for key in a.points if key in b.points and _usable(a, b, key)]
    if not keys:
        return [], []
    pairs = [(a.points[key], b.points[key]) for key in keys]
    groups = _groups(a, b, pairs)
    columns = _columns(pairs, groups)
    shifts, centre = _shifts(columns, groups, threshold)
    return _judged(pairs, groups, columns, centre, threshold), shifts


def _usable(a: Observed, b: Observed, key: str) -> bool:
    turns = [run.points[key].log_turns_s for run in (a, b)]
    return min(map(len, turns)) > 1 and turns[0] != turns[1]


def same_measurements(a: Observed, b: Observed) -> int:
    """Points of which both runs hold one and the same measurement, which cannot be compared.

    A study that is extended keeps what was measured before.
    """
    shared = (key for key in a.points if key in b.points)
    pairs = ((a.points[key].log_turns_s, b.points[key].log_turns_s) for key in shared)
    return sum(bool(one) and one == other for one, other in pairs)


def _columns(pairs: Sequence[tuple[Observation, Observation]], groups: Sequence[str]) -> _Columns:
    counts = np.array([[len(x.log_turns_s), len(y.log_turns_s)] for x, y in pairs], dtype=float)
    degrees = counts.sum(axis=1) - 2
    variance = np.array([x.squares + y.squares for x, y in pairs]) / degrees
    names = np.array(groups)
    for name in dict.fromkeys(groups):
        inside = names == name
        if inside.sum() >= _LEAST:
            parts = st.moderated(variance[inside], degrees[inside])
            variance[inside], degrees[inside] = parts
    return _Columns(
        change=np.array([y.mean - x.mean for x, y in pairs]),
        variance=variance * (1 / counts).sum(axis=1),
        degrees=degrees,
        clock=np.array([_clock_change(x, y) for x, y in pairs]),
    )


def _clock_change(a: Observation, b: Observation) -> float:
    """Of the logarithm; not a number without readings."""
    if a.log_clock_hz is None or b.log_clock_hz is None:
        return float("nan")
    return b.log_clock_hz - a.log_clock_hz


def _groups(
    a: Observed, b: Observed, pairs: Sequence[tuple[Observation, Observation]]
) -> list[str]:
    """The group of each pair: as narrow as has _LEAST points, else all that is left of its op."""
    names = [(x.point.op, regime(a, x) if a.is_limited(x) else regime(b, y)) for x, y in pairs]
    wide = [(op, "clock limited" if "limited" in name else "full clock") for op, name in names]
    some = [n if names.count(n) >= _LEAST else w for n, w in zip(names, wide, strict=True)]
    last = [n if some.count(n) >= _LEAST else (n[0], "all other") for n in some]
    return [": ".join(name) for name in last]


Centre = tuple[Array, Array, Array]


def _shifts(
    columns: _Columns, groups: Sequence[str], threshold: float
) -> tuple[list[Shift], Centre]:
    """Shifts, and per point its group's shift, the variance of that, and between the runs.

    A group of fewer than _LEAST points has no shift of its own, because its points would be their
    own null; its variance between the runs is the largest of the other groups.
    """
    found: list[Shift] = []
    centre, error, between = (np.zeros(len(groups)) for _ in range(3))
    names = np.array(groups)
    few = np.zeros(len(groups), dtype=bool)
    for name in dict.fromkeys(groups):
        inside = names == name
        if inside.sum() < _LEAST:
            few |= inside
            continue
        change, variance = columns.change[inside], columns.variance[inside]
        parts = st.common_shift(change, variance, columns.degrees[inside])
        centre[inside], error[inside], between[inside] = parts
        found.append(_shift(name, parts, columns, inside, threshold))
    between[few] = between.max(initial=0.0)
    return found, (centre, error, between)


def _shift(
    name: str,
    parts: tuple[float, float, float],
    columns: _Columns,
    inside: NDArray[np.bool_],
    threshold: float,
) -> Shift:
    centre, error, between = parts
    variance = columns.variance[inside]
    total = variance + between + error + st.RESOLUTION
    half = st.half_widths(np.sqrt(total), st.diluted(columns.degrees[inside], variance, total))
    own = 1.96 * error**0.5
    clock = _median(columns.clock[inside])
    clock_half = st.scatter(columns.clock[inside]) * (np.pi / 2 / inside.sum()) ** 0.5 * 1.96
    cause = _cause(centre, clock, own, clock_half, threshold)
    return Shift(
        group=name,
        points=int(inside.sum()),
        shift=_fraction(centre),
        low=_fraction(centre - own),
        high=_fraction(centre + own),
        clock=None if clock is None else _fraction(clock),
        cause="cycles" if cause == "kernel" else cause,
        between=float(np.sqrt(between)),
        resolved=float((half <= np.log1p(threshold)).mean()),
    )


def _judged(
    pairs: Sequence[tuple[Observation, Observation]],
    groups: Sequence[str],
    columns: _Columns,
    shift: Centre,
    threshold: float,
) -> list[PointChange]:
    centre, error, between = shift
    rest = columns.change - centre
    total = columns.variance + between + error + st.RESOLUTION
    degrees = st.diluted(columns.degrees, columns.variance, total)
    half = st.half_widths(np.sqrt(total), degrees)
    q = st.adjusted(st.p_values(rest, np.sqrt(total), degrees))
    raw_q = st.adjusted(st.p_values(columns.change, np.sqrt(total), degrees))
    verdicts = st.verdicts(rest, half, q, threshold)
    raw = st.verdicts(columns.change, half, raw_q, threshold)
    clocks, scatter = _clocks(pairs, columns.clock, groups)
    return [
        PointChange(
            a=x,
            b=y,
            group=groups[i],
            verdict=verdicts[i],
            verdict_raw=raw[i],
            cause=_of(verdicts[i], rest[i], clocks[i], (half[i], scatter[i]), threshold),
            change=_fraction(rest[i]),
            low=_fraction(rest[i] - half[i]),
            high=_fraction(rest[i] + half[i]),
            raw=_fraction(columns.change[i]),
            clock=_or_none(columns.clock[i]),
            cycles=_or_none(columns.change[i] + columns.clock[i]),
            q=float(q[i]),
            same_names=x.kernel_names == y.kernel_names,
        )
        for i, (x, y) in enumerate(pairs)
    ]


def _clocks(
    pairs: Sequence[tuple[Observation, Observation]], changes: Array, groups: Sequence[str]
) -> tuple[Array, Array]:
    """Changes of the clock beside that of the group, and half of their 95 % interval.

    By the scatter of the point's own readings, or over its group, whichever is larger.
    """
    names, rest = np.array(groups), changes.copy()
    half = np.array([1.96 * np.hypot(x.clock_error, y.clock_error) for x, y in pairs])
    for name in dict.fromkeys(groups):
        inside = names == name
        if inside.sum() >= _LEAST:
            rest[inside] -= _median(changes[inside]) or 0.0
            half[inside] = np.maximum(half[inside], 1.96 * st.scatter(changes[inside]))
    return rest, half


def _of(
    verdict: str, rest: float, clock: float, halves: tuple[float, float], threshold: float
) -> str | None:
    if verdict not in ("SLOWER", "FASTER"):
        return None
    return _cause(rest, None if np.isnan(clock) else clock, *halves, threshold)


def _cause(
    change: float, clock: float | None, half: float, clock_half: float, threshold: float
) -> str | None:
    """Whether a change of time (logarithm) is one of the clock or of what runs at it.

    half, clock_half: of the 95 % intervals of change and clock. None for a change within its own.
    """
    if abs(change) < half:
        return None
    if clock is None:
        return "unknown"
    cycles, edge = change + clock, float(np.log1p(threshold))
    if abs(clock) <= edge / 4 or (cycles * change > 0 and abs(cycles) > max(edge, half)):
        return "kernel"
    if clock * change < 0 and abs(clock) > clock_half and abs(cycles) <= edge:
        return "clock"
    return "unclear"


def _median(values: Array) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def _fraction(logarithm: float) -> float:
    return float(np.expm1(logarithm))


def _or_none(logarithm: float) -> float | None:
    return None if np.isnan(logarithm) else _fraction(logarithm)
