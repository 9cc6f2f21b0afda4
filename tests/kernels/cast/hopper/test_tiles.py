"""Sizes and layouts of tiles."""

from dataclasses import replace

import pytest
import torch

from kernels.cast.hopper.tiles import TileConfig

TILE = TileConfig(columns_per_thread=4, num_warps=8, group=1)


@pytest.mark.parametrize(("warps", "bytes_wide"), [(1, 32), (2, 64), (4, 128), (8, 128)])
def test_a_tile_is_swizzled_as_wide_as_its_runs(warps: int, bytes_wide: int) -> None:
    assert replace(TILE, num_warps=warps).transposed_layout.swizzle_byte_width == bytes_wide


@pytest.mark.parametrize(("columns", "bytes_wide"), [(2, 128), (4, 128), (1, 64)])
def test_the_swizzle_of_the_source_is_as_wide_as_a_row(columns: int, bytes_wide: int) -> None:
    config = replace(TILE, columns_per_thread=columns)
    assert config.source_layout.swizzle_byte_width == bytes_wide


@pytest.mark.parametrize("wrong", [{"columns_per_thread": 3}, {"num_warps": 3}])
def test_a_thread_and_a_block_hold_powers_of_two(wrong: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        replace(TILE, **wrong)


@pytest.mark.parametrize(
    ("shape", "programs", "even"),
    [((512, 256), 4, True), ((512, 250), 4, False), ((1, 1), 1, False)],
)
def test_a_program_per_tile(shape: tuple[int, int], programs: int, even: bool) -> None:
    x = torch.empty(shape, device="meta")
    assert TILE.grid(x) == (programs,)
    assert TILE.constants(x)["EVEN"] == even
