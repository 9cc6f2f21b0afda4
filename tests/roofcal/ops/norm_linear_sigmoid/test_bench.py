"""The block on the CPU: right in every recipe, wrong ones caught."""

import torch

from roofcal.ops.bench import largest_error
from roofcal.ops.linear import bench as linear
from roofcal.ops.norm_linear_sigmoid import bench


def test_its_parts_are_those_of_the_block() -> None:
    norm, linear, sigmoid = bench.torchao_module(16, 32).children()
    assert not list(norm.parameters())
    assert [p.shape for p in linear.parameters()] == [(16, 32)]
    x, w = torch.randn(5, 32), torch.randn(16, 32)
    assert torch.equal(bench.bf16_block(x, w), sigmoid(norm(x) @ w.t()))


def test_torchaos_rounding_of_scales_and_gradients_is_no_mistake() -> None:
    seen = 0.0677  # torchao 0.18 on an H200, fp8_axiswise_bf16_grad_weight at 8192
    for module in (linear, bench):
        assert module.tolerance("fp8_axiswise") < seen
        assert seen < largest_error(module, "torchao", "fp8_axiswise") < 2 * seen
        assert largest_error(module, "triton", "fp8_axiswise") == linear.tolerance("fp8_axiswise")
