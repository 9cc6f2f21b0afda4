"""Operands count their scales; recipes say what they promise."""

import pytest

from roofcal.core.recipes import (
    GEMM_RECIPES,
    WEIGHT_ONLY_RECIPES,
    Operand,
    Scale,
    gemm_work,
    nbytes,
)


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


def test_names_say_dtype_granularity_and_accumulation() -> None:
    for name, recipe in GEMM_RECIPES.items():
        assert name.startswith(recipe.math_dtype)
        assert (recipe.accumulation == "fast") == (
            recipe.math_dtype == "fp8" and not name.endswith(("slow_accum", "blockwise_128x128"))
        )
    axis, tensor = GEMM_RECIPES["fp8_axiswise"], GEMM_RECIPES["fp8_tensorwise"]
    assert axis.a.nbytes(7, 5) == 35 + 4 * 7
    assert tensor.a.nbytes(7, 5) == 35 + 4
    asymmetric = WEIGHT_ONLY_RECIPES["int4_groupwise_g64_asymmetric"]
    assert WEIGHT_ONLY_RECIPES["int4_groupwise_g64"].b.nbytes(10, 128) == 640 + 2 * 20
    assert asymmetric.b.nbytes(10, 128) == 640 + 4 * 20, "zero points are counted like scales"
    blocks = GEMM_RECIPES["fp8_blockwise_128x128"]
    assert blocks.a.nbytes(7, 256) == 7 * 256 + 4 * 7 * 2
    assert blocks.b.nbytes(130, 256) == 130 * 256 + 4 * 2 * 2


def test_elements_are_packed_and_rounded_up() -> None:
    sizes = {("fp32", 3): 12, ("bf16", 3): 6, ("fp8_e4m3", 3): 3, ("int4", 3): 2, ("int4", 4): 2}
    assert {key: nbytes(*key) for key in sizes} == sizes
    assert Operand(dtype="bf16").nbytes(3, 5) == 30
    with pytest.raises(KeyError):
        nbytes("fp7", 1)


def test_the_least_work_of_a_product_is_that_by_hand() -> None:
    work = gemm_work(GEMM_RECIPES["fp8_axiswise"], 2, 3, 5)
    assert (work.flops, work.math_dtype) == (60, "fp8")
    read, written = (2 * 5 + 4 * 2) + (3 * 5 + 4 * 3), 2 * 2 * 3  # with its scales
    assert (work.dram_read_bytes, work.dram_write_bytes) == (read, written)
    assert work.dram_bytes == read + written
    assert gemm_work(GEMM_RECIPES["int8"], 2, 3, 5).dram_bytes == 2 * 5 + 3 * 5 + 4 * 2 * 3
