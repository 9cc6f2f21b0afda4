"""Measured points of a run, from the tables that the report writes of its records.

The records themselves hold every sample; a table has one row per point and is read in a hundredth
of the time. A run without tables (before its report) has no measured points here.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final, Literal

from roofcal.core import paths
from roofcal.core.paths import RunFolder
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.spec import Shape

_STEADY: Final = {"status": "ok", "cache": "cold", "distribution": "normal", "world_size": "1"}


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


def measured_points(run: RunFolder, op: str) -> list[MeasuredPoint]:
    """The settled points of an op (or a probe) with cold caches and normal inputs, each once."""
    return list(by_key(_points(run, op)).values())


def measured_by_key(run: RunFolder | None) -> "dict[PointKey, MeasuredPoint]":
    """The settled points of all ops of a run; none without a run, or where it has no tables."""
    return by_key(point for op in OPS for point in _points(run, op.name)) if run else {}


def table_file(run: RunFolder, op: str) -> Path | None:
    """The table of an op: of a publication, else of the report of this machine."""
    name = f"{run.device}_{op}.csv"
    candidates = (run.folder / "tables" / name, paths.RESULTS / "report/tables" / name)
    return next((path for path in candidates if path.is_file()), None)


def _points(run: RunFolder, op: str) -> Iterator[MeasuredPoint]:
    path = table_file(run, op)
    if path is None:
        return
    axes = BY_NAME[op].axes
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["environment_id"] != run.environment_id or row["method"] != "graph":
                continue
            if any(row[name] != value for name, value in _STEADY.items()):
                continue
            burst, predicted = row.get("burst_median_s"), row.get("predicted_s")
            yield MeasuredPoint(
                op=op,
                provider=row["provider"],
                recipe=row["recipe"],
                shape={axis: int(row[axis]) for axis in axes},
                repeat=int(row["repeat"]),
                median_s=float(row["median_s"]),
                low_s=float(row["ci95_low_s"]),
                high_s=float(row["ci95_high_s"]),
                burst_s=float(burst) if burst else None,
                predicted_s=float(predicted) if predicted else None,
                error=_error(row),
            )


def _error(row: Mapping[str, str]) -> float | None:
    """What the kernel and the format cost together; of several outputs, the worst."""
    decibels = [float(row[name]) for name in row if name.endswith("_sqnr_db") and row[name]]
    if decibels:
        return float(10 ** (-min(decibels) / 20))
    numeric, quantised = row.get("numeric_error"), row.get("quantisation_error")
    if not numeric or not quantised:
        return None
    return math.hypot(float(numeric), float(quantised))


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
    points: Sequence[MeasuredPoint], provider: str, recipe: str, shape: Shape, count: int
) -> list[MeasuredPoint]:
    """The nearest points of a provider and recipe, nearest first."""
    own = [point for point in points if (point.provider, point.recipe) == (provider, recipe)]
    return sorted(own, key=lambda point: distance(point.shape, shape))[:count]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRecord:
    """How good it was, on measured points, to take what is predicted to be the fastest.

    points        shapes that were measured with several choices
    right         of them, those where the choice was the fastest
    mean_regret   how much slower the choice was than the fastest, a fraction, over all points
    worst_regret  the largest such fraction
    """

    points: int
    right: int
    mean_regret: float
    worst_regret: float


def choice_record(
    points: Sequence[MeasuredPoint], among: Literal["providers", "recipes"] = "providers"
) -> ChoiceRecord | None:
    """The record of choices among providers of a recipe, or among all recipes by any provider.

    None where no shape was both measured and predicted with two choices.
    """
    groups: dict[tuple[object, ...], dict[tuple[str, str], MeasuredPoint]] = {}
    for point in points:
        if point.predicted_s is not None:
            recipe = point.recipe if among == "providers" else ""
            key = (recipe, *sorted(point.shape.items()))
            groups.setdefault(key, {})[point.provider, point.recipe] = point
    regrets = []
    for choices in groups.values():
        if len(choices) > 1:
            choice = min(choices.values(), key=lambda point: point.predicted_s or math.inf)
            fastest = min(point.median_s for point in choices.values())
            regrets.append(choice.median_s / fastest - 1)
    if not regrets:
        return None
    return ChoiceRecord(
        points=len(regrets),
        right=sum(regret == 0 for regret in regrets),
        mean_regret=sum(regrets) / len(regrets),
        worst_regret=max(regrets),
    )
