"""Time of a transpose: t = fixed + bytes * padding / bytes_per_s.

padding: 1 of family `streamed`; `padded_64` takes rows in blocks of 64 columns, idle on the rest.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from roofcal.core.records import Calibration
from roofcal.core.times import Array, Times, Value
from roofcal.ops.constants import Constant, OpPage, Search, by_name, decode_family, values_of_pair
from roofcal.ops.predictions import TimesAndParts, predict_fastest, with_interval
from roofcal.ops.transpose.spec import OP

FAMILIES: Final = {"streamed": 1, "padded_64": 64}
FAMILY: Final = "transpose_family"
CONSTANTS: Final = by_name(
    Constant("fixed_s", "s", "Start of a transpose", Search(1, 0.01, 1e3, "time")),
    Constant("bytes_per_s", "B/s", "Bandwidth of a transpose", Search(1, 0.1, 1e5, "rate"),
             datasheet="dram_bytes_per_s"),
)  # fmt: skip
PAGE = OpPage(
    meaning="turns rows into columns",
    title="Transposes",
    colours={"bf16": "blue"},
    constants=by_name(Constant(FAMILY, "code", "How the provider's kernels take rows")) | CONSTANTS,
)


def evaluate(constants: Mapping[str, Value], rows: Array, cols: Array, family: str) -> Array:
    """Seconds of transposes of rows x cols."""
    block = FAMILIES[family]
    moved = 4 * rows * np.ceil(cols / block) * block
    seconds: Array = constants["fixed_s"] + moved / constants["bytes_per_s"]
    return seconds


def _answer(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> TimesAndParts:
    name = f"transpose.{provider}.{recipe}"
    values = values_of_pair(calibration.constants, name, (FAMILY, *CONSTANTS))
    rows, cols = sizes
    total = evaluate(values, rows, cols, decode_family(FAMILIES, values[FAMILY]))
    times = Times(total=total, bound_by=["dram"] * len(total))
    groups, pair = ["all"] * len(total), (provider, recipe)
    return TimesAndParts(
        with_interval(times, calibration, OP, pair, sizes, groups), {"dram_s": total}
    )


predict_calibrated = partial(predict_fastest, op=OP, answer=_answer)
