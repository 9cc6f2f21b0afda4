"""What predictions from calibrated constants have in common: groups of points, and intervals.

The 95 % interval of a prediction is prediction / f to prediction * f. The factor f is exp(e), where
e is the half-width of the group of the shape (roofcal.fitting.conformal): `log_p95_<group>` of a
calibration's errors, or `log_p95` where the group had no probes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.spec import OpSpec

_PARTS: Final = ("math_s", "dram_s", "link_s", "launch_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Seconds of many points, and of their parts by the name of the field in a Prediction."""

    times: Times
    parts: Mapping[str, Array]


# (calibration, provider, recipe, sizes along the axes of the op) -> the answer; raises KeyError for
# a pair of provider and recipe that was not calibrated
AnswerPair = Callable[[Calibration, str, str, Sequence[Array]], Answer]


def predict_fastest(
    points: Sequence[PlanPoint],
    calibration: Calibration,
    model: str,
    op: OpSpec,
    answer: AnswerPair,
) -> list[Prediction]:
    """A prediction per point whose provider and recipe an op was calibrated for, in their order.

    A point without a provider is answered for the fastest provider that was calibrated.
    """
    groups: dict[tuple[str, str], list[PlanPoint]] = {}
    for point in points:
        groups.setdefault((point.provider, point.recipe), []).append(point)
    fastest: dict[str, Prediction] = {}
    for (provider, recipe), members in groups.items():
        sizes = sizes_of(members, op.axes)
        candidates = [
            predictions_of(members, model, answer(calibration, candidate, recipe, sizes))
            for candidate in calibrated_providers(calibration.constants, op.name, recipe)
            if provider in ("", candidate)
        ]
        for alternatives in zip(*candidates, strict=True):
            best = min(alternatives, key=lambda prediction: prediction.total_s)
            fastest[best.point_id] = best
    return [fastest[point.point_id] for point in points if point.point_id in fastest]


def sizes_of(points: Sequence[PlanPoint], axes: Sequence[str]) -> list[Array]:
    """The sizes of points along each axis, as float64 vectors."""
    return [np.array([float(point.shape[axis]) for point in points]) for axis in axes]


def interval_factors(calibration: Calibration, name: str, groups: Sequence[str]) -> Array:
    """The factor of each shape's interval by its group; KeyError for a pair without errors.

    name: "<op>.<provider>.<recipe>".
    """
    errors = calibration.probe_errors[name]
    widths = [errors.get(f"log_p95_{group}", errors["log_p95"]) for group in groups]
    factors: Array = np.exp(np.array(widths))
    return factors


def times_within(total: Array, factors: Array, bound_by: list[str]) -> Times:
    """Times with the intervals that the factors of the module give."""
    return Times(total=total, low=total / factors, high=total * factors, bound_by=bound_by)


def predictions_of(points: Sequence[PlanPoint], model: str, answer: Answer) -> list[Prediction]:
    """An answer as records, one per point."""
    times = answer.times
    return [
        Prediction(
            point_id=point.point_id,
            model=model,
            **{
                name: float(answer.parts[name][i]) if name in answer.parts else None
                for name in _PARTS
            },
            total_s=float(times.total[i]),
            low_s=None if times.low is None else float(times.low[i]),
            high_s=None if times.high is None else float(times.high[i]),
            bound_by=times.bound_by[i],
        )
        for i, point in enumerate(points)
    ]
