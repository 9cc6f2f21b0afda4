"""Operands count their scales; recipes say what they promise."""

import pytest

from roofcal.model.recipes import GEMM_RECIPES, Operand, Scale


@pytest.mark.parametrize(
    ("rows", "cols", "scales"),
    [(None, None, 1), (1, None, 300), (None, 1, 200), (128, 128, 3 * 2), (1, 64, 300 * 4)],
)
def test_a_scale_covers_its_block_and_the_last_block_may_be_ragged(
    rows: int | None, cols: int | None, scales: int
) -> None:
    scale = Scale(dtype="fp32", rows=rows, cols=cols)
    assert scale.count(300, 200) == scales
    assert Operand(dtype="fp8_e4m3", scale=scale).nbytes(300, 200) == 300 * 200 + 4 * scales


def test_an_operand_without_scales_is_its_elements() -> None:
    assert Operand(dtype="bf16").nbytes(3, 5) == 30


def test_names_say_dtype_granularity_and_accumulation() -> None:
    for name, recipe in GEMM_RECIPES.items():
        assert recipe.name == name
        assert name.startswith(recipe.math_dtype)
        assert (recipe.accumulation == "fast") == (
            recipe.math_dtype == "fp8" and not name.endswith("slow_accum")
        )
    axis, tensor = GEMM_RECIPES["fp8_axiswise"], GEMM_RECIPES["fp8_tensorwise"]
    assert axis.a.nbytes(7, 5) == 35 + 4 * 7
    assert tensor.a.nbytes(7, 5) == 35 + 4
