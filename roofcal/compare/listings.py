"""What is listed of two runs without statistics: points, statuses, kernels, winners."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from roofcal.compare.observations import Observation, Observed


def label(observation: Observation) -> dict[str, Any]:
    """What names a point: op, provider, recipe, sizes, protocol, repeat."""
    point = observation.point
    how = (point.protocol.method, point.protocol.cache, point.protocol.distribution)
    return {
        "op": point.op,
        "provider": point.provider,
        "recipe": point.recipe,
        "shape": dict(point.shape),
        "protocol": " ".join(how),
        "repeat": point.repeat,
    }


def only_in(one: Observed, other: Observed) -> list[dict[str, Any]]:
    """Points that were measured, with whatever result, in one run and not in the other."""
    return [label(o) | {"status": o.status} for k, o in one.points.items() if k not in other.points]


def _shared(a: Observed, b: Observed) -> Iterator[tuple[Observation, Observation]]:
    return ((o, b.points[key]) for key, o in a.points.items() if key in b.points)


def statuses(a: Observed, b: Observed) -> list[dict[str, Any]]:
    """Points that are ok in one run and, say, unsupported in the other."""
    pairs = ((x, y) for x, y in _shared(a, b) if x.status != y.status)
    return [label(x) | {"status_a": x.status, "status_b": y.status} for x, y in pairs]


def renamed(a: Observed, b: Observed) -> list[dict[str, Any]]:
    """Points whose kernels have other names. Points of which one run noted no name are left out."""
    return [
        label(x) | {"kernels_a": list(x.kernel_names), "kernels_b": list(y.kernel_names)}
        for x, y in _shared(a, b)
        if x.kernel_names and y.kernel_names and x.kernel_names != y.kernel_names
    ]


def winners(a: Observed, b: Observed, threshold: float) -> list[dict[str, Any]]:
    """Shapes and protocols whose fastest provider and recipe is another one in B.

    Contenders are those with a time in both runs. `clear` where in both runs the winner leads the
    other run's winner by more than `threshold`; else the two were, and are, about as fast.
    """
    fields: dict[str, list[tuple[Observation, Observation]]] = {}
    for x, y in _shared(a, b):
        if x.median_s and y.median_s:
            fields.setdefault(x.point.group_key, []).append((x, y))
    return [row for pairs in fields.values() if (row := _flipped(pairs, threshold))]


def _flipped(
    pairs: list[tuple[Observation, Observation]], threshold: float
) -> dict[str, Any] | None:
    times_a, times_b = ([pair[i].median_s or 0.0 for pair in pairs] for i in (0, 1))
    first, second = times_a.index(min(times_a)), times_b.index(min(times_b))
    if first == second:
        return None
    lead_a, lead_b = times_a[second] / times_a[first] - 1, times_b[first] / times_b[second] - 1
    named = label(pairs[first][0])
    return {key: named[key] for key in ("op", "shape", "protocol", "repeat")} | {
        "winner_a": _contender(pairs[first][0]),
        "winner_b": _contender(pairs[second][0]),
        "lead_a": lead_a,
        "lead_b": lead_b,
        "clear": min(lead_a, lead_b) > threshold,
    }


def _contender(observation: Observation) -> str:
    return f"{observation.point.provider} {observation.point.recipe}"


def environments(a: Observed, b: Observed) -> list[dict[str, Any]]:
    """Fields of the environment records that differ: driver, torch, power limit ..."""
    of_a, of_b = asdict(a.environment), asdict(b.environment)
    return [{"field": f, "a": of_a[f], "b": of_b[f]} for f in of_a if of_a[f] != of_b[f]]
