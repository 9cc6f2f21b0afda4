"""Providers of a linear, forward and backward, and their check against plain arithmetic.

bf16_compile      torch.compile of bf16 modules
triton            kernels.linear.layer: our casts, products of cuBLASLt (of blocks: ours)
triton_products   the same with our products
torchao           torchao.float8 with its own recipes, compiled; an optional package
torch_cpu         kernels.linear.layer on a CPU: right values, nothing to compare speeds with

A call returns (y, grad_x, grad_w). Gradients are new tensors every time, so that a CUDA graph can
hold forward and backward.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn import functional

from roofcal.ops.bench import (
    Call,
    Inputs,
    compiled_for_one_shape,
    draw,
    norm_error,
    require_e4m3,
    worst,
)
from roofcal.ops.linear.spec import OUTPUTS, RECIPES, recipe
from roofcal.ops.spec import Unsupported

Layer = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# provider -> who multiplies tensorwise and axiswise operands of kernels.linear.layer, if it is used
PRODUCTS_OF: Final = {
    "bf16_compile": "",
    "torchao": "",
    "triton": "cublaslt",
    "triton_products": "triton",
    "triton_inputs": "cublaslt",
    "torch_cpu": "cublaslt",
}
# recipe here -> torchao's name of it, torchao.float8.Float8LinearConfig.from_recipe_name
TORCHAO: Final = {
    "fp8_tensorwise": "tensorwise",
    "fp8_axiswise": "rowwise",
    "fp8_axiswise_bf16_grad_weight": "rowwise_with_gw_hp",
}
_DOUBLE_ELEMENTS: Final = 1 << 25  # of x up to which the reference is in float64
# e4m3 has 3 bits of mantissa: 2.6 % of a value, 3.7 % of a product of two; mxfp8 rounds its scales
# down, and what then saturates makes it 6 %. bf16: three roundings of 0.2 %.
# torchao rounds axiswise scales to powers of two and casts tensorwise gradients to e5m2
# (torchao/float8/config.py): errors up to 6.8 % on an H200, where ours are 4.0 %.
PROVIDER_TOLERANCE: Final = {"torchao": 1e-1}
_TOLERANCE: Final = {"bf16": 1e-2, "fp8": 6e-2, "mxfp8": 1e-1}


def make_inputs(
    name: str,
    shape: Mapping[str, int],
    generator: torch.Generator,
    distribution: str,
) -> dict[str, torch.Tensor]:
    """x [M,K], w [N,K] and grad_out [M,N] in bf16; w / sqrt(K), as weights are at the start."""
    m, n, k = (shape[axis] for axis in "mnk")
    x, w = draw(generator, distribution, m, k), draw(generator, distribution, n, k)
    return {"x": x, "w": w * k**-0.5, "grad_out": draw(generator, distribution, m, n)}


def bf16_layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x @ w.T."""
    return functional.linear(x, w)


def our_layer(name: str, product: str) -> Layer:
    """A linear of kernels.linear.layer."""
    from kernels.linear.layer import linear, plan_of  # noqa: PLC0415 (needs Triton)

    plan = plan_of(recipe(name), product)
    return lambda x, w: linear(x, w, None, plan)


def torchao_module(n: int, k: int) -> torch.nn.Module:
    """The bf16 module that torchao converts."""
    linear = torch.nn.Linear(k, n, bias=False, device="meta", dtype=torch.bfloat16)
    return torch.nn.Sequential(linear)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """A layer as each kind of provider has it.

    plain           in bf16
    ours            by name of the recipe and provider of the products, of our kernels
    torchao_module  by (n, k), the bf16 module that torchao converts
    """

    op: str
    plain: Layer
    ours: Callable[[str, str], Layer]
    torchao_module: Callable[[int, int], torch.nn.Module]


_LINEAR: Final = Variants(
    op="linear", plain=bf16_layer, ours=our_layer, torchao_module=torchao_module
)


def build(provider: str, name: str, shape: Mapping[str, int]) -> Call:
    """Forward and backward through `provider`; raises Unsupported for what it refuses."""
    return build_layer(_LINEAR, provider, name, shape)


