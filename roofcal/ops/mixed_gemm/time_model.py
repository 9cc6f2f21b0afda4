"""The calibrated model of a product with narrow weights: three roofs, equations, no numbers.

    t     = fixed + (dram^4 + slots^4 + math^4)^(1/4)
    dram  = least bytes / bytes_per_s
    slots = N K ceil(M / 64) / weights_per_s
    math  = 2 ceil8(M) N K / flops_per_s

dram   memory, as everywhere (roofcal.ops.mixed_gemm.spec counts the bytes)
slots  issue slots: every weight is turned from four or eight bits to a float by instructions of the
       ordinary units, once per block of tokens; kernels take at most 64 tokens in a block
math   the matrix unit, which takes tokens by eights (the n of mma m16n8k16)

The three go on at the same time, so the largest decides; near a crossing they are in each other's
way, which the fourth powers say (1.19 of the larger where two are equal). Which roof binds a
provider is the finding, not an assumption: each has rates of its own. It stands in the op's layer
because calibrate and predict both use it and may not import each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.model.dtypes import BITS
from roofcal.model.recipes import WEIGHT_ONLY_RECIPES, Operand

Array = NDArray[np.float64]

# name -> unit; the constants of one provider and recipe, each above zero
CONSTANTS: Final[dict[str, str]] = {
    "fixed_s": "s",
    "bytes_per_s": "B/s",
    "weights_per_s": "1/s",
    "flops_per_s": "flop/s",
}
TOKENS_AT_ONCE: Final = 64
_TOKEN_TILE: Final = 8
_POWER: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Seconds per product, vectorised."""

    fixed: Array
    dram: Array
    slots: Array
    math: Array

    @property
    def total(self) -> Array:
        """Seconds of the product."""
        roofs = self.dram**_POWER + self.slots**_POWER + self.math**_POWER
        found: Array = self.fixed + roofs ** (1 / _POWER)
        return found

    @property
    def bound_by(self) -> list[str]:
        """The largest part of each: "launch", "dram", "slots" or "math"."""
        names = ("launch", "dram", "slots", "math")
        parts = np.stack([self.fixed, self.dram, self.slots, self.math])
        return [names[index] for index in parts.argmax(axis=0)]


def least_bytes(recipe: str, m: Array, n: Array, k: Array) -> Array:
    """Bytes of roofcal.ops.mixed_gemm.spec.work for vectors of sizes that groups divide.

    Raises KeyError for a recipe that is not one of narrow weights.
    """
    spec = WEIGHT_ONLY_RECIPES[recipe]
    found: Array = _bytes(spec.a, m, k) + _bytes(spec.b, n, k) + BITS[spec.out] / 8 * m * n
    return found


def _bytes(operand: Operand, rows: Array, cols: Array) -> Array:
    elements: Array = BITS[operand.dtype] / 8 * rows * cols
    if operand.scale is None:
        return elements
    across = 1.0 if operand.scale.cols is None else np.ceil(cols / operand.scale.cols)
    each = (2 if operand.zero_point else 1) * BITS[operand.scale.dtype] / 8
    return elements + each * rows * across


def evaluate(constants: Mapping[str, float], recipe: str, m: Array, n: Array, k: Array) -> Parts:
    """Seconds of products [m, k] x [n, k] (float64 vectors)."""
    blocks = np.ceil(m / TOKENS_AT_ONCE)
    padded = np.ceil(m / _TOKEN_TILE) * _TOKEN_TILE
    return Parts(
        fixed=np.full(np.shape(n * k), constants["fixed_s"]),
        dram=least_bytes(recipe, m, n, k) / constants["bytes_per_s"],
        slots=n * k * blocks / constants["weights_per_s"],
        math=2 * padded * n * k / constants["flops_per_s"],
    )
