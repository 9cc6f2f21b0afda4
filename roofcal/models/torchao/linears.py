"""Matrix products, and the linears of training and of inference that they are part of.

    t = max(2 M K N / peak / f_math, bytes / bandwidth / f_dram, 2 us)      C[M,N] = A[M,K] @ B[K,N]
    bytes = (M K + K N + scales) * operand + 2 M N
    scales = (M K + K N) // block    for MX and NVFP4, else 0

A training linear is three products (output, grad_input of M x N x K, grad_weight of K x M x N, in
bf16 for rowwise_with_gw_hp) and the casts of its three tensors; an inference linear is the cast of
its activation and one product. Nothing overlaps: the times of all kernels are added.

Source: get_individual_gemm_time_sympy, get_gemm_time_sympy and get_float8_mem_sympy of the seed
document torchao_roofline_utils; fp4 (mxfp4, nvfp4), blockwise and inference of torchao 0.18.0.
docs/models.md lists what is odd in torchao and kept here.
"""

from dataclasses import dataclass
from typing import Final

from roofcal.models.errors import PredictError
from roofcal.models.torchao.casts import (
    ACTIVATION_CASTS,
    KERNELS,
    activation_bytes,
    casts_s,
    kernel_s,
    traffic_s,
)
from roofcal.models.torchao.constants import Constants, Maximum, Size, check_name

BYTES: Final[dict[str, float]] = {"bf16": 2, "fp8": 1, "fp4": 0.5}
_OUT_BYTES: Final = 2  # bf16
TRAINING_RECIPES: Final = ("bf16", *KERNELS)
INFERENCE_RECIPES: Final = ("bf16", *ACTIVATION_CASTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """The format of the operands of a recipe's products.

    backward_weight   the format in the grad_weight product, where it differs
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
    check_name("recipe of products", recipe, FORMATS)
    return FORMATS[recipe]


def product_s(
    constants: Constants, recipe: str, sizes: tuple[Size, Size, Size], maximum: Maximum
) -> Size:
    """Seconds of the forward product of (M, K, N).

    Raises PredictError for an unknown recipe and for a device without a rate of its format.
    """
    chosen = formats(recipe)
    return _product_s(constants, chosen.operand, chosen.block, sizes, maximum)


def training_products_s(
    constants: Constants, recipe: str, sizes: tuple[Size, Size, Size], maximum: Maximum
) -> Size:
    """Seconds of output, grad_input and grad_weight of a linear; raises as product_s does."""
    chosen = formats(recipe)
    m, k, n = sizes
    last, block = chosen.operand, chosen.block
    if chosen.backward_weight is not None:
        last, block = chosen.backward_weight, None
    output = product_s(constants, recipe, (m, k, n), maximum)
    grad_input = product_s(constants, recipe, (m, n, k), maximum)
    return output + grad_input + _product_s(constants, last, block, (k, m, n), maximum)


def product_parts(
    constants: Constants, operand: str, block: int | None, sizes: tuple[Size, Size, Size]
) -> tuple[Size, Size]:
    """Seconds of arithmetic and of memory traffic; raises PredictError without a rate."""
    m, k, n = sizes
    rate = constants.peak_flops_per_s.get(operand)
    if rate is None:
        rates = ", ".join(constants.peak_flops_per_s)
        raise PredictError(
            f"torchao: {constants.name} has no {operand} rate of {constants.device}; it has {rates}"
        )
    read = m * k + k * n
    if block is not None:
        read = read + read // block
    math = 2 * m * k * n / rate / constants.math_fraction
    return math, traffic_s(constants, BYTES[operand] * read + _OUT_BYTES * (m * n))


def _product_s(
    constants: Constants,
    operand: str,
    block: int | None,
    sizes: tuple[Size, Size, Size],
    maximum: Maximum,
) -> Size:
    math, dram = product_parts(constants, operand, block, sizes)
    slowest: Size = maximum(maximum(math, dram), constants.launch_s)
    return slowest


def linear_s(
    constants: Constants,
    recipe: str,
    sizes: tuple[Size, Size, Size],
    fused: bool,
    maximum: Maximum,
) -> Size:
    """Seconds of forward and backward of a linear of (M, K, N); bf16 has no casts.

    fused  the op before each activation and gradient leaves it in registers; weights never are

    Raises PredictError for an unknown recipe and for a device without a rate of its format.
    """
    check_name("recipe of linears", recipe, TRAINING_RECIPES)
    products = training_products_s(constants, recipe, sizes, maximum)
    if recipe == "bf16":
        return products
    return products + casts_s(constants, recipe, sizes, fused, maximum)


def inference_linear_s(
    constants: Constants, recipe: str, sizes: tuple[Size, Size, Size], maximum: Maximum
) -> Size:
    """Seconds of the activation's cast (bf16 has none) and the product of (M, K, N).

    Raises PredictError for an unknown recipe and for a device without a rate of its format.
    """
    check_name("recipe of inference linears", recipe, INFERENCE_RECIPES)
    m, k, _ = sizes
    total = product_s(constants, recipe, sizes, maximum)
    for moved in [] if recipe == "bf16" else activation_bytes(recipe, m, k):
        total = total + kernel_s(constants, moved, maximum)
    return total
