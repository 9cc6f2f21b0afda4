"""Transposes by calibrated constants `transpose.<provider>.<recipe>.*`."""

from collections.abc import Sequence

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array
from roofcal.ops.constants import decode_family, values_of_pair
from roofcal.ops.predictions import Answer, interval_factor, predict_fastest, times_within
from roofcal.ops.transpose.model import CONSTANTS, FAMILIES, FAMILY, evaluate
from roofcal.ops.transpose.spec import OP


def predict_calibrated(
    points: Sequence[PlanPoint], calibration: Calibration, model: str
) -> list[Prediction]:
    """A prediction per transpose whose provider was calibrated."""
    return predict_fastest(points, calibration, model, OP, _answer)


def _answer(calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]) -> Answer:
    name = f"transpose.{provider}.{recipe}"
    values = values_of_pair(calibration.constants, name, (FAMILY, *CONSTANTS))
    rows, cols = sizes
    total = evaluate(values, rows, cols, decode_family(FAMILIES, values[FAMILY]))
    times = times_within(total, interval_factor(calibration, name), ["dram"] * len(total))
    return Answer(times=times, parts={"dram_s": total})
