"""Time of a transpose: t = fixed + bytes * padding / bytes_per_s.

padding: 1 of family `streamed`; `padded_64` takes rows in blocks of 64 columns, idle on the rest.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from roofcal.core.times import Array, Value
from roofcal.ops.constant import Constant, by_name

FAMILIES: Final = {"streamed": 1, "padded_64": 64}
FAMILY: Final = "transpose_family"
CONSTANTS: Final = by_name(
    Constant("fixed_s", "s", "Start of a transpose"),
    Constant("bytes_per_s", "B/s", "Bandwidth of a transpose", datasheet="dram_bytes_per_s"),
)
REQUIRED: Final = (FAMILY, *CONSTANTS)


def evaluate(constants: Mapping[str, Value], rows: Array, cols: Array, family: str) -> Array:
    """Seconds of transposes of rows x cols."""
    block = FAMILIES[family]
    moved = 4 * rows * np.ceil(cols / block) * block
    seconds: Array = constants["fixed_s"] + moved / constants["bytes_per_s"]
    return seconds
