"""Transposes by calibrated constants `transpose.<provider>.<recipe>.*`."""

from collections.abc import Sequence
from functools import partial

from roofcal.core.records import Calibration
from roofcal.core.times import Array
from roofcal.ops.constants import decode_family, values_of_pair
from roofcal.ops.predictions import Answer, interval_factors, predict_fastest, times_within
from roofcal.ops.transpose.model import CONSTANTS, FAMILIES, FAMILY, evaluate
from roofcal.ops.transpose.spec import OP


def _answer(calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]) -> Answer:
    name = f"transpose.{provider}.{recipe}"
    values = values_of_pair(calibration.constants, name, (FAMILY, *CONSTANTS))
    rows, cols = sizes
    total = evaluate(values, rows, cols, decode_family(FAMILIES, values[FAMILY]))
    times = times_within(
        total, interval_factors(calibration, name, ["all"] * len(total)), ["dram"] * len(total)
    )
    return Answer(times=times, parts={"dram_s": total})


predict_calibrated = partial(predict_fastest, op=OP, answer=_answer)
