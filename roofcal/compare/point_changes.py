"""The points of two runs compared: a verdict and a cause for each, and common shifts.

docs/method.md says what a common shift is, and how a cause is told. Both are tables that become
rows of JSON; until then, changes are logarithms.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import polygamma

from roofcal.compare.observations import LIMITED
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
# Changes of a provider that errors between two cards are made to hold; a tenth may be real. With
# 0.85, 3 % of the points of libraries are called on two H200s.
_HELD: Final = 0.9
MOVED: Final = ("SLOWER", "FASTER")

Mask = NDArray[np.bool_]  # of the rows of a table
Units = tuple[float, ...]  # see ObservedRun
Rows = list[dict[str, Any]]


def same_measurements(pairs: pd.DataFrame) -> int:
    """Points that have the same record in both runs, so that there is nothing to compare.

    A study that is extended keeps what was measured before. pairs: see in_both.
    """
    return sum(bool(x) and x == y for x, y in _units(pairs))


def compare_points(pairs: pd.DataFrame, threshold: float = MATTERS) -> tuple[Rows, Rows]:
    """Points with a time and at least two turns in both runs, and the shifts of their groups.

    Args:
        pairs: see in_both.
        threshold: a change below it, a fraction of the time, does not matter.

    Returns:
        Rows of points and rows of shifts. Changes are fractions of A's time; above 0 is slower. The
        fields of a point, beside `point`, which is B's:

            change      after the common shift of `group`; low, high: ends of its 95 % interval
            raw         the whole change; verdict_raw is of this one
            cause       of SLOWER and FASTER: kernel, clock, unclear or unknown
            clock       change of the SM clock; None without readings
            cycles      change of time x clock
            q           false discovery rate (Benjamini and Hochberg) of calling this point, after
                        the shift; 1 for a change below the threshold, and for one whose mean in a
                        run is among the visits of the other, whatever its interval says
            same_names  whether both runs launched kernels of the same names
            other_card  whether it was measured on another card, see in_both
            other_code  whether it is of a kernel of ours whose code differs, see in_both

        Of a shift, the change that most points of a group share:

            shift       low, high: its 95 % interval, of the scatter of the points and of what they
                        share in each visit, where points were visited several times
            cause       clock, or cycles: more or fewer of them at the same clock, or unclear ...,
                        or state, see _launch_states, with shortest_s: times of a point in A and B
            between     standard deviation of points between the runs, beyond that within the runs
            resolved    share of the points whose interval is within the threshold on both sides
    """
    table = pairs[[min(len(x), len(y)) > 1 and x != y for x, y in _units(pairs)]]
    if table.empty:
        return [], []
    table = _with_variances(table.assign(group=_group_names(table)))
    table, states = _launch_states(table, threshold)
    # Points that changed would widen the variance between the runs, which describes the others.
    # Leaving out those that certainly changed finds up to 6 % more of the changes of 3 %.
    tested = _tested(table.assign(other_card=False), np.ones(len(table), dtype=bool), threshold)
    unchanged = tested["q"].to_numpy() > differences.FALSE_DISCOVERIES
    table = _tested(table, unchanged, threshold)
    shifts = [_shift_of_group(table[inside], threshold) for inside in _large_groups(table)]
    return _changes_of_points(table, threshold), [*states, *shifts]


def _units(pairs: pd.DataFrame) -> list[tuple[Units, Units]]:
    return list(zip(pairs["units_a"], pairs["units_b"], strict=True)) if len(pairs) else []


def _arrays(table: pd.DataFrame, *names: str) -> list[Array]:
    return [table[name].to_numpy(dtype=float) for name in names]


def _group_names(table: pd.DataFrame) -> list[str]:
    """The group of each point: the narrowest with _LEAST points.

    From op and regime, over op and whether the clock was limited (and for long), to all other
    points of the op.
    """
    narrow = [
        (point.op, a if LIMITED in a else b)
        for point, a, b in table[["point_a", "regime_a", "regime_b"]].itertuples(index=False)
    ]
    wide = [(op, name.partition(", ")[2] or "full clock") for op, name in narrow]
    count = Counter(narrow)
    names = [n if count[n] >= _LEAST else w for n, w in zip(narrow, wide, strict=True)]
    count = Counter(names)
    widest = [n if count[n] >= _LEAST else (n[0], "all other") for n in names]
    return [": ".join(name) for name in widest]


def _large_groups(table: pd.DataFrame) -> list[Mask]:
    """Which points are in each group that has enough of them, as the groups first occur."""
    masks = ((table["group"] == name).to_numpy() for name in table["group"].unique())
    return [inside for inside in masks if inside.sum() >= _LEAST]


def _with_variances(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the variance of each change, from the scatter within the runs.

    change              logarithm of B's time over A's
    variance, degrees   of `change`, and its degrees of freedom
    seen_low, seen_high changes for which the mean of one run lies among the visits of the other
    clock               logarithm of B's clock over A's; not a number without readings
    """
    units = _units(table)
    counts = np.array([[len(x), len(y)] for x, y in units], dtype=float)
    degrees = counts.sum(axis=1) - 2
    means = np.array([[np.mean(x), np.mean(y)] for x, y in units])
    squares = np.array([np.var(x) * len(x) + np.var(y) * len(y) for x, y in units])
    turns_a, turns_b, degrees_a, degrees_b = _arrays(
        table, "turn_variance_a", "turn_variance_b", "turn_degrees_a", "turn_degrees_b"
    )
    turn_degrees = degrees_a + degrees_b
    turns = (turns_a * degrees_a + turns_b * degrees_b) / np.maximum(turn_degrees, 1)
    # Points of small groups moderate each other, too. With only their own two degrees of freedom, 1
    # to 3 % fewer changes of 3 % were found in draws whose visits are 0.2 to 1 % apart.
    groups = _large_groups(table)
    rest = ~np.logical_or.reduce(groups) if groups else np.ones(len(table), dtype=bool)
    groups += [rest] if rest.sum() >= _LEAST else []
    moderated = moderated_in_groups(
        Scatter(squares / degrees, degrees), turns, turn_degrees, groups
    )
    seen = np.array([_seen_changes(*row) for row in table[_SEEN].itertuples(index=False)])
    clock_a, clock_b = _arrays(table, "clock_a", "clock_b")
    return table.assign(
        change=means[:, 1] - means[:, 0],
        variance=moderated.variance
        * (1 / counts).sum(axis=1),  # of a unit -> of two means' difference
        degrees=moderated.degrees,
        seen_low=seen[:, 0],
        seen_high=seen[:, 1],
        clock=np.log(clock_b) - np.log(clock_a),
    )


