"""Differences of two runs that need no statistics: points, statuses, kernels, winners, versions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from roofcal.compare.observations import NOT_MEASURED, Observation, ObservedRun
from roofcal.core.records import PlanPoint
from roofcal.core.visits.differences import time_ratio
from roofcal.core.visits.intervals import PointInterval
from roofcal.ops import BY_NAME

_TimedPair = tuple[PlanPoint, PointInterval, PointInterval]  # a point, its time in A and in B


def point_label(point: PlanPoint) -> dict[str, Any]:
    """What names a point: op, provider, recipe, sizes, protocol, repeat."""
    protocol = (point.protocol.method, point.protocol.cache, point.protocol.distribution)
    return {
        "op": point.op,
        "provider": point.provider,
        "recipe": point.recipe,
        "shape": dict(point.shape),
        "protocol": " ".join(protocol),
        "repeat": point.repeat,
    }


def only_in(run: ObservedRun, other: ObservedRun) -> list[dict[str, Any]]:
    """Points that were measured, with whatever result, in one run and not in the other."""
    return [
        point_label(observation.point) | {"status": observation.status}
        for key, observation in run.points.items()
        if key not in other.points and observation.status != NOT_MEASURED
    ]


def left_out_ops(a: ObservedRun, b: ObservedRun) -> dict[str, int]:
    """Ops that B does not plan -> how many points of each are ok in A; {} if B has no samples."""
    planned = {observation.point.op for observation in b.points.values()}
    ok_ops = (o.point.op for o in a.points.values() if o.status == "ok")
    return dict(Counter(op for op in ok_ops if planned and op not in planned))


def _in_both(a: ObservedRun, b: ObservedRun) -> Iterator[tuple[Observation, Observation]]:
    return ((x, b.points[key]) for key, x in a.points.items() if key in b.points)


def changed_statuses(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Points that are ok in one run and, say, unsupported in the other; those ok in A first."""
    rows = [
        point_label(x.point) | {"status_a": x.status, "status_b": y.status}
        for x, y in _in_both(a, b)
        if x.status != y.status
    ]
    return sorted(rows, key=lambda row: str(row["status_a"]) != "ok")


def renamed_kernels(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Points whose kernels have other names. Points of which one run noted no name are left out."""
    return [
        point_label(x.point)
        | {"kernels_a": list(x.kernel_names), "kernels_b": list(y.kernel_names)}
        for x, y in _in_both(a, b)
        if x.kernel_names and y.kernel_names and x.kernel_names != y.kernel_names
    ]


def changed_winners(a: ObservedRun, b: ObservedRun, threshold: float) -> list[dict[str, Any]]:
    """Shapes and protocols whose fastest provider and recipe is another one in B.

    Contenders do the same work, and have a time in both runs. `clear` where in both runs the
    winner leads the other run's winner by more than `threshold`, with its whole interval; else the
    two were, or are, about as fast. Clear ones come first.
    """
    groups: dict[tuple[str, str], list[_TimedPair]] = {}
    for x, y in _in_both(a, b):
        work = _same_work(x.point)
        if work is not None and x.time is not None and y.time is not None:
            groups.setdefault(work, []).append((x.point, x.time, y.time))
    rows = [row for pairs in groups.values() if (row := _changed_winner(pairs, threshold))]
    return sorted(rows, key=lambda row: not row["clear"])


def _same_work(point: PlanPoint) -> tuple[str, str] | None:
    """Equal for points that do the same work in turns; None for a provider of a part of an op.

    Recipes of an op with a baseline do: products of the same matrices in other formats. Those of
    the others do not: reading, writing and copying, or casts with other scales.
    """
    spec = BY_NAME[point.op]
    if point.provider in spec.partial:
        return None
    does_the_same = BY_NAME[spec.folder].baseline_recipe is not None
    return point.group_key, "" if does_the_same else point.recipe


def _changed_winner(pairs: list[_TimedPair], threshold: float) -> dict[str, Any] | None:
    """The row of a group of contenders; None where the same one wins in both runs."""
    winner_a = min(pairs, key=lambda pair: pair[1].median)
    winner_b = min(pairs, key=lambda pair: pair[2].median)
    if winner_a is winner_b:
        return None
    lead_a = time_ratio(winner_b[1].ends, winner_a[1].ends)
    lead_b = time_ratio(winner_a[2].ends, winner_b[2].ends)
    label = point_label(winner_a[0])
    winners = {"winner_a": winner_a[0], "winner_b": winner_b[0]}
    return {key: label[key] for key in ("op", "shape", "protocol", "repeat")} | {
        **{name: f"{p.provider} {p.recipe}" for name, p in winners.items()},
        "lead_a": float(lead_a.ratio) - 1,
        "lead_b": float(lead_b.ratio) - 1,
        "clear": lead_a.is_slower(threshold) and lead_b.is_slower(threshold),
    }


def changed_environment(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Fields of the environment records that differ: driver, torch, power limit ..."""
    fields_b = asdict(b.environment)
    return [
        {"field": name, "a": value, "b": fields_b[name]}
        for name, value in asdict(a.environment).items()
        if value != fields_b[name]
    ]
