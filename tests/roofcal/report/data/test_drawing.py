"""Colours, markers and orders that the pages of the ops give."""

import pytest

from roofcal.ops import BY_NAME, FOLDERS
from roofcal.report.data import drawing
from roofcal.report.data.op_pages import page_of
from roofcal.report.kit.styles import COLOURS, SPARE_MARKERS


@pytest.mark.parametrize("op", BY_NAME)
def test_recipes_of_one_op_have_colours_of_their_own(op: str) -> None:
    colours = [drawing.recipe_colour(recipe) for recipe in BY_NAME[op].recipes]
    assert op == "probe_launch" or len(set(colours)) == len(colours)
    assert set(colours) <= set(COLOURS.values())


def test_a_new_name_always_gets_the_same_spare_colour_and_marker() -> None:
    assert drawing.recipe_colour("nf4_groupwise_g64") == drawing.recipe_colour("nf4_groupwise_g64")
    assert drawing.recipe_colour("nf4_groupwise_g64") in COLOURS.values()
    assert drawing.provider_marker("symm_mem_fused") in "^vPX<>"
    assert drawing.provider_marker("brand_new") in SPARE_MARKERS
    assert {drawing.op_colour(op) for op in BY_NAME} <= set(COLOURS.values())


def test_recipes_keep_the_order_of_their_op() -> None:
    shuffled = ["unknown", "int8", "fp8_axiswise", "bf16"]
    assert drawing.in_recipe_order(shuffled, "gemm") == ["bf16", "int8", "fp8_axiswise", "unknown"]
    assert drawing.in_recipe_order(["bf16", "bf16"], "gemm") == ["bf16"]


def test_pages_of_ops_agree_on_the_colour_of_a_recipe_and_the_marker_of_a_provider() -> None:
    for kind in ("colours", "markers"):
        pairs = {pair for op in FOLDERS for pair in getattr(page_of(op), kind).items()}
        assert len(dict(pairs)) == len(pairs)
