"""Measured points of a run as answers use them: by what was timed, and the nearest to a shape."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

from roofcal.core.paths import RunFolder
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.spec import Shape
from roofcal.points.tables import sqnr_column, table_rows

_STEADY: Final = {
    "status": "ok",
    "method": "graph",
    "cache": "cold",
    "distribution": "normal",
    "world_size": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """One point of a table.

    repeat       0 as the study times it, whose time holds its sentinels; else of a sentinel alone
    low_s, high_s  ends of the 95 % interval, as the table has them
    burst_s      of the first milliseconds, before the clock comes down; None where not timed
    predicted_s  by the calibrated model; None for probes and for what it does not predict
    error        relative to the product of the inputs before they were quantised; None where it
                 was not measured
    """

    op: str
    provider: str
    recipe: str
    shape: Shape
    repeat: int
    median_s: float
    low_s: float
    high_s: float
    burst_s: float | None
    predicted_s: float | None
    error: float | None


def steady_points(run: RunFolder | None, *ops: str) -> list[MeasuredPoint]:
    """The settled points of ops (or probes), by default of all, with cold caches and normal inputs.

    Empty without a run, or where it has no tables.
    """
    if run is None:
        return []
    names = ops or [op.name for op in OPS]
    return [measured_point(op, row) for op in names for row in table_rows(run, op, _STEADY)]


def measured_points(run: RunFolder | None, *ops: str) -> "dict[PointKey, MeasuredPoint]":
    """The steady points of ops, by default of all, each once."""
    return by_key(steady_points(run, *ops))


def measured_point(op: str, row: Mapping[Any, Any]) -> MeasuredPoint:
    """A row of the table of an op that has a time, of its file or of the records."""

    def number(name: str) -> float | None:
        cell = row.get(name)
        return None if cell in (None, "") or math.isnan(float(cell)) else float(cell)

    # what the kernel and the format cost together; of several outputs, the worst
    error = None
    outputs = [number(name) for name in row if name.endswith(sqnr_column(""))]
    numeric, quantised = number("numeric_error"), number("quantisation_error")
    if decibels := [value for value in outputs if value is not None]:
        error = float(10 ** (-min(decibels) / 20))
    elif numeric is not None and quantised is not None:
        error = math.hypot(numeric, quantised)
    return MeasuredPoint(
        op=op,
        provider=row["provider"],
        recipe=row["recipe"],
        shape={axis: int(row[axis]) for axis in BY_NAME[op].axes},
        repeat=int(row["repeat"]),
        median_s=float(row["median_s"]),
        low_s=float(row["ci95_low_s"]),
        high_s=float(row["ci95_high_s"]),
        burst_s=number("burst_median_s"),
        predicted_s=number("predicted_s"),
        error=error,
    )


PointKey = tuple[str | int, ...]  # what is timed, whose, the recipe, and the sizes


def point_key(op: str, provider: str, recipe: str, shape: Shape) -> PointKey:
    """Equal for points that one kernel runs, whichever sweep, probe or op measured them."""
    return (BY_NAME[op].computes or op, provider, recipe, *shape.values())


def by_key(points: Iterable[MeasuredPoint]) -> dict[PointKey, MeasuredPoint]:
    """One point per key. Of several it is their median, in an interval that holds all of theirs.

    Sentinels count where there is nothing else.
    """
    groups: dict[PointKey, list[MeasuredPoint]] = {}
    for point in points:
        key = point_key(point.op, point.provider, point.recipe, point.shape)
        groups.setdefault(key, []).append(point)
    counted = {
        key: [point for point in group if not point.repeat] or group
        for key, group in groups.items()
    }
    return {
        key: replace(
            group[0],
            median_s=median(point.median_s for point in group),
            low_s=min(point.low_s for point in group),
            high_s=max(point.high_s for point in group),
        )
        for key, group in counted.items()
    }


def distance(one: Shape, other: Shape) -> float:
    """Doublings between two shapes: root of the sum of squared log2 ratios over the axes."""
    return math.sqrt(sum(math.log2(one[axis] / other[axis]) ** 2 for axis in one))


def nearest(
    points: Sequence[MeasuredPoint], provider: str, recipe: str, shape: Shape
) -> list[MeasuredPoint]:
    """The two nearest points of a provider and recipe, nearest first."""
    own = [point for point in points if (point.provider, point.recipe) == (provider, recipe)]
    return sorted(own, key=lambda point: distance(point.shape, shape))[:2]
