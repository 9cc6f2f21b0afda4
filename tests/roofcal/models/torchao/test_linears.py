"""Products, training linears and inference linears: torchao's numbers and sums."""

from typing import Any

import numpy as np
import pytest

from roofcal.models.errors import PredictError
from roofcal.models.torchao.casts import activation_bytes, casts_s
from roofcal.models.torchao.constants import SETS, Constants
from roofcal.models.torchao.linears import (
    FORMATS,
    INFERENCE_RECIPES,
    TRAINING_RECIPES,
    formats,
    inference_linear_s,
    linear_s,
    product_parts,
    product_s,
    training_products_s,
)
from tests.roofcal.models.torchao import golden

H100 = SETS["torchao-2025"]["nvidia-h100-sxm"]
B200 = SETS["torchao-2025"]["nvidia-b200"]
B300 = SETS["torchao-0.18.0"]["nvidia-b300"]
LARGE = (16384.0, 8192.0, 8192.0)
SMALL = (128.0, 256.0, 256.0)
INFERENCE = (4096.0, 4096.0, 8192.0)


def product(key: str, constants: Constants) -> golden.Formula:
    def formula(sizes: Any, maximum: Any) -> list[Any]:
        return [product_s(constants, key, sizes, maximum)]

    return formula


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


def test_an_unknown_recipe_of_products_lists_what_is_known() -> None:
    with pytest.raises(PredictError, match=r"did you mean 'tensorwise'.*known: bf16, bl"):
        formats("tensorwide")


def test_a_device_without_the_rate_says_which_it_has() -> None:
    with pytest.raises(PredictError, match="no fp4 rate of nvidia-h100-sxm; it has bf16, fp8"):
        product_s(H100, "nvfp4", (1.0, 1.0, 1.0), max)


def test_scales_are_counted_for_formats_of_blocks_alone() -> None:
    counted = {recipe for recipe, chosen in FORMATS.items() if chosen.block}
    assert counted == {recipe for recipe in FORMATS if recipe.startswith(("mx", "nv"))}


def products_and_casts(key: str, constants: Constants) -> golden.Formula:
    recipe, fused = key.split()

    def formula(sizes: Any, maximum: Any) -> list[Any]:
        products = training_products_s(constants, recipe, sizes, maximum)
        if recipe == "bf16":
            return [products, 0.0]
        return [products, casts_s(constants, recipe, sizes, fused == "fused", maximum)]

    return formula


CASES = [
    *[("products", product, *listed) for listed in golden.DEVICES],
    *[("inference_products", product, *listed) for listed in golden.NEW_DEVICES],
    *[("linears", products_and_casts, *listed) for listed in golden.DEVICES],
]


@pytest.mark.parametrize("way", golden.WAYS)
@pytest.mark.parametrize(("part", "formula_of", "name", "device"), CASES)
def test_products_and_sums_are_torchaos(
    way: golden.Way, part: str, formula_of: golden.FormulaOf, name: str, device: str
) -> None:
    assert golden.worst_error(way, name, device, part, formula_of) < 1e-12


def test_the_golden_numbers_cover_every_training_recipe() -> None:
    devices = [device for data in golden.GOLDEN.values() for device in data["devices"].values()]
    recipes = {key.split()[0] for device in devices for key in device["linears"]}
    assert recipes == set(TRAINING_RECIPES)


@pytest.mark.parametrize("recipe", TRAINING_RECIPES)
@pytest.mark.parametrize("fused", [False, True])
def test_a_linear_is_its_products_and_its_casts(recipe: str, fused: bool) -> None:
    casts = 0.0 if recipe == "bf16" else casts_s(B200, recipe, LARGE, fused, max)
    products = training_products_s(B200, recipe, LARGE, max)
    assert linear_s(B200, recipe, LARGE, fused, max) == pytest.approx(products + casts)


def test_fp8_wins_on_large_layers_and_loses_on_small_ones() -> None:
    def speed_up(sizes: tuple[float, float, float]) -> float:
        bf16, fp8 = (linear_s(H100, recipe, sizes, True, max) for recipe in ("bf16", "tensorwise"))
        return bf16 / fp8

    assert speed_up(LARGE) > 1.2
    assert speed_up(SMALL) == pytest.approx(6e-6 / (6e-6 + 20e-6))


def test_vectors_of_any_length_agree_with_numbers() -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(1, 40_000, (3, 500)).astype(float)
    m, k, n = sizes
    many = linear_s(H100, "mxfp8_cublas", (m, k, n), False, np.maximum)
    one = [linear_s(H100, "mxfp8_cublas", (a, b, c), False, max) for a, b, c in sizes.T.tolist()]
    assert many == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize("recipe", ["fp8_rowwise", "nvfp4"])
def test_a_recipe_without_a_training_linear_lists_those_there_are(recipe: str) -> None:
    with pytest.raises(PredictError, match=f"recipe of linears '{recipe}'; .*known: bf16"):
        linear_s(H100, recipe, SMALL, False, max)


def test_every_recipe_of_linears_has_products() -> None:
    assert {*TRAINING_RECIPES, *INFERENCE_RECIPES} <= FORMATS.keys()


@pytest.mark.parametrize("recipe", INFERENCE_RECIPES)
def test_an_inference_linear_is_its_product_and_its_cast(recipe: str) -> None:
    product = product_s(B300, recipe, INFERENCE, max)
    moved = [] if recipe == "bf16" else activation_bytes(recipe, INFERENCE[0], INFERENCE[1])
    casts = [part / 8e12 / 0.84 for part in moved]
    assert min([1.0, *casts]) > 2e-6
    total = inference_linear_s(B300, recipe, INFERENCE, max)
    assert total == pytest.approx(product + sum(casts), rel=1e-14)


def test_a_recipe_of_training_alone_lists_those_of_inference() -> None:
    with pytest.raises(PredictError, match="recipe of inference linears 'rowwise_with_gw_hp'"):
        inference_linear_s(B300, "rowwise_with_gw_hp", INFERENCE, max)
