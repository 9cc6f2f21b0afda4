"""Providers of LayerNorm -> linear -> sigmoid; inputs, providers and check as in op linear.

The norm has no parameters and the linear no bias, as in torchao's benchmark of float8 training.
"""

from collections.abc import Mapping
from typing import Final

import torch
from torch.nn import functional

from roofcal.ops.bench import Call, Inputs, norm_error, worst
from roofcal.ops.linear import bench as linear
from roofcal.ops.linear.spec import recipe

make_inputs = linear.make_inputs
tolerance = linear.tolerance
PROVIDER_TOLERANCE = linear.PROVIDER_TOLERANCE


def bf16_block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """sigmoid(layer_norm(x) @ w.T)."""
    return functional.linear(functional.layer_norm(x, x.shape[-1:]), w).sigmoid()


def our_block(name: str, product: str) -> linear.Layer:
    """The block of kernels.linear.norm_linear_sigmoid."""
    from kernels.linear.layer import plan_of  # noqa: PLC0415 (needs Triton)
    from kernels.linear.norm_linear_sigmoid import norm_linear_sigmoid  # noqa: PLC0415

    plan = plan_of(recipe(name), product)
    return lambda x, w: norm_linear_sigmoid(x, w, plan)


def torchao_module(n: int, k: int) -> torch.nn.Module:
    """The bf16 module that torchao converts."""
    norm = torch.nn.LayerNorm(k, elementwise_affine=False)
    return torch.nn.Sequential(norm, linear.torchao_module(n, k), torch.nn.Sigmoid())


_BLOCK: Final = linear.Variants(
    op="norm_linear_sigmoid", plain=bf16_block, ours=our_block, torchao_module=torchao_module
)


def build(provider: str, name: str, shape: Mapping[str, int]) -> Call:
    """Forward and backward through `provider`; raises Unsupported for what it refuses."""
    return linear.build_layer(_BLOCK, provider, name, shape)


def exact_outputs(inputs: Inputs) -> dict[str, torch.Tensor]:
    """Output and gradients of the block in float64 or float32, as in op linear."""
    return linear.trained_exactly(bf16_block, inputs)


def relative_error(name: str, inputs: Inputs, output: tuple[torch.Tensor, ...]) -> float:
    """||output - exact|| / ||exact||, of the worst of output and gradients."""
    return worst(*map(norm_error, output, exact_outputs(inputs).values()))
