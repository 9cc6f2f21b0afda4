"""Which weights a configuration fits, and what it needs."""

from dataclasses import replace

import pytest
import torch

from kernels.common.architecture import SHARED_MEMORY_LIMIT
from kernels.int4 import constants
from kernels.int4.constants import DirectConstants, SpecialisedConstants, StagedConstants
from kernels.int4.rule import Int4Config, Int4PlainConfig, Int4SpecialisedConfig
from tests.kernels.int4.int4_cases import (
    direct_config,
    staged_config,
    weights_without_memory,
)

DIRECT = direct_config(4, 2, 8, 2, 8)
STAGED = staged_config(128, 2, (4, 2), 16, "sync")
PLAIN = Int4PlainConfig(row_tiles=4, token_tile=16, split=1, num_warps=4)


# (rows, configuration): an H200 ran each on weights [rows, 1024] of every kind, except the direct
# ones of sixteen tokens a block on groups of 32.
RAN: list[tuple[int, Int4Config]] = [
    (194, direct_config(1, 1, 8, 1, 8)),
    (448, direct_config(7, 2, 4, 4, 16)),
    (256, direct_config(4, 2, 2, 2, 16)),
    (256, staged_config(64, 2, (3, 1), 16, "sync")),
    (256, staged_config(128, 1, (2, 2), 32, "group")),
    (256, staged_config(128, 1, (2, 2), 64, "overlapped", warps=8)),
    (256, staged_config(128, 2, (2, 1), 64, "sync", warps=8)),
]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("group", [32, 64, 128, 1024])
def test_only_direct_blocks_of_sixteen_tokens_refuse_groups_of_32(group: int, zeros: bool) -> None:
    refused = [
        c for rows, c in RAN if not c.fits(weights_without_memory(rows, 1024, group, zeros=zeros))
    ]
    assert refused == ([RAN[1][1], RAN[2][1]] if group == 32 else [])


def test_what_does_not_divide_does_not_fit() -> None:
    w = weights_without_memory(1024, 2048)
    assert DIRECT.fits(w)
    assert not replace(DIRECT, row_tiles=7).fits(w)
    assert not replace(DIRECT, split=3).fits(w)
    assert STAGED.fits(w)
    assert not replace(STAGED, split=16).fits(w)
    assert not STAGED.fits(weights_without_memory(64, 2048))
    assert PLAIN.fits(weights_without_memory(3, 128, 32))


def test_what_has_no_room_does_not_fit() -> None:
    assert not replace(DIRECT, split=1, num_warps=1).fits(weights_without_memory(1024, 2048))
    large = replace(STAGED, token_tile=128, unroll=4, stages=2)
    w = weights_without_memory(1024, 8192, 32, zeros=True)
    assert large.shared_bytes(w) > SHARED_MEMORY_LIMIT[90]
    assert not large.fits(w)


def test_blocks_and_what_their_parts_of_k_meet_by() -> None:
    w = weights_without_memory(1000, 2048)
    assert DIRECT.grid(w, 9) == (16, 2, 2)
    assert DIRECT.exchange_sizes(w, 9) == (16 * 2 * 2 * 64 * 8, 32)
    assert (
        replace(DIRECT, row_tiles=7).exchange_sizes(weights_without_memory(448, 2048), 8)[0]
        == 4 * 2 * 128 * 8
    )
    assert STAGED.grid(w, 9) == (8, 1, 2)
    assert STAGED.exchange_sizes(w, 9) == (8 * 2 * 128 * 16, 8)
    assert PLAIN.exchange_sizes(w, 9) == (0, 0)


@pytest.mark.parametrize(
    ("k", "group", "groups"), [(512, 512, 0), (512, 128, 1), (512, 64, 2), (512, 32, 4)]
)
def test_groups_of_a_unit(k: int, group: int, groups: int) -> None:
    assert constants.groups_per_unit(weights_without_memory(64, k, group)) == groups


