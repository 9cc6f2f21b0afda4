"""Forward and backward of y[M,N] = x[M,K] @ w[N,K].T: three products and their casts.

bf16                            nothing is cast
fp8_tensorwise                  fast accumulation, as all but the blocks
fp8_axiswise
fp8_axiswise_bf16_grad_weight   LW_AXISWISE_WITH_GW_HP of torchao pull request 940
fp8_blockwise_128x128           1 x 128 of x and grad_out, 128 x 128 of w, two-level accumulation
mxfp8

or any recipe that a person writes down (kernels.linear.recipes), as a mapping under `recipes` of
the sweep file; its points carry it as one line of text, so that they need no file beside them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from roofcal.core.recipes import Work, nbytes
from roofcal.ops.gemm import spec as gemm
from roofcal.ops.spec import OpSpec, Shape

if TYPE_CHECKING:
    from kernels.linear.recipes import NAMED, OPERANDS, LinearRecipe, recipe_of
else:
    try:  # a wheel has this copy and no kernels; a package `kernels` there would be somebody else's
        from roofcal.bundled.kernels.linear.recipes import NAMED, OPERANDS, LinearRecipe, recipe_of
    except ModuleNotFoundError:
        from kernels.linear.recipes import NAMED, OPERANDS, LinearRecipe, recipe_of

# name here -> name in kernels.linear.recipes
RECIPES: Final = {
    "bf16": "high_precision",
    "fp8_tensorwise": "tensorwise",
    "fp8_axiswise": "axiswise",
    "fp8_axiswise_bf16_grad_weight": "axiswise_with_gw_hp",
    "fp8_blockwise_128x128": "blockwise",
    "mxfp8": "mxfp8",
}
# triton: our casts with the products of cuBLASLt (blocks: ours); triton_products: ours alone
PROVIDERS: Final = {
    "cuda": ("bf16_compile", "triton", "triton_products", "torchao"),
    "cpu": ("torch_cpu",),
}

OUTPUTS: Final = tuple(OPERANDS)  # one per product: output, grad_input, grad_weight
# product -> the axis that it sums over
SUMMED: Final = dict(zip(OUTPUTS, "knm", strict=True))


def recipe(name: str) -> LinearRecipe:
    """The recipe of a name here or of a line of text; raises KeyError for any other."""
    if name in RECIPES:
        return NAMED[RECIPES[name]]
    try:
        parsed = recipe_of(name)
    except ValueError as error:
        raise KeyError(str(error)) from None
    if name != parsed.text:
        raise KeyError(f"unknown recipe '{name}'")
    return parsed


def written_recipe(source: Mapping[str, Any] | str) -> str:
    """The name of a recipe that is written as a mapping or a line; its line if it has no name here.

    Raises ValueError, saying what is wrong with it.
    """
    parsed = recipe_of(source)
    names = [name for name, kernels_name in RECIPES.items() if NAMED[kernels_name] == parsed]
    return names[0] if names else parsed.text


def work(name: str, shape: Shape) -> Work:
    """Least work: x, w and grad_out read and y, grad_x and grad_w written once, in bf16.

    math_dtype is that of the narrowest product, so that the work stays a bound of mixed recipes.
    """
    m, n, k = (shape[axis] for axis in "mnk")
    fp8 = any(product.is_fp8 for product in recipe(name).products.values())
    once = nbytes("bf16", m * k) + nbytes("bf16", n * k) + nbytes("bf16", m * n)
    return Work(
        flops=6.0 * m * n * k,
        math_dtype="fp8" if fp8 else "bf16",
        dram_read_bytes=once,
        dram_write_bytes=once,
    )


def size_multiples(provider: str, name: str) -> Mapping[str, int]:
    """What the bench refuses: fp8 products of N or K off 16."""
    return {} if name == "bf16" else {"n": 16, "k": 16}


OP = OpSpec(
    name="linear",
    role="study",
    axes=("m", "n", "k"),
    recipes=tuple(RECIPES),
    providers=PROVIDERS,  # type: ignore[arg-type]
    work=work,
    regime=gemm.regime,
    layer_shape=gemm.layer_shape,
    baseline_recipe="bf16",
    written_recipe=written_recipe,
    size_multiples=size_multiples,
    calibrated_on=("probe_math", "probe_cast"),
)
