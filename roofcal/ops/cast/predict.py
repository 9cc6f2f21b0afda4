"""Casts by calibrated constants `cast.<provider>.<recipe>.*`; equations: the model beside."""

from collections.abc import Sequence

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.cast.model import CONSTANTS, FAMILIES, FAMILY, evaluate
from roofcal.ops.cast.spec import OP
from roofcal.ops.constants import decode_family, values_of_pair
from roofcal.ops.predictions import Answer, interval_factor, predict_fastest, times_within


def cast_times(
    calibration: Calibration, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds of casts with intervals; raises KeyError for a pair that was not calibrated."""
    return _answer(calibration, provider, recipe, (rows, cols)).times


def predict_calibrated(
    points: Sequence[PlanPoint], calibration: Calibration, model: str
) -> list[Prediction]:
    """A prediction per cast whose provider and recipe were calibrated."""
    return predict_fastest(points, calibration, model, OP, _answer)


def _answer(calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]) -> Answer:
    name, constants = f"{OP.name}.{provider}.{recipe}", calibration.constants
    values = values_of_pair(constants, name, (FAMILY, *CONSTANTS))
    cache = constants.get("cache_bytes")
    rows, cols = sizes
    family = decode_family(FAMILIES, values[FAMILY])
    parts = evaluate(values, recipe, rows, cols, family, cache.value if cache else 0.0)
    return Answer(
        times=times_within(parts.total, interval_factor(calibration, name), parts.bound_by),
        parts={"dram_s": parts.moving, "launch_s": parts.fixed},
    )
