"""Which tiles a product gets."""

import pytest

from kernels import gemm_configs


@pytest.mark.parametrize("size", [2048, 4096, 8192, 16384])
def test_large_products_get_the_largest_tiles(size: int) -> None:
    chosen = gemm_configs.choose(gemm_configs.FAST, size, size, 132)
    assert chosen.m * chosen.n == 128 * 256


def test_products_of_few_tiles_get_small_ones_so_that_all_units_work() -> None:
    chosen = gemm_configs.choose(gemm_configs.FAST, 1024, 1024, 132)
    assert (1024 // chosen.m) * (1024 // chosen.n) >= 64


def test_a_tile_of_blocks_lies_within_one_square() -> None:
    for config in gemm_configs.BLOCKWISE + gemm_configs.SMALL_BLOCKWISE:
        assert 128 % config.m == 0
        assert 128 % config.n == 0
        assert config.k == 128
