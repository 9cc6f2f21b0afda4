"""Transposes by calibrated constants `transpose.<provider>.<recipe>.*`."""

from collections.abc import Sequence
from functools import partial

from roofcal.core.records import Calibration
from roofcal.core.times import Array, Times
from roofcal.ops.constants import decode_family, values_of_pair
from roofcal.ops.predictions import Answer, PairShapes, predict_fastest, with_interval
from roofcal.ops.transpose.model import CONSTANTS, FAMILIES, FAMILY, evaluate
from roofcal.ops.transpose.spec import OP


def _answer(calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]) -> Answer:
    name = f"transpose.{provider}.{recipe}"
    values = values_of_pair(calibration.constants, name, (FAMILY, *CONSTANTS))
    rows, cols = sizes
    total = evaluate(values, rows, cols, decode_family(FAMILIES, values[FAMILY]))
    asked = PairShapes(provider=provider, recipe=recipe, sizes=sizes, groups=["all"] * len(total))
    times = with_interval(
        Times(total=total, bound_by=["dram"] * len(total)), calibration, OP, asked
    )
    return Answer(times=times, parts={"dram_s": total})


predict_calibrated = partial(predict_fastest, op=OP, answer=_answer)
