"""Time of a transpose: t = fixed + bytes * padding / bytes_per_s.

padding: 1 of family `streamed`; `padded_64` takes rows in blocks of 64 columns, idle on the rest.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from roofcal.core.times import Array, Value
from roofcal.ops.constants import Constant, OpPage, Search, by_name
from roofcal.ops.transpose import spec

OP: Final = spec.OP
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


GROUPS: Final[dict[str, str]] = {}  # intervals are as wide for all shapes


def groups_of(recipe: str, sizes: Sequence[Array]) -> list[str]:
    """One group."""
    return ["all"] * len(sizes[0])


class TransposeParts(NamedTuple):
    """Seconds of transposes, vectors."""

    fixed: Array
    moving: Array

    @property
    def total(self) -> Array:
        """Their sum."""
        return self.fixed + self.moving

    @property
    def bound_by(self) -> list[str]:
        """The longer of the two."""
        return ["dram"] * len(self.total)

    @property
    def seconds(self) -> dict[str, Array]:
        """Field of a Prediction -> its part."""
        return {"dram_s": self.moving, "launch_s": self.fixed}


def evaluate(
    constants: Mapping[str, Value],
    family: str,
    recipe: str,
    sizes: Sequence[Array],
    compute_units: int,
) -> TransposeParts:
    """Seconds of transposes of sizes (rows, cols)."""
    (rows, cols), block = sizes, FAMILIES[family]
    moved = 4 * rows * np.ceil(cols / block) * block
    moving = np.asarray(moved / constants["bytes_per_s"])
    return TransposeParts(constants["fixed_s"] + np.zeros_like(moving), moving)
