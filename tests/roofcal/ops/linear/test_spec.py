"""Names, lines and mappings of recipes of linears, and their least work by hand."""

import pytest

from kernels.linear.recipes import NAMED
from roofcal.ops.linear.spec import OP, RECIPES, recipe, work, written_recipe

OWN = "axiswise*axiswise+axiswise*tensorwise+axiswise*axiswise@two_level"
SHAPE = {"m": 2, "n": 3, "k": 5}


def test_every_name_stands_for_a_recipe_of_the_kernels() -> None:
    assert tuple(RECIPES) == OP.recipes
    assert set(RECIPES.values()) == set(NAMED)
    for name, kernels_name in RECIPES.items():
        assert recipe(name) == NAMED[kernels_name]
        assert written_recipe(NAMED[kernels_name].text) == name


def test_a_mapping_becomes_a_line_that_needs_no_file_beside_it() -> None:
    gradient = {"grad_out": "axiswise", "x": "axiswise", "accumulation": "two_level"}
    mapping = {"output": "axiswise", "grad_input": {"grad_out": "axiswise", "w": "tensorwise"}}
    assert written_recipe(mapping | {"grad_weight": gradient}) == OWN
    assert written_recipe(OWN) == OWN == recipe(OWN).text
    assert OP.has_recipe(OWN)
    assert not OP.has_recipe("axiswise*axiswise+axiswise*blockwise+axiswise*axiswise")
    assert not OP.has_recipe("axiswise")  # a name of the kernels, not of the study


@pytest.mark.parametrize("name", ["axiswise", "bf61", "a*b+c*d+e*f"])
def test_any_other_name_is_an_error(name: str) -> None:
    with pytest.raises(KeyError):
        recipe(name)


def test_work_is_three_products_and_every_matrix_once() -> None:
    for name, dtype in (("bf16", "bf16"), ("fp8_axiswise", "fp8"), (OWN, "fp8")):
        least_work = work(name, SHAPE)
        assert least_work.flops == 3 * 2 * 2 * 3 * 5
        assert (
            least_work.dram_read_bytes == least_work.dram_write_bytes == 2 * (2 * 5 + 3 * 5 + 2 * 3)
        )
        assert least_work.math_dtype == dtype


def test_a_product_in_bf16_leaves_the_bound_that_of_fp8() -> None:
    assert work("fp8_axiswise_bf16_grad_weight", SHAPE).math_dtype == "fp8"