_SEEN: Final = ["units_a", "units_b", "interval_a", "interval_b"]


def _seen_changes(x: Units, y: Units, *intervals: Any) -> tuple[float, float]:
    """Lowest and highest change for which the mean of one run lies among the visits of the other.

    A point that switches between states from visit to visit has not changed when it returns to one.
    Turns of one visit are no states: those of a point at the power limit lie 2 % apart.
    """
    if "samples" in {interval.basis for interval in intervals if interval is not None}:
        return 0.0, 0.0
    a, b = float(np.mean(x)), float(np.mean(y))
    return min(min(x) - a, b - max(y)), max(max(x) - a, b - min(y))


def _launch_states(table: pd.DataFrame, threshold: float) -> tuple[pd.DataFrame, Rows]:
    """The table with `state`, which `change` is without, and a row of a shift for each op.

    A launch takes 0.78 or 0.96 us in one process, so another card may be in another state: then all
    launches of an op whose data are in the cache take so many seconds more or less. It is one where
    the differences of three or more points are alike and matter to the shortest.
    """
    rows: Rows = []
    state = np.zeros(len(table))
    a, b = (np.exp([np.mean(units) for units in table[f"units_{end}"]]) for end in "ab")
    hot = [(p.protocol.method, p.protocol.cache) == ("graph", "hot") for p in table["point_a"]]
    ops = np.where(hot & table["other_card"].to_numpy(), [p.op for p in table["point_a"]], "")
    for op in np.unique(ops[ops != ""]):
        inside = ops == op
        steps, shortest = (b - a)[inside], np.where(inside, a, np.inf).argmin()
        step, spread = np.median(steps), differences.scatter(steps)
        matters = threshold * a[shortest] < abs(step) < b[shortest] / 2
        if matters and abs(step) > 2 * spread and len(steps) >= 3:
            state[inside] = -np.log1p(-step / b[inside])
            half = _TWO_SIDED * spread * (np.pi / 2 / len(steps)) ** 0.5  # of a median
            low, shift, high = (step + np.array([-half, 0.0, half])) / (b[shortest] - step)
            row = {"group": f"{op}: launches", "points": len(steps), "shift": shift, "low": low}
            row |= {"high": high, "clock": None, "cause": "state", "between": 0.0, "resolved": 0.0}
            rows.append(row | {"shortest_s": [a[shortest], b[shortest]]})
    return table.assign(state=state, change=table["change"] - state), rows


