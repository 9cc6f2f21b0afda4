"""All that differs between two runs, as JSON values."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from roofcal.compare import listed_changes
from roofcal.compare.observations import ObservedRun, observe
from roofcal.compare.point_changes import (
    PointChange,
    compare_points,
    same_measurements,
)
from roofcal.core.paths import RunFolder
from roofcal.core.statistics import MATTERS
from roofcal.core.visits.intervals import HOLDS

Values = TypeVar("Values")  # constants, or a map, of one run

VERDICTS: Final = ("SLOWER", "FASTER", "SAME", "AMBIGUOUS")
# What a comparison ends in, with the exit code of the command.
OUTCOMES: Final = {"no regression": 0, "regression": 1, "nothing compared": 2}


def compare(
    a: RunFolder, b: RunFolder, threshold: float = MATTERS, limit: float | None = None
) -> dict[str, Any]:
    """What moved from run A to run B.

    `outcome` is one of OUTCOMES, and `conclusion` says why in a sentence. A point that was ok in A
    and is not in B is a regression; one that B does not plan is none, it was left out on purpose.

    Args:
        a: the earlier run.
        b: the later run.
        threshold: a change of time below it, a fraction, does not matter.
        limit: a slowdown above it is a regression (default: the threshold), be it of a point after
            the common shift or the common shift of a group. A slowdown that the clock explains is
            no regression: another card or power limit is no fault of the software.

    Raises:
        CompareError: a folder is no run.
        RecordsError: a file of records is bad.
    """
    limit = threshold if limit is None else limit
    run_a, run_b = observe(a), observe(b)
    points, shifts = compare_points(run_a, run_b, threshold)
    slower = [p for p in points if p.verdict == "SLOWER" and p.cause != "clock"]
    statuses = listed_changes.changed_statuses(run_a, run_b)
    comparison = {
        "a": _run_summary(run_a),
        "b": _run_summary(run_b),
        "threshold": threshold,
        "limit": limit,
        "same_measurements": same_measurements(run_a, run_b),
        "environment": listed_changes.changed_environment(run_a, run_b),
        "shifts": [{name: getattr(shift, name) for name in shift.__slots__} for shift in shifts],
        "counts": _verdict_counts([point.verdict for point in points]),
        "counts_raw": _verdict_counts([point.verdict_raw for point in points]),
        "points": [_point_row(point) for point in sorted(points, key=_slowest_first)],
        "regressions": [p.b.point.point_id for p in slower if p.change > limit],
        "regressed_groups": [s.group for s in shifts if s.low > limit and s.cause != "clock"],
        "statuses": statuses,
        "lost": dict(Counter(row["status_b"] for row in statuses if row["status_a"] == "ok")),
        "left_out": listed_changes.left_out_ops(run_a, run_b),
        "kernels": listed_changes.renamed_kernels(run_a, run_b),
        "winners": listed_changes.changed_winners(run_a, run_b, threshold),
        "appeared": listed_changes.only_in(run_b, run_a),
        "disappeared": listed_changes.only_in(run_a, run_b),
        "constants": _if_both(
            map(listed_changes.read_constants, (a, b)),
            partial(listed_changes.moved_constants, threshold=threshold),
        ),
        "breakeven": _if_both(
            map(listed_changes.read_breakeven, (a, b)), listed_changes.moved_breakevens
        ),
    }
    outcome, conclusion = _outcome(comparison)
    return comparison | {"outcome": outcome, "conclusion": conclusion}


def _outcome(comparison: Mapping[str, Any]) -> tuple[str, str]:
    """One of OUTCOMES, and the sentence that the text ends with."""
    lost = comparison["lost"]
    counted = ", ".join(f"{count} {status}" for status, count in lost.items())
    broken = f"points that were ok in A and are not in B: {counted}"
    limit = f"beyond {comparison['limit']:.1%}"
    slower, groups = len(comparison["regressions"]), comparison["regressed_groups"]
    if slower or groups:
        whole = f", and the whole of {'; '.join(groups)}" if groups else ""
        also = f"; {broken}" if lost else ""
        return "regression", f"regression {limit}: {slower} points{whole}{also}"
    if lost:
        return "regression", f"regression: {broken}"
    left_out = ", ".join(comparison["left_out"])
    without = f", without {left_out}, which B does not plan" if left_out else ""
    if not comparison["points"]:
        return "nothing compared", f"nothing can be compared: {_why_nothing(comparison)}{without}"
    return "no regression", f"no regression {limit}{without}"


def _why_nothing(comparison: Mapping[str, Any]) -> str:
    for name in ("a", "b"):
        if not comparison[name]["points"]:
            return f"{name.upper()} is without samples"
    if len(comparison["disappeared"]) == comparison["a"]["points"]:
        return "no point in common"
    if same := comparison["same_measurements"]:
        return f"{same} points are the same measurements in both, and no other has times in both"
    return "no point has a time of two turns or more in both"


def _run_summary(run: ObservedRun) -> dict[str, Any]:
    """What a run is; `intervals`: what the intervals of its points hold, and of how many."""
    times = (observation.time for observation in run.measured)
    return {
        "device": run.environment.device,
        "environment": run.environment.environment_id,
        "folder": run.folder.as_posix(),
        "cards": list(run.cards),
        "points": len(run.measured),
        "intervals": dict(Counter(HOLDS[time.basis] for time in times if time is not None)),
    }


def _if_both(
    values: Iterable[Values | None], moved: Callable[[Values, Values], list[dict[str, Any]]]
) -> list[dict[str, Any]] | None:
    """What moved between the values of A and B; None where a run has none."""
    a, b = values
    return None if a is None or b is None else moved(a, b)


def _verdict_counts(verdicts: Sequence[str]) -> dict[str, int]:
    count = Counter(verdicts)
    return {name: count[name] for name in VERDICTS}


def _slowest_first(point: PointChange) -> tuple[int, float]:
    """Slower points first, the slowest on top; then faster ones, then the others as planned."""
    rank = {"SLOWER": 0, "FASTER": 1}.get(point.verdict, 2)
    return rank, -abs(point.change) if rank < 2 else 0.0


def _point_row(point: PointChange) -> dict[str, Any]:
    row = {name: getattr(point, name) for name in point.__slots__ if name not in ("a", "b")}
    medians = (None if time is None else time.median for time in (point.a.time, point.b.time))
    times = dict(zip(("median_a_s", "median_b_s"), medians, strict=True))
    label = listed_changes.point_label(point.b.point)
    return label | times | row | {"point_id": point.b.point.point_id}
