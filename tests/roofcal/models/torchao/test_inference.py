"""torchao's inference casts, kernel by kernel, and the sum with the product."""

from typing import Any

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.torchao.constants import SETS, Constants
from roofcal.models.torchao.inference import (
    ACTIVATIONS,
    activation_bytes,
    inference_linear_s,
)
from roofcal.models.torchao.products import product_s
from roofcal.models.torchao.traffic import kernel_s
from tests.roofcal.models.torchao.golden import (
    GOLDEN,
    NEW_DEVICES,
    WAYS,
    Formula,
    Way,
    worst_error,
)

B300 = SETS["torchao-0.18.0"]["nvidia-b300"]
SIZES = (4096.0, 4096.0, 8192.0)


def casts(key: str, constants: Constants) -> Formula:
    def formula(sizes: Any, maximum: Any) -> list[Any]:
        moved = activation_bytes(key, sizes[0], sizes[1])
        return [kernel_s(constants, part, maximum) for part in moved]

    return formula


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "device"), NEW_DEVICES)
def test_every_kernel_takes_what_torchao_says(way: Way, name: str, device: str) -> None:
    assert worst_error(way, name, device, "inference_casts", casts) < 1e-12


def test_the_golden_numbers_cover_every_recipe() -> None:
    for device in GOLDEN["torchao-0.18.0"]["devices"].values():
        assert device["inference_casts"].keys() == ACTIVATIONS.keys()


def test_a_short_last_block_has_no_scale() -> None:
    assert activation_bytes("mxfp8", 10.0, 63.0) == [3 * 630 + 10 * 1]


@pytest.mark.parametrize("recipe", ["bf16", *ACTIVATIONS])
def test_a_linear_is_its_product_and_its_cast(recipe: str) -> None:
    product = product_s(B300, recipe, SIZES, max)
    moved = [] if recipe == "bf16" else activation_bytes(recipe, SIZES[0], SIZES[1])
    casts = [part / 8e12 / 0.84 for part in moved]
    assert min([1.0, *casts]) > 2e-6
    total = inference_linear_s(B300, recipe, SIZES, max)
    assert total == pytest.approx(product + sum(casts), rel=1e-14)


def test_a_recipe_of_training_alone_lists_those_of_inference() -> None:
    with pytest.raises(PredictError, match="recipe of inference linears 'rowwise_with_gw_hp'"):
        inference_linear_s(B300, "rowwise_with_gw_hp", SIZES, max)


def test_an_unknown_recipe_lists_what_is_known() -> None:
    with pytest.raises(PredictError, match=r"did you mean 'mxfp.*known: mxfp4, mxfp8, nvf"):
        activation_bytes("mxfp5", 1.0, 1.0)
