"""What a linear consists of: its products and, by who casts, its casts."""

import numpy as np
import pytest

from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import (
    BF16_GRAD_WEIGHT,
    Linear,
    Passes,
    Weights,
    cast_recipes,
    has_casts,
    parts_of,
    product_recipes,
    product_sides,
    usual_weights,
)
from tests.roofcal.ops.linear.test_spec import OWN

DIM0, DIM1, BOTH = "fp8_rowwise_dim0", "fp8_rowwise_dim1", "fp8_rowwise_both"
STRIPS = ("fp8_blockwise_1x128", "fp8_blockwise_1x128_dim1")
BLOCKS = SQUARES = "fp8_blockwise_128x128"


# fmt: off
CASTS: list[tuple[str, Passes, Weights, str]] = [
    ("bf16", "forward_backward", "cast", ""),
    ("fp8_tensorwise", "forward", "cached", "x tensorwise"),
    ("fp8_tensorwise", "forward", "cast", "x tensorwise, w tensorwise"),
    ("fp8_tensorwise_slow_accum", "forward_backward", "cast",
     "x tensorwise, w tensorwise, grad_out tensorwise"),
    ("fp8_axiswise", "forward", "cast", "x rowwise_dim0, w rowwise_dim0"),
    ("fp8_axiswise", "forward_backward", "cast",
     "x rowwise_both, w rowwise_dim0, w rowwise_dim1, grad_out rowwise_both"),
    ("fp8_axiswise", "forward_backward", "cached", "x rowwise_both, grad_out rowwise_both"),
    (BF16_GRAD_WEIGHT, "forward_backward", "cast",
     "x rowwise_dim0, w rowwise_dim0, w rowwise_dim0, grad_out rowwise_dim0"),
    (BLOCKS, "forward", "cast", "x blockwise_1x128, w blockwise_128x128"),
    (BLOCKS, "forward_backward", "cast",
     "x blockwise_1x128, x blockwise_1x128_dim1, w blockwise_128x128, w blockwise_128x128, "
     "grad_out blockwise_1x128, grad_out blockwise_1x128_dim1"),
]
# fmt: on


@pytest.mark.parametrize(("recipe", "passes", "weights", "casts"), CASTS)
def test_what_is_cast(recipe: str, passes: Passes, weights: Weights, casts: str) -> None:
    linear = Linear(recipe=recipe, passes=passes, casts="torch_compile", weights=weights)
    names = [f"{tensor} {name.removeprefix('fp8_')}" for tensor, name in cast_recipes(linear)]
    assert ", ".join(names) == casts
    assert {name for _, name in cast_recipes(linear)} <= set(BY_NAME["cast"].recipes)


@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise", "fp8_axiswise"])
def test_ragged_tokens_are_loaded_in_whole_rows_by_the_gradient_of_bf16_weights_alone(
    recipe: str,
) -> None:
    tokens, features, inputs = (
        np.array(v) for v in ([4096.0, 15115, 1], [3001.0] * 3, [517.0] * 3)
    )
    sizes = (tokens, features, inputs)
    sides = {
        name: [side.tolist() for side in product_sides(name, recipe, sizes)]
        for name in ("output", "grad_input", "grad_weight")
    }
    m, n, k = (side.tolist() for side in sizes)
    loaded = [4096.0, 15120.0, 8.0] if recipe == "bf16" else m
    assert sides == {
        "output": [m, n, k],
        "grad_input": [m, k, n],
        "grad_weight": [n, k, loaded],
    }
    assert tokens.tolist() == [4096.0, 15115.0, 1.0]  # the caller's own are not changed


