"""Measured points of a run as answers use them, and how good predicted choices were on them.

The error of a prediction is normal in log space, with the 95 % interval as 1.96 standard deviations
on each side; parts of different names err independently. Of 125 published choices between two
providers 70 % of those stated with 0.5 to 0.6 were right, 76 % below 0.8 and 83 % above.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any, Final, Literal

import numpy as np

from roofcal.core.paths import RunFolder
from roofcal.core.times import Array, Value
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


_DRAWS: Final = 4096  # probabilities are within 0.01, less than the errors behind them change them
_SEED: Final = 20261122
_Z95: Final = 1.959964


def fastest_probabilities(
    options: Sequence[Sequence[tuple[str, float, float | None]]],
) -> list[float | None]:
    """The probability of each option to be the fastest; None where one states no interval.

    options: the parts that each is the sum of, as name, seconds and the upper end of the interval.
    Parts of one name err alike in all options.
    """
    candidates = []  # name of a part -> (seconds, standard deviation of its log error)
    for parts in options:
        errors: dict[str, tuple[float, float]] = {}
        for name, seconds, high_s in parts:
            if high_s is None:
                return [None] * len(options)
            before, error = errors.get(name, (0.0, 0.0))
            own = seconds * math.log(high_s / seconds) / _Z95
            errors[name] = before + seconds, (before * error + own) / (before + seconds)
        candidates.append(errors)
    names = list(dict.fromkeys(name for candidate in candidates for name in candidate))
    draws = _draws(len(names))

    def total(candidate: Mapping[str, tuple[float, float]], numbers: Mapping[str, Value]) -> Value:
        return sum(
            second * np.exp(error * numbers[name]) for name, (second, error) in candidate.items()
        )

    # Most candidates are slower in every draw; two bounds show that before 4096 draws are made.
    farthest = float(np.abs(draws).max())
    low, high = (dict.fromkeys(names, sign * farthest) for sign in (-1.0, 1.0))
    most = min(total(candidate, high) for candidate in candidates)
    rivals = [place for place, c in enumerate(candidates) if total(c, low) <= most]
    by_name = dict(zip(names, draws, strict=True))
    totals = np.stack([total(candidates[place], by_name) for place in rivals])
    shares = np.zeros(len(candidates))
    shares[rivals] = np.bincount(totals.argmin(axis=0), minlength=len(rivals)) / _DRAWS
    return [*shares.tolist()]


@cache  # 5 ms for an adviser's sixty parts, which 30 questions have in common
def _draws(rows: int) -> Array:
    """Standard normal numbers [rows, draws], the same for all questions."""
    return np.random.default_rng(_SEED).standard_normal((rows, _DRAWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRecord:
    """How good predicted choices of the fastest are, judged on measured points.

    points        shapes that were measured with several choices
    right         of them, those where the choice was the fastest
    mean_regret   how much slower the choice was than the fastest, a fraction, over all points
    worst_regret  the largest such fraction
    """

    points: int
    right: int
    mean_regret: float
    worst_regret: float

    @property
    def is_poor(self) -> bool:
        """Whether fewer than half of the choices were right."""
        return 2 * self.right < self.points

    def chance(self, stated: float) -> float:
        """The probability of a choice to be the fastest: of a poor record, at most its share."""
        return min(stated, self.right / self.points) if self.is_poor else stated

    def words(self, points: str) -> str:
        """How often the predicted choice of a provider or recipe was right."""
        return f"the model's choices were right for {self.right} of {self.points} measured {points}"


def choice_record(
    points: Iterable[MeasuredPoint], among: Literal["providers", "recipes"] = "providers"
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
