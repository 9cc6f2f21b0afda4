"""The fused block against autograd, its parameters, and torch.compile."""

import pytest
import torch
from torch.nn import functional

from kernels.linear.layer import plan_of
from kernels.linear.norm_linear_sigmoid import (
    NormLinearSigmoid,
    layer_norm_backward,
    norm_linear_sigmoid,
)
from kernels.linear.recipes import NAMED
from tests.exhaustive import mostly
from tests.kernels.linear.test_layer import (
    MIXED,
    OURS,
    RECIPES,
    apart,
    assert_has_no_second_derivative,
    assert_is_one_graph,
)
from tests.kernels.linear.test_reference import drawn


def block(recipe: str, *, full: bool, device: str = "cpu") -> NormLinearSigmoid:
    made = NormLinearSigmoid(
        64, 48, bias=full, affine=full, recipe=recipe, device=device, dtype=torch.bfloat16
    )
    with torch.no_grad():
        made.linear.weight.copy_(drawn(48, 64, 0.125))
        if full:
            made.norm.weight.copy_(1 + drawn(1, 64, 0.1)[0])
            made.norm.bias.copy_(drawn(64, 1, 0.1)[:, 0])
            made.linear.bias.copy_(drawn(48, 1, 0.1)[:, 0])
    return made


def exact(module: NormLinearSigmoid, x: torch.Tensor) -> torch.Tensor:
    wide = {name: value.double() for name, value in module.named_parameters()}
    y = functional.layer_norm(x.double(), (64,), wide.get("norm.weight"), wide.get("norm.bias"))
    return functional.linear(y, wide["linear.weight"], wide.get("linear.bias")).sigmoid()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rows", [1, 37, 64])
def test_it_is_the_block_within_what_fp8_costs(recipe: str, full: bool, rows: int) -> None:
    module, x = block(recipe, full=full), drawn(rows, 64).requires_grad_()
    grad, inputs = drawn(rows, 48), [x, *module.parameters()]
    got, wanted = module(x), exact(module, x)
    assert apart(got, wanted) <= (0.03 if NAMED.get(recipe) != NAMED["high_precision"] else 5e-3)
    found = torch.autograd.grad(got, inputs, grad)
    expected = torch.autograd.grad(wanted, inputs, grad.double())
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == torch.bfloat16
        assert apart(a, b.double()) <= (0.12 if recipe == "mxfp8" else 0.08)


def test_in_high_precision_it_is_autograd() -> None:
    shapes = ((3, 4), (2, 4), (4,), (4,), (2,))
    x, w, a, b, c = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    plan = plan_of("high_precision")

    def call(*of: torch.Tensor) -> torch.Tensor:
        x, w, a, b, c = of
        return norm_linear_sigmoid(x, w, plan, norm_weight=a, norm_bias=b, bias=c)

    assert torch.autograd.gradcheck(call, (x, w, a, b, c))
    assert torch.autograd.gradgradcheck(call, (x, w, a, b, c))


@pytest.mark.parametrize("recipe", mostly([*OURS[1:], "mxfp8"], "axiswise"))
def test_a_second_derivative_is_refused_with_the_way_out(recipe: str) -> None:
    module = block(recipe, full=True)
    assert_has_no_second_derivative(module, drawn(32, 64), module.linear.weight)


def test_the_norms_gradient_is_that_of_torch() -> None:
    x, w, b = (torch.randn(s, requires_grad=True) for s in ((7, 33), (33,), (33,)))
    grad = torch.randn(7, 33)
    wanted = torch.autograd.grad(functional.layer_norm(x, (33,), w, b), (x, w, b), grad)
    found = layer_norm_backward(grad, x.detach(), w.detach(), 1e-5, (True, True, True))
    for a, c in zip(found, wanted, strict=True):
        assert a is not None
        torch.testing.assert_close(a, c, rtol=1e-4, atol=1e-5)
    assert layer_norm_backward(None, x, w, 1e-5, (True,) * 3) == (None, None, None)


@pytest.mark.parametrize("recipe", ["high_precision", "axiswise", "axiswise_with_gw_hp", MIXED])
@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_what_is_frozen_gets_no_gradient_and_changes_no_other(recipe: str, frozen: str) -> None:
    module, x = block(recipe, full=False), drawn(33, 64).requires_grad_()
    inputs = {"x": x, "weight": module.linear.weight}
    every = dict(
        zip(inputs, torch.autograd.grad(module(x).sum(), list(inputs.values())), strict=True)
    )
    inputs.pop(frozen).requires_grad_(False)
    ((name, left),) = inputs.items()
    assert torch.equal(torch.autograd.grad(module(x).sum(), left)[0], every[name])


@pytest.mark.parametrize("recipe", mostly(RECIPES, "blockwise", MIXED))
def test_torch_compile_sees_one_graph_of_the_same_values(recipe: str) -> None:
    assert_is_one_graph(block(recipe, full=True), drawn(37, 64))


def test_rows_may_have_leading_axes_and_be_none() -> None:
    module = block("axiswise", full=False)
    x = drawn(6, 64)
    assert torch.equal(module(x.reshape(2, 3, 64)).reshape(6, 48), module(x))
    assert module(x[:0]).shape == (0, 48)


def test_features_that_no_product_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="in_features: wanted a multiple of 16"):
        NormLinearSigmoid(40, 32)


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", OURS)
@pytest.mark.parametrize("full", [False, True])
def test_a_gpu_has_the_values_of_the_reference(recipe: str, full: bool) -> None:
    of = drawn(100, 64), drawn(100, 48)
    results = []
    for device in ("cpu", "cuda"):
        module, x = block(recipe, full=full, device=device), of[0].to(device).requires_grad_()
        y = module(x)
        found = torch.autograd.grad(y, [x, *module.parameters()], of[1].to(device))
        results.append([t.detach().cpu() for t in (y, *found)])
    for a, b in zip(*results, strict=True):
        assert apart(b, a.double()) <= 3e-2
