"""Products: torchao's numbers, forward and of inference, and what they count."""

from typing import Any

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.torchao.constants import SETS, Constants
from roofcal.models.torchao.products import (
    FORMATS,
    formats,
    product_parts,
    product_s,
    training_products_s,
)
from tests.roofcal.models.torchao.golden import (
    DEVICES,
    NEW_DEVICES,
    WAYS,
    Formula,
    Way,
    worst_error,
)

H100 = SETS["torchao-2025"]["nvidia-h100-sxm"]
B200 = SETS["torchao-2025"]["nvidia-b200"]


def product(key: str, constants: Constants) -> Formula:
    def formula(sizes: Any, maximum: Any) -> list[Any]:
        return [product_s(constants, key, sizes, maximum)]

    return formula


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "device"), DEVICES)
def test_a_product_takes_what_torchao_says(way: Way, name: str, device: str) -> None:
    assert worst_error(way, name, device, "products", product) < 1e-12


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "device"), NEW_DEVICES)
def test_an_inference_product_takes_what_torchao_says(way: Way, name: str, device: str) -> None:
    assert worst_error(way, name, device, "inference_products", product) < 1e-12


def test_scales_are_rounded_down_once_for_both_operands() -> None:
    m, k, n = 3.0, 17.0, 5.0  # 51 + 85 = 136 elements, 4 blocks of 32 and a rest of 8
    _, dram = product_parts(H100, "fp8", 32, (m, k, n))
    assert dram == pytest.approx((136 + 4 + 2 * 15) / 2.4e12 / 0.92, rel=1e-15)


def test_a_scale_of_fp4_is_counted_as_half_a_byte() -> None:
    _, dram = product_parts(B200, "fp4", 16, (16.0, 16.0, 16.0))
    assert dram == pytest.approx((0.5 * (512 + 32) + 512) / 8e12 / 0.92, rel=1e-15)


def test_the_weight_gradient_in_bf16_is_the_difference_to_rowwise() -> None:
    sizes = (8192.0, 8192.0, 8192.0)
    mixed = training_products_s(H100, "rowwise_with_gw_hp", sizes, max)
    fp8, bf16 = (product_s(H100, recipe, sizes, max) for recipe in ("rowwise", "bf16"))
    assert mixed == pytest.approx(2 * fp8 + bf16, rel=1e-15)


def test_an_unknown_recipe_lists_what_is_known() -> None:
    with pytest.raises(PredictError, match=r"did you mean 'tensorwise'.*known: bf16, bl"):
        formats("tensorwide")


def test_a_device_without_the_rate_says_which_it_has() -> None:
    with pytest.raises(PredictError, match="no fp4 rate of nvidia-h100-sxm; it has bf16, fp8"):
        product_s(H100, "nvfp4", (1.0, 1.0, 1.0), max)


def test_scales_are_counted_for_formats_of_blocks_alone() -> None:
    counted = {recipe for recipe, chosen in FORMATS.items() if chosen.block}
    assert counted == {recipe for recipe in FORMATS if recipe.startswith(("mx", "nv"))}