@pytest.mark.parametrize(
    ("recipe", "casts"),
    [
        ("fp8_axiswise", [("x", BOTH), ("w", BOTH), ("grad_out", BOTH)]),
        (
            "fp8_tensorwise",
            [*((tensor, "fp8_tensorwise") for tensor in ("x", "w")), ("w", DIM0),
             ("grad_out", "fp8_tensorwise")],
        ),
        (
            "fp8_axiswise_bf16_grad_weight",
            [("x", DIM0), ("w", DIM0), ("w", DIM0), ("grad_out", DIM0)],
        ),
        (OWN, [("x", BOTH), ("w", DIM0), ("w", DIM0), ("grad_out", BOTH)]),
        (
            "high_precision*high_precision+tensorwise*tensorwise+axiswise*axiswise",
            [("x", DIM1), ("w", "fp8_tensorwise"), ("grad_out", "fp8_tensorwise"),
             ("grad_out", DIM1)],
        ),
        (
            BLOCKS,
            [*(("x", strips) for strips in STRIPS),
             ("w", SQUARES),
             *(("grad_out", strips) for strips in STRIPS)],
        ),
        (
            "blockwise*blockwise+tensorwise*tensorwise+axiswise*tensorwise",
            [("x", STRIPS[0]), ("x", "fp8_tensorwise"), ("w", SQUARES), ("w", "fp8_tensorwise"),
             ("grad_out", "fp8_tensorwise"), ("grad_out", DIM1)],
        ),
        (
            "axiswise*axiswise+blockwise*blockwise+high_precision*high_precision",
            [("x", DIM0), ("w", DIM0), ("w", SQUARES), ("w", STRIPS[1]), ("grad_out", STRIPS[0])],
        ),
    ],
)  # fmt: skip
def test_our_kernels_cast_what_the_recipe_asks_for(
    recipe: str, casts: list[tuple[str, str]]
) -> None:
    parts = parts_of("triton", recipe)
    assert (parts.casts_by, parts.casts) == ("triton", casts)
    assert {name for _, name in casts} <= set(BY_NAME["cast"].recipes)


@pytest.mark.parametrize(
    ("recipe", "tensors"),
    [("fp8_tensorwise", ["x", "grad_out"]), (BLOCKS, ["w"]), ("fp8_axiswise", [])],
)
def test_our_casts_store_transposed_values_from_the_same_read(
    recipe: str, tensors: list[str]
) -> None:
    assert parts_of("triton", recipe).transposed == tensors


def test_products_are_those_of_their_operands() -> None:
    assert parts_of("triton_products", OWN).products == {
        "output": "fp8_axiswise",
        "grad_input": "fp8_axiswise",
        "grad_weight": "fp8_axiswise_slow_accum",
    }
    uncast = parts_of("bf16_compile", "bf16")
    assert set(uncast.products.values()) == {"bf16"}
    assert (uncast.casts_by, uncast.casts) == ("none", [])


def test_torchao_casts_as_its_table_says() -> None:
    parts = parts_of("torchao", "fp8_axiswise")
    assert parts.casts_by == "torch_compile"
    assert [name for _, name in parts.casts] == [BOTH, DIM0, DIM1, BOTH]
    assert set(parts.products.values()) == {"fp8_axiswise"}


@pytest.mark.parametrize("recipe", ["int8", "mxfp8"])
def test_casts_that_nobody_measured_are_a_key_error(recipe: str) -> None:
    assert not has_casts(recipe)
    with pytest.raises(KeyError, match=recipe):
        cast_recipes(Linear(recipe=recipe, casts="torch_compile"))


def test_without_casts_nothing_is_cast() -> None:
    assert cast_recipes(Linear(recipe="fp8_axiswise", casts="none", weights="cast")) == []


def test_grad_weight_can_stay_in_bf16() -> None:
    assert product_recipes(BF16_GRAD_WEIGHT, "forward") == {"output": "fp8_axiswise"}
    assert product_recipes(BF16_GRAD_WEIGHT, "forward_backward") == {
        "output": "fp8_axiswise",
        "grad_input": "fp8_axiswise",
        "grad_weight": "bf16",
    }


def test_weights_are_cast_in_every_step_of_training_alone() -> None:
    assert usual_weights("forward") == "cached"
    assert usual_weights("forward_backward") == "cast"
