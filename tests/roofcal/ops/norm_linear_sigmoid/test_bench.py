"""The block on the CPU: right in every recipe, wrong ones caught."""

import pytest
import torch

from roofcal.ops.bench import largest_error
from roofcal.ops.linear import bench as linear
from roofcal.ops.norm_linear_sigmoid import bench
from tests.roofcal.ops.linear.test_bench import RECIPES, SHAPE, inputs


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_block_is_right_and_a_wrong_one_caught(recipe: str) -> None:
    operands = inputs(SHAPE)
    output = bench.build("torch_cpu", recipe, SHAPE)(operands)
    assert bench.relative_error(recipe, operands, output) <= bench.tolerance(recipe)
    for which in range(3):
        wrong = [o.clone() for o in output]
        wrong[which][:, :3] = 0
        assert bench.relative_error(recipe, operands, tuple(wrong)) > bench.tolerance(recipe)


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
