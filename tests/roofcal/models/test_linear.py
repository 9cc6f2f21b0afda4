"""A linear by hand: which products of which sizes, which casts, and how they are added."""

import numpy as np
import pytest

from roofcal.models import calibrated
from roofcal.models.linear import (
    BF16_GRAD_WEIGHT,
    Linear,
    Passes,
    Weights,
    cast_providers,
    cast_recipes,
    cast_times,
    has_casts,
    linear_times,
    product_recipes,
    usual_weights,
)
from roofcal.models.sources import Sources
from roofcal.models.torchao import model as torchao
from roofcal.ops import BY_NAME
from tests.roofcal.models.runs import SOURCES, cast
from tests.roofcal.models.stand_in import StandIn, TimesItsCasts, sizes

NOTHING = Sources()
# Tells which size is which: m is worth 1 s, n 1000 s, k 1,000,000 s.
PLACES = StandIn(
    products={
        recipe: lambda s: s[0] + 1e3 * s[1] + 1e6 * s[2]
        for recipe in ("bf16", "fp8_tensorwise", "fp8_axiswise")
    },
    casts=("torch_compile",),
)


def total(linear: Linear, model: StandIn = PLACES) -> float:
    return float(linear_times(model, NOTHING, linear, *sizes(2, 3, 5)).total[0])


def test_forward_is_one_product() -> None:
    assert total(Linear(recipe="bf16", casts="none")) == 5_003_002


def test_backward_adds_the_gradients_of_input_and_weight() -> None:
    both = Linear(recipe="bf16", passes="forward_backward", casts="none")
    # output 2x3x5; grad_input m=M, n=K, k=N; grad_weight m=N, n=K, k=M
    assert total(both) == 5_003_002 + 3_005_002 + 2_005_003


@pytest.mark.parametrize(
    ("recipe", "passes", "weights", "casts"),
    [
        ("bf16", "forward_backward", "cast", []),
        ("fp8_tensorwise", "forward", "cached", ["x tensorwise"]),
        ("fp8_tensorwise", "forward", "cast", ["x tensorwise", "w tensorwise"]),
        (
            "fp8_tensorwise_slow_accum",
            "forward_backward",
            "cast",
            ["x tensorwise", "w tensorwise", "grad_out tensorwise"],
        ),
        ("fp8_axiswise", "forward", "cast", ["x rowwise_dim0", "w rowwise_dim0"]),
        (
            "fp8_axiswise",
            "forward_backward",
            "cast",
            ["x rowwise_both", "w rowwise_dim0", "w rowwise_dim1", "grad_out rowwise_both"],
        ),
        (
            "fp8_axiswise",
            "forward_backward",
            "cached",
            ["x rowwise_both", "grad_out rowwise_both"],
        ),
        (
            BF16_GRAD_WEIGHT,
            "forward_backward",
            "cast",
            ["x rowwise_dim0", "w rowwise_dim0", "w rowwise_dim1", "grad_out rowwise_dim0"],
        ),
        ("fp8_blockwise_128x128", "forward", "cast", ["x blockwise_1x128", "w blockwise_128x128"]),
        (
            "fp8_blockwise_128x128",
            "forward_backward",
            "cast",
            [
                *("x blockwise_1x128", "x blockwise_1x128_dim1"),
                *("w blockwise_128x128", "w blockwise_128x128"),
                *("grad_out blockwise_1x128", "grad_out blockwise_1x128_dim1"),
            ],
        ),
    ],
)
def test_what_is_cast(recipe: str, passes: Passes, weights: Weights, casts: list[str]) -> None:
    linear = Linear(recipe=recipe, passes=passes, weights=weights)
    found = [f"{tensor} {name.removeprefix('fp8_')}" for tensor, name in cast_recipes(linear)]
    assert found == casts
    assert {name for _, name in cast_recipes(linear)} <= set(BY_NAME["cast"].recipes)


def test_without_casts_nothing_is_cast() -> None:
    assert cast_recipes(Linear(recipe="fp8_axiswise", casts="none", weights="cast")) == []


def test_each_tensor_is_cast_in_its_own_shape() -> None:
    model = StandIn(products=PLACES.products, casts=("torch_compile",))
    linear = Linear(recipe="fp8_tensorwise", passes="forward_backward", weights="cast")
    products = total(Linear(recipe="bf16", passes="forward_backward", casts="none"))
    assert total(linear, model) == products + 3  # each cast takes a second
    t = "fp8_tensorwise"
    assert model.asked == [(t, 2, 5), (t, 3, 5), (t, 2, 3)]  # x, w, grad_out


