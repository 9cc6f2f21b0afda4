"""Expressions in M, K, N."""

import pytest
import sympy

from roofcal.models.torchao.casts import cast_s
from roofcal.models.torchao.constants import SETS
from roofcal.models.torchao.linears import (
    TRAINING_RECIPES,
    inference_linear_s,
    linear_s,
    product_s,
)
from roofcal.models.torchao.symbolic import (
    K,
    M,
    N,
    cast_expression,
    evaluate,
    inference_expression,
    linear_expression,
    product_expression,
)

B200 = SETS["torchao-2025"]["nvidia-b200"]
SHAPES = [(7, 8191, 8193), (16384, 8192, 28672)]


@pytest.mark.parametrize("recipe", TRAINING_RECIPES)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_expressions_are_what_the_numbers_are(
    recipe: str, fused: bool, shape: tuple[int, int, int]
) -> None:
    product, linear = product_expression(B200, recipe), linear_expression(B200, recipe, fused)
    assert evaluate(product, *shape) == pytest.approx(
        product_s(B200, recipe, shape, max), rel=1e-12
    )
    assert evaluate(linear, *shape) == pytest.approx(
        linear_s(B200, recipe, shape, fused, max), rel=1e-12
    )


def test_a_cast_is_an_expression_in_the_sizes_of_its_tensor() -> None:
    weight = cast_expression(B200, "rowwise", "weight", fused=False)
    assert weight.free_symbols == {K, N}
    expected = cast_s(B200, "rowwise", "weight", SHAPES[1], False, max)
    assert evaluate(weight, *SHAPES[1]) == pytest.approx(expected, rel=1e-12)


def test_an_inference_linear_is_an_expression_with_rounded_down_scales() -> None:
    expression = inference_expression(B200, "nvfp4")
    assert expression.has(sympy.floor(K / 16))
    expected = inference_linear_s(B200, "nvfp4", SHAPES[0], max)
    assert evaluate(expression, *SHAPES[0]) == pytest.approx(expected, rel=1e-12)


def test_what_is_printed_can_be_read_again() -> None:
    expression = linear_expression(B200, "mxfp8_cublas", fused=True)
    again = sympy.sympify(str(expression), locals={"M": M, "K": K, "N": N})
    assert evaluate(again, *SHAPES[0]) == pytest.approx(evaluate(expression, *SHAPES[0]), rel=1e-12)
