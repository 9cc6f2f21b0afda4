"""Least work of a product, by hand."""

from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.work import Work, gemm_work


def test_a_bf16_product() -> None:
    work = gemm_work(GEMM_RECIPES["bf16"], 2, 3, 5)
    assert (work.flops, work.math_dtype) == (60, "bf16")
    assert work.dram_read_bytes == 2 * (2 * 5 + 3 * 5)
    assert work.dram_write_bytes == 2 * 2 * 3
    assert work.dram_bytes == 50 + 12


def test_an_fp8_product_reads_its_scales_and_writes_bf16() -> None:
    work = gemm_work(GEMM_RECIPES["fp8_axiswise"], 2, 3, 5)
    assert work.dram_read_bytes == (2 * 5 + 4 * 2) + (3 * 5 + 4 * 3)
    assert work.dram_write_bytes == 12


def test_an_int8_product_writes_int32() -> None:
    assert gemm_work(GEMM_RECIPES["int8"], 2, 3, 5).dram_write_bytes == 4 * 6


def test_nothing_is_nothing() -> None:
    assert Work().dram_bytes == 0
