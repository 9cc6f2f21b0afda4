"""Seconds of matrix products C[M,N] = A[M,K] @ B[K,N], one or the three of a linear.

    t = max(2 M K N / peak / f_math, bytes / bandwidth / f_dram, 2 us)
    bytes = (M K + K N + scales) * operand + 2 M N
    scales = (M K + K N) // block    for MX and NVFP4, else 0

Source: get_individual_gemm_time_sympy and get_gemm_time_sympy of the seed document
torchao_roofline_utils; fp4 (mxfp4, nvfp4) and blockwise are of torchao 0.18.0. Odd, and kept:
- scales are counted for both operands together and rounded down once, as if a block could begin in
  A and end in B
- a scale (one byte) is counted as an element: right for fp8, half of it for fp4
- scales of tensorwise, rowwise and blockwise are not read
- the grad_weight product has the sizes K x M x N; in bf16 for rowwise_with_gw_hp
- torchao says it is a factor 2 too fast below 1024 x 1024 x 1024
"""

from dataclasses import dataclass
from typing import Final

from roofcal.models.errors import PredictError
from roofcal.models.torchao.constants import Constants
from roofcal.models.torchao.names import check_known
from roofcal.models.torchao.sizes import Maximum, Size
from roofcal.models.torchao.traffic import traffic_s

BYTES: Final[dict[str, float]] = {"bf16": 2, "fp8": 1, "fp4": 0.5}
_OUT_BYTES: Final = 2  # bf16


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """In which format the operands of a recipe's products are.

    backward_weight   the grad_weight product's, where it differs
    block             elements per scale, None where scales are not counted
    """

    operand: str
    backward_weight: str | None = None
    block: int | None = None


_MXFP8: Final = Formats(operand="fp8", block=32)
_NVFP4: Final = Formats(operand="fp4", block=16)

# Recipes of training linears, then those of inference alone.
FORMATS: Final[dict[str, Formats]] = {
    "bf16": Formats(operand="bf16"),
    "tensorwise": Formats(operand="fp8"),
    "rowwise": Formats(operand="fp8"),
    "rowwise_with_gw_hp": Formats(operand="fp8", backward_weight="bf16"),
    "mxfp8_emulated": _MXFP8,
    "mxfp8_cutlass": _MXFP8,
    "mxfp8_cublas": _MXFP8,
    "mxfp8_cublas_rceil": _MXFP8,
    "mxfp8_32x32_flexible_gemm_layout": _MXFP8,
    "mxfp8_32x32_weight": _MXFP8,
    "mxfp4_cutlass": Formats(operand="fp4", block=32),
    "blockwise": Formats(operand="fp8"),
    "mxfp8": _MXFP8,
    "mxfp4": Formats(operand="fp4", block=32),
    "nvfp4": _NVFP4,
    "nvfp4_static": _NVFP4,
    "nvfp4_no_global_scale": _NVFP4,
}


def formats(recipe: str) -> Formats:
    """Formats of a recipe's products; raises PredictError for an unknown recipe."""
    check_known("recipe of products", recipe, FORMATS)
    return FORMATS[recipe]


def product_s(
    constants: Constants, recipe: str, sizes: tuple[Size, Size, Size], maximum: Maximum
) -> Size:
    """Seconds of the forward product of (M, K, N).

    Raises PredictError for an unknown recipe, and a device without a rate for its format.
    """
    chosen = formats(recipe)
    return _seconds(constants, chosen.operand, chosen.block, sizes, maximum)


def training_products_s(
    constants: Constants, recipe: str, sizes: tuple[Size, Size, Size], maximum: Maximum
) -> Size:
    """Seconds of output, grad_input and grad_weight of a linear of (M, K, N); raises as above."""
    chosen = formats(recipe)
    m, k, n = sizes
    last, block = chosen.operand, chosen.block
    if chosen.backward_weight is not None:
        last, block = chosen.backward_weight, None
    output = product_s(constants, recipe, (m, k, n), maximum)
    grad_input = product_s(constants, recipe, (m, n, k), maximum)
    return output + grad_input + _seconds(constants, last, block, (k, m, n), maximum)


def product_parts(
    constants: Constants, operand: str, block: int | None, sizes: tuple[Size, Size, Size]
) -> tuple[Size, Size]:
    """Seconds of arithmetic and of memory traffic alone; see the module.

    Raises PredictError for a format without a rate.
    """
    m, k, n = sizes
    rate = constants.peak_flops_per_s.get(operand)
    if rate is None:
        known = ", ".join(constants.peak_flops_per_s)
        raise PredictError(
            f"torchao: {constants.name} has no {operand} rate of {constants.device}; it has {known}"
        )
    read = m * k + k * n
    if block is not None:
        read = read + read // block
    math = 2 * m * k * n / rate / constants.math_fraction
    return math, traffic_s(constants, BYTES[operand] * read + _OUT_BYTES * (m * n))


def _seconds(
    constants: Constants,
    operand: str,
    block: int | None,
    sizes: tuple[Size, Size, Size],
    maximum: Maximum,
) -> Size:
    math, dram = product_parts(constants, operand, block, sizes)
    slowest: Size = maximum(maximum(math, dram), constants.launch_s)
    return slowest
