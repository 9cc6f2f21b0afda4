"""All that differs between two runs, as JSON values."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from roofcal.compare import breakeven, constants, listings
from roofcal.compare.observations import Observed, observe
from roofcal.compare.points import (
    THRESHOLD,
    PointChange,
    Shift,
    compare_points,
    same_measurements,
)
from roofcal.core.paths import RunFolder

VERDICTS: Final = ("SLOWER", "FASTER", "SAME", "AMBIGUOUS")


def compare(
    a: RunFolder, b: RunFolder, threshold: float = THRESHOLD, limit: float | None = None
) -> dict[str, Any]:
    """What moved from run A to run B.

    threshold: a change of time below it, a fraction, does not matter.
    limit: a slowdown above it is a regression (default: the threshold): of a point after the common
    shift, or the common shift of a group. One that the clock explains is none: another card or
    power limit is no fault of the software; it is listed with the others.
    Raises CompareError or RecordsError for a folder that is no run or a bad file.
    """
    edge = threshold if limit is None else limit
    one, other = observe(a), observe(b)
    points, shifts = compare_points(one, other, threshold)
    slow = [p for p in points if p.verdict == "SLOWER" and p.cause != "clock" and p.change > edge]
    drifts = [s for s in shifts if s.low > edge and s.cause != "clock"]
    return {
        "a": _run(one),
        "b": _run(other),
        "threshold": threshold,
        "limit": edge,
        "same_measurements": same_measurements(one, other),
        "environment": listings.environments(one, other),
        "shifts": [_shift(shift) for shift in shifts],
        "counts": _counts([point.verdict for point in points]),
        "counts_raw": _counts([point.verdict_raw for point in points]),
        "points": [_point(point) for point in _ordered(points)],
        "regressions": [p.b.point.point_id for p in slow],
        "regressed_groups": [shift.group for shift in drifts],
        "statuses": listings.statuses(one, other),
        "kernels": listings.renamed(one, other),
        "winners": listings.winners(one, other, threshold),
        "appeared": listings.only_in(other, one),
        "disappeared": listings.only_in(one, other),
        **_derived(a, b, threshold),
    }


def _run(observed: Observed) -> dict[str, Any]:
    environment = observed.environment
    return {
        "device": environment.device,
        "environment": environment.environment_id,
        "folder": observed.folder.as_posix(),
        "cards": list(observed.cards),
    }


def _derived(a: RunFolder, b: RunFolder, threshold: float) -> dict[str, Any]:
    """Moved constants and break-even points; None where a run has no calibration or no map."""
    fitted = [constants.read_constants(run) for run in (a, b)]
    maps = [breakeven.read_breakeven(run) for run in (a, b)]
    return {
        "constants": constants.moved(fitted[0], fitted[1], threshold)
        if fitted[0] is not None and fitted[1] is not None
        else None,
        "breakeven": breakeven.moved(maps[0], maps[1])
        if maps[0] is not None and maps[1] is not None
        else None,
    }


def _counts(verdicts: Sequence[str]) -> dict[str, int]:
    found = Counter(verdicts)
    return {name: found[name] for name in VERDICTS}


def _ordered(points: Sequence[PointChange]) -> list[PointChange]:
    """Slower ones first, the slowest on top; then faster ones, then the others as planned."""
    rank = {"SLOWER": 0, "FASTER": 1}
    return sorted(
        points,
        key=lambda p: (rank.get(p.verdict, 2), -abs(p.change) if p.verdict in rank else 0.0),
    )


def _shift(shift: Shift) -> dict[str, Any]:
    return {name: getattr(shift, name) for name in shift.__slots__}


def _point(point: PointChange) -> dict[str, Any]:
    row = {name: getattr(point, name) for name in point.__slots__ if name not in ("a", "b")}
    times = {"median_a_s": point.a.median_s, "median_b_s": point.b.median_s}
    return listings.label(point.b) | times | row | {"point_id": point.b.point.point_id}