def _with_cards(table: pd.DataFrame, rest: Array, root: Array, degrees: Array) -> list[Array]:
    """Errors and degrees of freedom that hold how far points differ between two cards.

    Tails are heavier there: casts that torch compiled take up to twice the time. So errors of an
    op's provider are multiplied until they hold _HELD of its changes, those of few points together.
    Where the code of our kernels differs, too, their own changes do not tell what the card makes:
    the factor is that of the op's libraries, or of all libraries where these have few points.
    """
    root, degrees = root.copy(), degrees.copy()
    by_kernel = _of_card_and_kernel(table)
    by_card = table["other_card"].to_numpy(dtype=bool) & ~by_kernel
    ops, providers = ([getattr(p, n) for p in table["point_a"]] for n in ("op", "provider"))
    of = pd.DataFrame({"op": ops, "provider": providers})
    kinds = of["op"] + " " + of["provider"]
    kinds[kinds.map(kinds[by_card].value_counts()).fillna(0) < _LEAST] = ""
    libraries = by_card & ~of["provider"].str.startswith("torch_compile").to_numpy()
    # points, points whose changes tell what the card makes, more of them where these are few
    groups = []
    for kind in kinds[by_card].unique():
        of_kind = by_card & (kinds == kind).to_numpy()
        groups.append((of_kind, of_kind, by_card))
    for op in of["op"][by_kernel].unique():
        of_op = (of["op"] == op).to_numpy()
        groups.append((by_kernel & of_op, libraries & of_op, libraries))
    ratios = np.abs(rest) / differences.half_widths(root, degrees, _HELD)
    for inside, alike, wider in groups:
        known_by = alike if alike.sum() >= _LEAST else wider
        factor = float(np.quantile(ratios[known_by], _HELD)) if known_by.any() else 1.0
        if factor > 1:
            root[inside] *= factor
            degrees[inside] = 1 / (1 / degrees[inside] + 1 / (_EFFICIENCY * known_by.sum()))
    return [root, degrees]


def _of_card_and_kernel(table: pd.DataFrame) -> Mask:
    """Points of which both the card and the code of our kernel are others."""
    return (table["other_card"] & table["other_code"]).to_numpy(dtype=bool)


def _tested(table: pd.DataFrame, unchanged: Mask, threshold: float) -> pd.DataFrame:
    """The table with each change tested against those of its group; see _with_centres.

    rest      the change after the shift, and half of its 95 % interval; on another card, that of
              a change that is not certainly within the threshold holds what cards differ by
    q, raw_q  see compare_points; of the rest and of the whole change
    """
    table = _with_centres(table, unchanged)
    change, variance, shift, between, error, state = _arrays(
        table, "change", "variance", "shift", "between", "error", "state"
    )
    degrees, between_degrees = _arrays(table, "degrees", "between_degrees")
    low, high = _arrays(table, "seen_low", "seen_high")
    total = variance + between + error + RESOLUTION
    root = np.sqrt(total)
    degrees = differences.combined_degrees(degrees, variance, total, between_degrees)
    edge = np.full(len(table), np.log1p(threshold))
    own = differences.half_widths(root, degrees)
    root, degrees = _with_cards(table, change - shift, root, degrees)
    half = np.where(abs(change - shift) + own <= edge, own, differences.half_widths(root, degrees))
    at_edge = differences.p_values(edge, root, degrees)

    by_kernel = _of_card_and_kernel(table)

    def rates(changes: Array) -> Array:
        is_seen = (low <= changes) & (changes <= high)  # visits within a run show it, too
        p = np.where(is_seen, 1.0, differences.p_values(changes, root, degrees))
        # Each by itself: beside kernels that did change, 2.4 instead of 0.5 % of the points of
        # libraries were called on two H200s.
        for family in (by_kernel, ~by_kernel):
            p[family] = differences.adjusted(p[family], at_edge[family])
        return p

    return table.assign(
        rest=change - shift, half=half, q=rates(change - shift), raw_q=rates(change + state)
    )