def test_grad_weight_can_stay_in_bf16() -> None:
    assert product_recipes(BF16_GRAD_WEIGHT, "forward") == {"output": "fp8_axiswise"}
    assert product_recipes(BF16_GRAD_WEIGHT, "forward_backward") == {
        "output": "fp8_axiswise",
        "grad_input": "fp8_axiswise",
        "grad_weight": "bf16",
    }


def test_lows_and_highs_of_the_parts_are_added() -> None:
    model = StandIn(products=PLACES.products, factor=2.0, casts=("torch_compile",))
    linear = Linear(recipe="fp8_tensorwise")
    found = linear_times(model, NOTHING, linear, *sizes(2, 3, 5))
    assert found.low is not None
    assert found.high is not None
    assert found.total[0] == 5_003_003
    assert (found.low[0], found.high[0]) == (5_003_003 / 2, 2 * 5_003_003)


def test_one_part_without_interval_leaves_none() -> None:
    found = linear_times(PLACES, NOTHING, Linear(recipe="fp8_tensorwise"), *sizes(2, 3, 5))
    assert (found.low, found.high) == (None, None)


def test_the_largest_part_bounds() -> None:
    model = TimesItsCasts(products={"fp8_axiswise": lambda s: s[0] * s[1]})
    linear = Linear(recipe="fp8_axiswise")
    vectors = (np.array([2.0, 2.0]), np.array([3.0, 3.0]), np.array([5.0, 1e4]))
    found = linear_times(model, NOTHING, linear, *vectors)
    assert found.bound_by == ["output", "casts"]
    assert found.total.tolist() == [6 + 2 * 5 * 1e-3, 6 + 2 * 1e4 * 1e-3]


def test_many_points_and_one_point_agree() -> None:
    linear = Linear(recipe="fp8_tensorwise", passes="forward_backward", weights="cast")
    vectors = [np.array([16.0, 700.0, 8192.0]), np.array([4096.0] * 3), np.array([512.0] * 3)]
    together = linear_times(torchao, SOURCES, linear, *vectors).total
    alone = [
        linear_times(torchao, SOURCES, linear, *sizes(*p)).total[0]
        for p in zip(*vectors, strict=True)
    ]
    assert together.tolist() == alone


def test_products_alone_by_the_calibrated_model_have_its_interval() -> None:
    linear = Linear(recipe="fp8_tensorwise", casts="none")
    found = linear_times(calibrated, SOURCES, linear, *sizes(300, 4096, 8192))
    same = calibrated.product_times(SOURCES, "fp8_tensorwise", *sizes(300, 4096, 8192))
    assert found.low is not None
    assert same.low is not None
    assert (found.total[0], found.low[0]) == (same.total[0], same.low[0])


def test_casts_of_a_model_without_vectors_are_its_predictions() -> None:
    found = cast_times(torchao, SOURCES, "torch_compile", "fp8_rowwise_both", *sizes(512, 4096))
    (point,) = torchao.predict([cast(512, 4096, "fp8_rowwise_both")], SOURCES)
    assert found.total.tolist() == [point.total_s]


def test_a_model_says_whose_casts_it_knows() -> None:
    axiswise = Linear(recipe="fp8_axiswise", casts="none")
    both = Linear(recipe="fp8_axiswise", passes="forward_backward")
    dim0_alone = TimesItsCasts(products={})
    assert cast_providers(PLACES, NOTHING, axiswise) == ["torch_compile"]
    assert cast_providers(dim0_alone, NOTHING, axiswise) == ["torch_compile"]
    assert cast_providers(dim0_alone, NOTHING, both) == []
    assert cast_providers(StandIn(products={}), NOTHING, axiswise) == []


def test_unknown_products_and_casts_are_key_errors() -> None:
    with pytest.raises(KeyError):
        linear_times(PLACES, NOTHING, Linear(recipe="int8", casts="none"), *sizes(2, 3, 5))
    with pytest.raises(KeyError):
        cast_times(PLACES, NOTHING, "torch_eager", "fp8_tensorwise", *sizes(2, 3))
    assert not has_casts("int8")


def test_weights_are_cast_in_every_step_of_training_alone() -> None:
    assert usual_weights("forward") == "cached"
    assert usual_weights("forward_backward") == "cast"