def build_layer(variants: Variants, provider: str, name: str, shape: Mapping[str, int]) -> Call:
    """Forward and backward of a layer of any op, as build."""
    check_provider(variants.op, provider, name, {axis: shape[axis] for axis in "nk"})
    if provider == "bf16_compile":
        return _trained(compiled_for_one_shape(variants.plain))
    if provider == "torchao":
        module = torchao_converted(variants.torchao_module(shape["n"], shape["k"]), name)
        return _trained(compiled_for_one_shape(_layer_of(module)))
    layer = variants.ours(name, PRODUCTS_OF[provider])
    return _trained(layer if provider == "torch_cpu" else compiled_for_one_shape(layer))


def _trained(layer: Layer) -> Call:
    def call(inputs: Inputs) -> tuple[torch.Tensor, ...]:
        x, w = (inputs[key].detach().requires_grad_() for key in ("x", "w"))
        y = layer(x, w)
        return (y.detach(), *torch.autograd.grad(y, (x, w), inputs["grad_out"]))

    return call


def torchao_converted(module: torch.nn.Module, name: str) -> torch.nn.Module:
    """The module with torchao's linears for a recipe of TORCHAO; Unsupported without torchao."""
    try:
        from torchao.float8 import (  # noqa: PLC0415 (optional)
            Float8LinearConfig,
            convert_to_float8_training,
        )
    except ImportError:
        raise Unsupported(
            "provider 'torchao' needs torchao, which is not installed here: pip install torchao"
        ) from None
    config = Float8LinearConfig.from_recipe_name(TORCHAO[name])
    return convert_to_float8_training(module, config=config)


def _layer_of(module: torch.nn.Module) -> Layer:
    """The module as a function of x and of its one parameter."""
    (weight,) = (key for key, _ in module.named_parameters())

    def layer(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.func.functional_call(module, {weight: w}, (x,))

    return layer


def check_provider(op: str, provider: str, name: str, sides: Mapping[str, int]) -> None:
    """Raises Unsupported for a provider that there is not, or that refuses the recipe or a side.

    sides: name -> side of a weight that an fp8 product reads.
    """
    where = f"provider '{provider}' of op {op}"
    if provider not in PRODUCTS_OF:
        raise Unsupported(f"unknown provider '{provider}' for op {op}")
    if provider == "bf16_compile":
        if name != "bf16":
            raise Unsupported(f"{where} has no recipe but bf16; got {name}")
        return
    if provider == "torchao" and name not in TORCHAO:
        raise Unsupported(f"{where} has the recipes {', '.join(TORCHAO)}; got {name}")
    ragged = [f"{axis}={side}" for axis, side in sides.items() if side % 16]
    if ragged and name != "bf16":
        names = " and ".join(axis.upper() if len(axis) == 1 else axis for axis in sides)
        raise Unsupported(
            f"fp8 products need {names} to be multiples of 16; got {', '.join(ragged)}"
        )
    if provider == "torch_cpu":
        return
    require_e4m3(where)
    if "mxfp8" in recipe(name).granularities:
        major, minor = torch.cuda.get_device_capability()
        raise Unsupported(
            "mxfp8 products need matrix instructions that scale blocks of 32 (compute capability "
            f"10.0 or later; this one has {major}.{minor}), and op {op} has none of them yet"
        )


def trained_exactly(plain: Layer, inputs: Inputs) -> dict[str, torch.Tensor]:
    """Output and gradients of `plain` by name of OUTPUTS, on the inputs without any cast.

    In float64, and in float32 beyond 2^25 elements of x.
    """
    wide = torch.float64 if inputs["x"].numel() <= _DOUBLE_ELEMENTS else torch.float32
    exact = _trained(plain)({key: value.to(wide) for key, value in inputs.items()})
    return dict(zip(OUTPUTS, exact, strict=True))


def exact_outputs(inputs: Inputs) -> dict[str, torch.Tensor]:
    """`trained_exactly` of a linear."""
    return trained_exactly(bf16_layer, inputs)


def relative_error(name: str, inputs: Inputs, output: tuple[torch.Tensor, ...]) -> float:
    """||output - exact|| / ||exact||, of the worst of output and gradients."""
    return worst(*map(norm_error, output, exact_outputs(inputs).values()))


def tolerance(name: str) -> float:
    """Largest relative error of output and gradients of a correct linear in this recipe."""
    if "mxfp8" in recipe(name).granularities:
        return _TOLERANCE["mxfp8"]
    return _TOLERANCE["bf16" if RECIPES.get(name) == "high_precision" else "fp8"]
