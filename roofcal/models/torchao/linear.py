"""Forward and backward pass of a linear: three products and the casts of its three tensors.

Source: get_gemm_time_sympy and get_float8_mem_sympy of the seed document torchao_roofline_utils.
`fused`: the op before each activation and gradient hands it over in registers (traffic.py); weights
have none. Nothing overlaps: the times of all kernels are added.
"""

from typing import Final

from roofcal.models.torchao.constants import Constants
from roofcal.models.torchao.names import check_known
from roofcal.models.torchao.products import training_products_s
from roofcal.models.torchao.sizes import Maximum, Size
from roofcal.models.torchao.traffic import KERNELS, ROLES, cast_bytes, kernel_s

RECIPES: Final = ("bf16", *KERNELS)


def cast_s(
    constants: Constants,
    recipe: str,
    role: str,
    sizes: tuple[Size, Size, Size],
    fused: bool,
    maximum: Maximum,
) -> Size:
    """Seconds of the cast of one tensor of a linear of (M, K, N), all its kernels.

    Raises PredictError for an unknown recipe or role.
    """
    check_known("tensor role", role, ROLES)
    m, k, n = sizes
    rows, cols = {"input": (m, k), "weight": (k, n), "grad_output": (m, n)}[role]
    moved = cast_bytes(recipe, role, rows, cols, fused)
    total = kernel_s(constants, moved[0], maximum)
    for more in moved[1:]:
        total = total + kernel_s(constants, more, maximum)
    return total


def casts_s(
    constants: Constants,
    recipe: str,
    sizes: tuple[Size, Size, Size],
    fused: bool,
    maximum: Maximum,
) -> Size:
    """Seconds of the casts of input, weight and grad_output; raises PredictError as cast_s."""
    return (
        cast_s(constants, recipe, "input", sizes, fused, maximum)
        + cast_s(constants, recipe, "weight", sizes, False, maximum)
        + cast_s(constants, recipe, "grad_output", sizes, fused, maximum)
    )


def linear_s(
    constants: Constants,
    recipe: str,
    sizes: tuple[Size, Size, Size],
    fused: bool,
    maximum: Maximum,
) -> Size:
    """Seconds of forward and backward of a linear of (M, K, N); bf16 has no casts.

    Raises PredictError for an unknown recipe, and a device without a rate for its format.
    """
    check_known("recipe of linears", recipe, RECIPES)
    products = training_products_s(constants, recipe, sizes, maximum)
    if recipe == "bf16":
        return products
    return products + casts_s(constants, recipe, sizes, fused, maximum)


def speed_up(
    constants: Constants,
    recipe: str,
    sizes: tuple[Size, Size, Size],
    fused: bool,
    maximum: Maximum,
) -> Size:
    """Seconds in bf16 by seconds in `recipe`: above 1 the recipe with its casts is faster."""
    return linear_s(constants, "bf16", sizes, fused, maximum) / linear_s(
        constants, recipe, sizes, fused, maximum
    )
