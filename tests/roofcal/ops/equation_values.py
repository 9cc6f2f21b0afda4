"""What the equations of the ops say of fixed constants.

`PYTHONPATH=. python -m tests.roofcal.ops.equation_values` writes it to equation_values.json, to
which test_constants.py holds the equations.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofcal.ops.cast import model as cast
from roofcal.ops.constants import Constant, current_equations
from roofcal.ops.gemm import model as gemm
from roofcal.ops.gemm import tiles
from roofcal.ops.mixed_gemm import model as mixed_gemm

FILE: Final = Path(__file__).with_suffix(".json")
_BY_UNIT: Final = {
    "s": 2e-6,
    "B/s": 4e12,
    "flop/s": 6e14,
    "1/s": 8e12,
    "flop/s per compute unit": 7e12,
    "B/s per compute unit": 1e11,
    "s/B": 1e-9,
    "s/B per compute unit": 1e-12,
    "1": 1.2,
}
_UNITS: Final = 132
# The second half are where our int4 kernels take other blocks, splits of K and turns.
_SIZES: Final = (
    np.array([1.0, 16, 77, 512, 4096, 8192, 1, 7, 63, 64, 100, 128, 256]),
    np.array([4096.0, 28672, 1000, 520, 4096, 8192, 4224, 28704, 18432, 8448, 5120, 25344, 4224]),
    np.array([8192.0, 4096, 4104, 65536, 4096, 1024, 4096, 8192, 7168, 896, 8192, 4096, 4096]),
)
# Of families that pack operands: copying and multiplying take alike long.
_PACKING: Final = {
    "launch_s": 2e-6, "side_s": 1e-8, "near_bytes": 4e6, "far": 0.5, "dram_bytes_per_s": 2e10,
    "tile_flops_per_s": 2e11, "direct_flops_per_s": 5e10, "update_bytes_per_s": 5e9,
    "pack_a_bytes_per_s": 3e10, "pack_b_bytes_per_s": 1e10, "pack_bytes_per_s": 2e10,
}  # fmt: skip
_CAST_RECIPES: Final = ("fp8_rowwise_both", "fp8_tensorwise", "mxfp8_dim1")


def _constants(declared: Mapping[str, Constant]) -> dict[str, float]:
    return {name: _BY_UNIT.get(constant.unit, 1e6) for name, constant in declared.items()}


def equation_values() -> dict[str, dict[str, Any]]:
    """Op -> the number of its equation, and seconds of fixed shapes by family."""
    m, n, _ = _SIZES
    seconds: dict[str, dict[str, Any]] = {"gemm": {}, "cast": {}, "mixed_gemm": {}}
    for family, how in tiles.FAMILIES.items():
        for recipe in ("bf16", "fp8_axiswise"):
            own, units = _constants(gemm.CONSTANTS), _UNITS
            if isinstance(how, tiles.PackedFamily):
                own, units = {name: _PACKING[name] for name in how.constants}, 2
            total = gemm.evaluate(own, family, recipe, _SIZES, units).total
            seconds["gemm"][f"{family} {recipe}"] = total.tolist()
    for family in cast.FAMILIES:
        constants = _constants(cast.CONSTANTS)
        for recipe in _CAST_RECIPES:
            total = cast.evaluate(constants, family, recipe, (m, n), _UNITS).total
            seconds["cast"][f"{family} {recipe}"] = total.tolist()
    for family in mixed_gemm.FAMILIES:
        constants = _constants(mixed_gemm.CONSTANTS)
        recipe = "int4_groupwise_g128"
        narrow = mixed_gemm.evaluate(constants, family, recipe, _SIZES, _UNITS)
        seconds["mixed_gemm"][family] = narrow.total.tolist()
    numbers = current_equations()
    return {op: {"equation": numbers.get(op), "seconds": own} for op, own in seconds.items()}


if __name__ == "__main__":
    text = json.dumps(equation_values())
    FILE.write_text(text.replace("], ", "],\n").replace("}}, ", "}},\n") + "\n")