def test_how_zero_points_are_removed() -> None:
    def removal(group: int, dtype: torch.dtype, zeros: bool) -> int:
        w = weights_without_memory(64, 2048, group, zeros=zeros)
        return DirectConstants.of(DIRECT, w, dtype).remove

    assert removal(128, torch.bfloat16, False) == constants.CHAIN
    assert removal(32, torch.bfloat16, False) == constants.CENTRE
    assert removal(128, torch.float16, False) == constants.CENTRE
    assert removal(128, torch.bfloat16, True) == constants.ZEROS


def test_the_ring_is_no_longer_than_the_work() -> None:
    assert StagedConstants.of(STAGED, weights_without_memory(128, 512)).stages == 1


SPECIALISED = Int4SpecialisedConfig(part_rows=64, split=1, slots=5, token_tile=128)


def test_every_part_of_k_of_a_specialised_product_has_a_unit() -> None:
    w = weights_without_memory(1024, 1280)  # ten units
    fitting = [split for split in range(1, 9) if replace(SPECIALISED, split=split).fits(w)]
    assert fitting == [1, 2, 3, 4, 5]  # six parts of two units would leave the last without one
    assert SpecialisedConstants.of(replace(SPECIALISED, split=4), w).units == 3


def test_parts_of_k_of_a_specialised_product_meet_by_sums_and_a_counter_a_tile() -> None:
    w = weights_without_memory(1000, 1280)  # eight blocks of 128 rows
    assert SPECIALISED.exchange_sizes(w, 300) == (0, 0)
    tiles = 8 * 3 * 2  # of rows, of tokens, of the two warpgroups of a block
    assert replace(SPECIALISED, split=5).exchange_sizes(w, 300) == (tiles * 5 * 64 * 128, tiles)


def test_parts_of_k_of_a_tile_have_neighbouring_numbers() -> None:
    # a GPU starts blocks in the order of their numbers, so they start together
    w = weights_without_memory(1000, 1280)
    assert replace(SPECIALISED, split=2).grid(w, 300) == (2, 8, 3)


@pytest.mark.parametrize(
    ("part_rows", "tokens", "split", "strips"),
    [
        (128, 128, 1, 4),
        (64, 64, 1, 1),
        (128, 128, 2, 4),
        (64, 64, 4, 4),
        (64, 64, 5, 8),
        (64, 32, 5, 4),
    ],
)
def test_sums_are_stored_in_strips_that_registers_hold(
    part_rows: int, tokens: int, split: int, strips: int
) -> None:
    config = replace(SPECIALISED, part_rows=part_rows, token_tile=tokens, split=split)
    assert SpecialisedConstants.of(config, weights_without_memory(1024, 8192)).strips == strips
    assert tokens // strips >= 8  # wgmma has sums of eight tokens at least


def test_a_specialised_product_has_eight_parts_of_k_at_most() -> None:
    with pytest.raises(AssertionError):
        replace(SPECIALISED, split=9)


def test_the_ring_of_a_specialised_product_fits_in_shared_memory() -> None:
    w = weights_without_memory(1024, 1280)
    assert SPECIALISED.fits(w)
    needed = SPECIALISED.shared_bytes(w)
    assert 0.85 * SHARED_MEMORY_LIMIT[90] < needed <= SHARED_MEMORY_LIMIT[90]
    assert not replace(SPECIALISED, slots=6).fits(w)


def test_a_specialised_configuration_says_why_it_does_not_fit_and_what_would() -> None:
    w = weights_without_memory(1024, 1280)  # ten units
    assert SPECIALISED.misfit(w) is None
    misfits = {
        "without any of its 10 units of 128 columns, wanted another split, as 5": (
            replace(SPECIALISED, split=6).misfit(w)
        ),
        "at most: fewer slots, part_rows or tokens": replace(SPECIALISED, slots=6).misfit(w),
        "wanted weights in groups of 64 columns or more": (
            SPECIALISED.misfit(weights_without_memory(1024, 1280, 32))
        ),
    }
    for end, misfit in misfits.items():
        assert misfit is not None
        assert misfit.startswith("got Int4SpecialisedConfig(")
        assert misfit.endswith(end)