_CENTRE: Final = ["shift", "error", "between", "between_degrees"]


def _with_centres(table: pd.DataFrame, unchanged: Mask) -> pd.DataFrame:
    """The table and, per point, the shift of its group and the variance between the runs.

    `error` is the variance of the shift. A group of fewer than _LEAST points has no shift of its
    own, because its points would be tested against themselves; its variance between the runs is the
    largest of the other groups. unchanged: points that count, unless they are fewer than half of
    their group.
    """
    centres = np.array([[0.0, 0.0, 0.0, np.inf]] * len(table))
    large = _large_groups(table)
    nulls = [i & unchanged if 2 * (i & unchanged).sum() >= i.sum() else i for i in large]
    numbers_by_group = [_arrays(table[null], "change", "variance", "degrees") for null in nulls]
    between_degrees = [float(_EFFICIENCY * null.sum()) for null in nulls]
    shifts = [
        differences.common_shift(changes, variances, degrees, of_between).shift
        for (changes, variances, degrees), of_between in zip(
            numbers_by_group, between_degrees, strict=True
        )
    ]
    # The multiple of Student's quartiles that should contain half of the changes of each group: 1
    # for many points. With thirty points the width scatters by 20 %, and variances cannot fall
    # below 0, so half of the groups whose runs are alike would get a variance between the runs. So
    # widths are shrunk towards that of all groups, as far as these are alike.
    ratios = [
        differences.quartile_ratio(changes - shift, variances, degrees)
        for (changes, variances, degrees), shift in zip(numbers_by_group, shifts, strict=True)
    ]
    logs = 2 * np.log(np.maximum(ratios, _LEAST_WIDTH))
    # The variance of the logarithm of a variance with so many degrees of freedom.
    chance = polygamma(1, np.array(between_degrees) / 2)
    targets = np.exp((logs - differences.shrunk_to_mean(logs, chance)) / 2) if large else ()
    for inside, shift, target, (changes, variances, degrees), of_between in zip(
        large, shifts, targets, numbers_by_group, between_degrees, strict=True
    ):
        between = differences.between_variance(
            changes - shift, variances, degrees, of_between, target
        )
        error = differences.error_of_shift(variances, between)
        centres[inside] = shift, error, between, of_between
    if large:
        in_small_group = ~np.logical_or.reduce(large)
        centres[in_small_group, 2:] = centres[:, 2].max(), centres[:, 3].min()
    return table.assign(**dict(zip(_CENTRE, centres.T, strict=True)))


def _shared_by_visits(units: Sequence[Units], turn_degrees: Sequence[int]) -> tuple[float, float]:
    """The variance that all points of a group share from visit to visit.

    A visit of all points, an hour or a session after another, may be slower as a whole: the medians
    over the points by visit scatter more than the points do. The variance of a run's mean over
    visits by that, and its degrees of freedom: 0 where visits do not tell, as with one of each.
    """
    visited = [means for means, degrees in zip(units, turn_degrees, strict=True) if degrees]
    if 2 * len(visited) < len(units):
        return 0.0, 0.0
    count = min(map(len, visited))
    visits = np.array([means[:count] for means in visited])
    medians = np.median(visits - visits.mean(axis=1, keepdims=True), axis=0)
    return float((medians**2).sum()) / (count - 1) / count, count - 1


