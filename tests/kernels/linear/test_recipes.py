"""Recipes as names, lines and mappings, and every one that no product can do."""

import itertools
from typing import Any

import pytest

from kernels.linear.recipes import (
    GRANULARITIES,
    HIGH_PRECISION,
    NAMED,
    LinearRecipe,
    ProductRecipe,
    from_dict,
    recipe_of,
)

GOOD: dict[str, Any] = {
    "output": {"x": "axiswise", "w": "axiswise", "accumulation": "two_level"},
    "grad_input": {"grad_out": "axiswise", "w": "tensorwise"},
    "grad_weight": "high_precision",
}


@pytest.mark.parametrize("name", NAMED)
def test_a_recipe_is_the_same_by_name_line_and_mapping(name: str) -> None:
    recipe = NAMED[name]
    assert recipe_of(name) == recipe_of(recipe) == recipe
    assert recipe_of(recipe.text) == recipe
    mapping = {key: {"accumulation": p.summed} for key, p in recipe.products.items()}
    mapping["output"] |= {"x": recipe.output.a, "w": recipe.output.b}
    mapping["grad_input"] |= {"grad_out": recipe.grad_input.a, "w": recipe.grad_input.b}
    mapping["grad_weight"] |= {"grad_out": recipe.grad_weight.a, "x": recipe.grad_weight.b}
    assert from_dict(mapping).text == recipe.text


def test_the_line_of_a_mapping_says_all_of_it() -> None:
    text = "axiswise*axiswise@two_level+axiswise*tensorwise+high_precision*high_precision"
    assert recipe_of(GOOD).text == text
    assert recipe_of(text) == recipe_of(GOOD)


def test_the_recipe_of_torchaos_pull_request_940() -> None:
    recipe = NAMED["axiswise_with_gw_hp"]
    assert (recipe.output.a, recipe.output.b) == ("axiswise", "axiswise")
    assert (recipe.grad_input.a, recipe.grad_input.b) == ("axiswise", "tensorwise")
    assert not recipe.grad_weight.is_fp8


def test_only_scales_of_rows_and_of_tensors_mix() -> None:
    plain = ProductRecipe(a=HIGH_PRECISION, b=HIGH_PRECISION)
    possible = set()
    for a, b in itertools.product(GRANULARITIES, repeat=2):
        try:
            product = ProductRecipe(a=a, b=b)
            LinearRecipe(output=product, grad_input=plain, grad_weight=plain)
        except ValueError:
            continue
        possible.add((a, b))
    mixed = set(itertools.product(("tensorwise", "axiswise"), repeat=2))
    assert possible == mixed | {(g, g) for g in GRANULARITIES}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"grad_input": {"grad_out": "blockwise", "w": "tensorwise"}},
            r"grad_input, operand w: wanted blockwise \(no product takes anything else beside "
            r"grad_out blockwise\), got tensorwise",
        ),
        (
            {"grad_weight": {"grad_out": "axiswise", "x": "high_precision"}},
            "grad_weight, operand x: wanted tensorwise or axiswise .*, got high_precision",
        ),
        (
            {"output": {"x": "axiswise", "w": "axiswize"}},
            r"output, operand w: wanted .*, got axiswize; did you mean axiswise\?",
        ),
        ({"output": {"x": "axiswise"}}, "output, operand w: wanted .*, got nothing"),
        ({"output": {"x": "axiswise", "v": "axiswise"}}, "output, key: wanted x or w or accum"),
        ({"output": 8}, "output: wanted tensorwise or .*, got 8"),
        (
            {"output": {"x": "blockwise", "w": "blockwise", "accumulation": "fast"}},
            "output, accumulation of blockwise operands: wanted two_level, got fast",
        ),
        ({"grad_bias": "axiswise"}, "product: wanted output or grad_input or grad_weight, got"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(change: Any, says: str) -> None:
    with pytest.raises(ValueError, match="grad_input, grad_weight is missing"):
        from_dict({"output": "axiswise"})
    with pytest.raises(ValueError, match=says) as caught:
        from_dict(GOOD | change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *((name, "linear recipe: name: wanted high_precision or") for name in ("axiswize", "")),
        *((line, "linear recipe: name: wanted") for line in ("a*b", "axiswise*axiswise+axiswise")),
        (None, "wanted high_precision or .*, a mapping .*, got NoneType"),
        (["axiswise"], "wanted high_precision or .*, a mapping .*, got list"),
        (
            "axiswise*axiswise+axiswise*axiswise+blockwise*axiswise",
            "grad_weight, operand x: wanted blockwise",
        ),
    ],
)
def test_what_is_no_recipe_at_all_is_refused(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        recipe_of(given)
