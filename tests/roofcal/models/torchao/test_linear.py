"""Forward and backward of a linear: torchao's sums."""

from typing import Any

import numpy as np
import pytest

from roofcal.models.errors import PredictError
from roofcal.models.torchao.constants import SETS, Constants
from roofcal.models.torchao.linear import RECIPES, cast_s, casts_s, linear_s, speed_up
from roofcal.models.torchao.products import FORMATS, training_products_s
from tests.roofcal.models.torchao.golden import DEVICES, GOLDEN, WAYS, Formula, Way, worst_error

H100 = SETS["torchao-2025"]["nvidia-h100-sxm"]
LARGE = (16384.0, 8192.0, 8192.0)
SMALL = (128.0, 256.0, 256.0)


def products_and_casts(key: str, constants: Constants) -> Formula:
    recipe, fused = key.split()

    def formula(sizes: Any, maximum: Any) -> list[Any]:
        products = training_products_s(constants, recipe, sizes, maximum)
        if recipe == "bf16":
            return [products, 0.0]
        return [products, casts_s(constants, recipe, sizes, fused == "fused", maximum)]

    return formula


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "device"), DEVICES)
def test_the_sums_are_torchaos(way: Way, name: str, device: str) -> None:
    assert worst_error(way, name, device, "linears", products_and_casts) < 1e-12


def test_the_golden_numbers_cover_every_recipe() -> None:
    devices = [device for data in GOLDEN.values() for device in data["devices"].values()]
    assert {key.split()[0] for device in devices for key in device["linears"]} == set(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("fused", [False, True])
def test_a_linear_is_its_products_and_its_casts(recipe: str, fused: bool) -> None:
    constants = SETS["torchao-2025"]["nvidia-b200"]
    casts = 0.0 if recipe == "bf16" else casts_s(constants, recipe, LARGE, fused, max)
    products = training_products_s(constants, recipe, LARGE, max)
    assert linear_s(constants, recipe, LARGE, fused, max) == pytest.approx(products + casts)


def test_the_weight_is_never_fused() -> None:
    alone, fused = (casts_s(H100, "rowwise", LARGE, f, max) for f in (False, True))
    saved = 2 * 2 * 16384 * 8192 / 2.4e12 / 0.92  # bf16 of input and grad_output
    assert alone - fused == pytest.approx(saved)


def test_fp8_wins_on_large_layers_and_loses_on_small_ones() -> None:
    assert speed_up(H100, "tensorwise", LARGE, True, max) > 1.2
    assert speed_up(H100, "tensorwise", SMALL, True, max) == pytest.approx(6e-6 / (6e-6 + 20e-6))


def test_every_recipe_of_casts_has_products() -> None:
    assert set(RECIPES) <= FORMATS.keys()


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


def test_an_unknown_role_lists_the_roles() -> None:
    with pytest.raises(PredictError, match="known: grad_output, input, weight"):
        cast_s(H100, "rowwise", "output", SMALL, False, max)