def _shift_of_group(members: pd.DataFrame, threshold: float) -> dict[str, Any]:
    """The row of a group, see compare_points."""
    shift, error, between, _ = (float(value) for value in members[_CENTRE].iloc[0])
    half, clocks = _arrays(members, "half", "clock")
    shared = [
        _shared_by_visits(members[f"units_{end}"].tolist(), members[f"turn_degrees_{end}"].tolist())
        for end in "ab"
    ]
    estimates = [pair for pair in shared if min(pair) > 0]
    shift_half = _TWO_SIDED * error**0.5
    if estimates:
        by_visits = sum(variance for variance, _ in estimates)
        degrees = by_visits**2 / sum(v**2 / d for v, d in estimates)  # by Satterthwaite
        known, total = np.array([degrees]), np.array([error + by_visits])
        known = differences.combined_degrees(known, np.array([by_visits]), total + RESOLUTION)
        shift_half = float(differences.half_widths(total**0.5, known)[0])
    clock = _median_of_numbers(clocks)
    # The variance of a median is pi/2 times that of a mean.
    clock_half = _TWO_SIDED * differences.scatter(clocks) * (np.pi / 2 / len(members)) ** 0.5
    cause = _cause_of_change(shift, clock, shift_half, clock_half, threshold)
    return {
        "group": members["group"].iloc[0],
        "points": len(members),
        "shift": _fraction(shift),
        "low": _fraction(shift - shift_half),
        "high": _fraction(shift + shift_half),
        "clock": _fraction(clock),
        "cause": "cycles" if cause == "kernel" else cause,
        "between": float(np.sqrt(between)),
        "resolved": float((half <= np.log1p(threshold)).mean()),
    }


def _changes_of_points(table: pd.DataFrame, threshold: float) -> Rows:
    """The row of every point, see compare_points."""
    change, rest, half, q, raw_q = _arrays(table, "change", "rest", "half", "q", "raw_q")
    change = change + table["state"].to_numpy()
    verdicts = differences.verdicts(rest, half, q, threshold)
    clocks, clock_halves = _clocks_within_groups(table)
    causes = [
        _cause_of_change(*of_point, threshold) if verdict in MOVED else None
        for verdict, of_point in zip(
            verdicts, zip(rest, clocks, half, clock_halves, strict=True), strict=True
        )
    ]
    columns: dict[str, Iterable[Any]] = {
        "point": table["point_b"],
        "median_a_s": (interval.median for interval in table["interval_a"]),
        "median_b_s": (interval.median for interval in table["interval_b"]),
        "group": table["group"],
        "verdict": verdicts,
        "verdict_raw": differences.verdicts(change, half, raw_q, threshold),
        "cause": causes,
        "change": map(_fraction, rest),
        "low": map(_fraction, rest - half),
        "high": map(_fraction, rest + half),
        "raw": map(_fraction, change),
        "clock": map(_fraction, table["clock"]),
        "cycles": map(_fraction, change + table["clock"]),
        "q": q.tolist(),
        "same_names": (table["kernels_a"] == table["kernels_b"]).tolist(),
        "other_card": table["other_card"].tolist(),
        "other_code": table["other_code"].tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _clocks_within_groups(table: pd.DataFrame) -> tuple[Array, Array]:
    """Changes of the clock after that of the group, and half of their 95 % intervals.

    An interval comes from the scatter of the point's own readings or from that of its group,
    whichever is larger.
    """
    clocks, error_a, error_b = _arrays(table, "clock", "clock_error_a", "clock_error_b")
    rest, half = clocks.copy(), _TWO_SIDED * np.hypot(error_a, error_b)
    for inside in _large_groups(table):
        rest[inside] -= np.nan_to_num(_median_of_numbers(clocks[inside]))
        half[inside] = np.maximum(half[inside], _TWO_SIDED * differences.scatter(clocks[inside]))
    return rest, half


def _cause_of_change(
    change: float, clock: float, half: float, clock_half: float, threshold: float
) -> str | None:
    """Whether a change of time (a logarithm) is one of the clock or of what runs at it.

    half, clock_half: of the 95 % intervals of change and clock. None for a change within its own.
    """
    if abs(change) < half:
        return None
    if np.isnan(clock):
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


def _median_of_numbers(values: Array) -> float:
    """The median of the values that are numbers; not a number without any."""
    numbers = values[~np.isnan(values)]
    return float(np.median(numbers)) if len(numbers) else np.nan


def _fraction(logarithm: float) -> float | None:
    """The fraction that a logarithm is; None for what is not a number."""
    return None if np.isnan(logarithm) else float(np.expm1(logarithm))
