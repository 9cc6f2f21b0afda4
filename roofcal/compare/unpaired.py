"""Differences of two runs that need no statistics: points, statuses, kernels, winners, versions."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from roofcal.compare.observations import Observation, ObservedRun


def point_label(observation: Observation) -> dict[str, Any]:
    """What names a point: op, provider, recipe, sizes, protocol, repeat."""
    point = observation.point
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
        point_label(observation) | {"status": observation.status}
        for key, observation in run.points.items()
        if key not in other.points
    ]


def _in_both(a: ObservedRun, b: ObservedRun) -> Iterator[tuple[Observation, Observation]]:
    return ((x, b.points[key]) for key, x in a.points.items() if key in b.points)


def changed_statuses(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Points that are ok in one run and, say, unsupported in the other."""
    return [
        point_label(x) | {"status_a": x.status, "status_b": y.status}
        for x, y in _in_both(a, b)
        if x.status != y.status
    ]


def renamed_kernels(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Points whose kernels have other names. Points of which one run noted no name are left out."""
    return [
        point_label(x) | {"kernels_a": list(x.kernel_names), "kernels_b": list(y.kernel_names)}
        for x, y in _in_both(a, b)
        if x.kernel_names and y.kernel_names and x.kernel_names != y.kernel_names
    ]


def changed_winners(a: ObservedRun, b: ObservedRun, threshold: float) -> list[dict[str, Any]]:
    """Shapes and protocols whose fastest provider and recipe is another one in B.

    Contenders are those with a time in both runs. `clear` where in both runs the winner leads the
    other run's winner by more than `threshold`; else the two were, and are, about as fast.
    """
    groups: dict[str, list[tuple[Observation, Observation]]] = {}
    for x, y in _in_both(a, b):
        if x.median_s and y.median_s:
            groups.setdefault(x.point.group_key, []).append((x, y))
    rows = (_changed_winner(pairs, threshold) for pairs in groups.values())
    return [row for row in rows if row]


def _changed_winner(
    pairs: list[tuple[Observation, Observation]], threshold: float
) -> dict[str, Any] | None:
    """The row of a group of contenders; None where the same one wins in both runs."""
    times_a, times_b = ([pair[i].median_s or 0.0 for pair in pairs] for i in (0, 1))
    winner_a, winner_b = times_a.index(min(times_a)), times_b.index(min(times_b))
    if winner_a == winner_b:
        return None
    lead_a = times_a[winner_b] / times_a[winner_a] - 1
    lead_b = times_b[winner_a] / times_b[winner_b] - 1
    label = point_label(pairs[winner_a][0])
    winners = {"winner_a": pairs[winner_a][0].point, "winner_b": pairs[winner_b][0].point}
    return {key: label[key] for key in ("op", "shape", "protocol", "repeat")} | {
        **{name: f"{p.provider} {p.recipe}" for name, p in winners.items()},
        "lead_a": lead_a,
        "lead_b": lead_b,
        "clear": min(lead_a, lead_b) > threshold,
    }


def changed_environment(a: ObservedRun, b: ObservedRun) -> list[dict[str, Any]]:
    """Fields of the environment records that differ: driver, torch, power limit ..."""
    fields_b = asdict(b.environment)
    return [
        {"field": name, "a": value, "b": fields_b[name]}
        for name, value in asdict(a.environment).items()
        if value != fields_b[name]
    ]
