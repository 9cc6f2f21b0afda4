"""What the table chooses, and that everything it chooses fits."""

from dataclasses import replace

import pytest
import torch

from kernels import int4_plans as plans
from kernels.configs import SHARED_MEMORY_LIMIT
from kernels.int4_configs import (
    INT4_PLAIN,
    INT4_TABLE,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4StagedConfig,
)
from kernels.int4_packing import Int4Weights, padded

DIRECT = Int4DirectConfig(row_tiles=4, split=2, num_warps=8, depth=2, token_tile=8)
STAGED = Int4StagedConfig(
    rows=128, split=2, num_warps=4, stages=4, unroll=2, token_tile=16, matrix="sync"
)
LAYERS = [(3584, 8192), (28672, 8192), (8192, 28672), (4096, 14336), (8192, 3584), (5120, 25600)]


def sized(rows: int, k: int, group: int = 128, zeros: bool = False) -> Int4Weights:
    tiles = padded(rows) // 16
    scales = torch.empty(tiles, k // group, 16, dtype=torch.bfloat16, device="meta")
    packed = torch.empty(tiles, k // 128, 1024, dtype=torch.uint8, device="meta")
    return Int4Weights(
        packed=packed, scales=scales, zeros=scales if zeros else None, rows=rows, k=k, group=group
    )


@pytest.mark.parametrize("tokens", [1, 8, 9, 16, 17, 32, 33, 64, 65, 256])
@pytest.mark.parametrize(("rows", "k"), LAYERS)
@pytest.mark.parametrize(("group", "zeros"), [(128, False), (64, False), (32, True)])
def test_layers_of_language_models_never_fall_back_to_plain_triton(
    rows: int, k: int, group: int, zeros: bool, tokens: int
) -> None:
    w = sized(rows, k, group, zeros)
    config = plans.choose(w, tokens)
    assert not isinstance(config, Int4PlainConfig)
    assert plans.fits(config, w)


def test_odd_sizes_fall_back_to_plain_triton() -> None:
    assert isinstance(plans.choose(sized(64, 128 * 257, 32, True), 300), Int4PlainConfig)


def test_few_tokens_go_the_direct_way_and_many_through_the_ring() -> None:
    w = sized(3584, 8192)
    assert isinstance(plans.choose(w, 1), Int4DirectConfig)
    assert isinstance(plans.choose(w, 64), Int4StagedConfig)


@pytest.mark.parametrize(("tokens", "tile"), [(1, 16), (16, 16), (17, 32), (64, 64), (1000, 64)])
def test_the_plain_kernel_takes_the_smallest_tile_that_suffices(tokens: int, tile: int) -> None:
    assert plans.plain(tokens).token_tile == tile


def test_what_does_not_divide_does_not_fit() -> None:
    w = sized(1024, 2048)
    assert plans.fits(DIRECT, w)
    assert not plans.fits(replace(DIRECT, row_tiles=7), w)
    assert not plans.fits(replace(DIRECT, split=3), w)
    assert plans.fits(STAGED, w)
    assert not plans.fits(replace(STAGED, split=16), w)
    assert not plans.fits(STAGED, sized(64, 2048))
    assert plans.fits(INT4_PLAIN[0], sized(3, 128, 32))


def test_what_has_no_room_does_not_fit() -> None:
    assert not plans.fits(replace(DIRECT, split=1, num_warps=1), sized(1024, 2048))
    large = replace(STAGED, token_tile=128, unroll=4, stages=2)
    needed = plans.shared_bytes(large, 8192, 32, True)
    assert needed > SHARED_MEMORY_LIMIT[90]
    assert not plans.fits(large, sized(1024, 8192, 32, True))


def test_blocks_and_workspace() -> None:
    w = sized(1000, 2048)
    assert plans.grid(DIRECT, w, 9) == (16, 2, 2)
    assert plans.needs(DIRECT, w, 9) == (16 * 2 * 2 * 64 * 8, 32)
    assert plans.needs(replace(DIRECT, row_tiles=7), sized(448, 2048), 8)[0] == 4 * 2 * 128 * 8
    assert plans.grid(STAGED, w, 9) == (8, 1, 2)
    assert plans.needs(STAGED, w, 9) == (8 * 2 * 128 * 16, 8)
    assert plans.needs(INT4_PLAIN[0], w, 9) == (0, 0)


@pytest.mark.parametrize(
    ("k", "group", "groups"), [(512, 512, 0), (512, 128, 1), (512, 64, 2), (512, 32, 4)]
)
def test_groups_of_a_unit(k: int, group: int, groups: int) -> None:
    assert plans.groups_per_unit(k, group) == groups


def test_how_zero_points_are_removed() -> None:
    def way(group: int, dtype: torch.dtype, zeros: bool) -> int:
        return plans.direct_constants(DIRECT, 2048, group, dtype, zeros)["REMOVE"]

    assert way(128, torch.bfloat16, False) == plans.CHAIN
    assert way(32, torch.bfloat16, False) == plans.CENTRE
    assert way(128, torch.float16, False) == plans.CENTRE
    assert way(128, torch.bfloat16, True) == plans.ZEROS


def test_the_ring_is_no_longer_than_the_work() -> None:
    assert plans.staged_constants(STAGED, 512, 128, False)["STAGES"] == 1


def test_the_table_ends_with_any_number_of_tokens_and_any_size() -> None:
    assert INT4_TABLE[-1][:2] == (1 << 30, 0)
