"""Which weights a configuration fits, and what it needs."""

import re
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
    w, tall = weights_without_memory(1000, 2048), weights_without_memory(448, 2048)
    assert DIRECT.grid(w, 9) == (16, 2, 2)
    assert DIRECT.exchange_sizes(w, 9) == (16 * 2 * 2 * 64 * 8, 32)
    assert replace(DIRECT, row_tiles=7).exchange_sizes(tall, 8)[0] == 4 * 2 * 128 * 8
    assert STAGED.grid(w, 9) == (8, 1, 2)
    assert STAGED.exchange_sizes(w, 9) == (8 * 2 * 128 * 16, 8)
    assert PLAIN.exchange_sizes(w, 9) == (0, 0)
    ten_units = weights_without_memory(1000, 1280)
    assert SPECIALISED.exchange_sizes(ten_units, 300) == (0, 0)
    tiles = 8 * 3 * 2  # of rows, of tokens, of the two warpgroups of a block
    five = replace(SPECIALISED, split=5).exchange_sizes(ten_units, 300)
    assert five == (tiles * 5 * 64 * 128, tiles)
    # a GPU starts blocks in the order of their numbers: parts of a tile start together
    assert replace(SPECIALISED, split=2).grid(ten_units, 300) == (2, 8, 3)


def test_what_a_kernel_is_compiled_for() -> None:
    def removal(group: int, dtype: torch.dtype, zeros: bool) -> int:
        w = weights_without_memory(64, 2048, group, zeros=zeros)
        return DirectConstants.of(DIRECT, w, dtype).remove

    assert removal(128, torch.bfloat16, False) == constants.CHAIN
    assert removal(32, torch.bfloat16, False) == constants.CENTRE
    assert removal(128, torch.float16, False) == constants.CENTRE
    assert removal(128, torch.bfloat16, True) == constants.ZEROS
    assert StagedConstants.of(STAGED, weights_without_memory(128, 512)).stages == 1
    groups = {
        group: constants.groups_per_unit(weights_without_memory(64, 512, group))
        for group in (512, 128, 64, 32)
    }
    assert groups == {512: 0, 128: 1, 64: 2, 32: 4}


SPECIALISED = Int4SpecialisedConfig(part_rows=64, split=1, slots=5, token_tile=128)


def test_every_part_of_k_of_a_specialised_product_has_a_unit() -> None:
    w = weights_without_memory(1024, 1280)  # ten units
    fitting = [split for split in range(1, 9) if replace(SPECIALISED, split=split).fits(w)]
    assert fitting == [1, 2, 3, 4, 5]  # six parts of two units would leave the last without one
    assert SpecialisedConstants.of(replace(SPECIALISED, split=4), w).units == 3
    with pytest.raises(AssertionError):
        replace(SPECIALISED, split=9)


@pytest.mark.parametrize(
    ("part_rows", "tokens", "split", "strips"),
    [(128, 128, 1, 4), (64, 64, 1, 1), (64, 64, 4, 4), (64, 64, 5, 8), (64, 32, 5, 4)],
)
def test_sums_are_stored_in_strips_that_registers_hold(
    part_rows: int, tokens: int, split: int, strips: int
) -> None:
    config = replace(SPECIALISED, part_rows=part_rows, token_tile=tokens, split=split)
    assert SpecialisedConstants.of(config, weights_without_memory(1024, 8192)).strips == strips
    assert tokens // strips >= 8  # wgmma has sums of eight tokens at least


def test_a_specialised_configuration_says_why_it_does_not_fit_and_what_would() -> None:
    w = weights_without_memory(1024, 1280)  # ten units
    assert SPECIALISED.misfit(w) is None
    assert 0.85 < SPECIALISED.shared_bytes(w) / SHARED_MEMORY_LIMIT[90] <= 1
    for misfit, said in (
        (replace(SPECIALISED, split=6).misfit(w), "without .* 128 columns, wanted another .* 5"),
        (replace(SPECIALISED, slots=6).misfit(w), "at most: fewer slots, part_rows or tokens"),
        (SPECIALISED.misfit(weights_without_memory(1024, 1280, 32)), "in groups of 64 .* or more"),
    ):
        assert misfit is not None
        assert re.match(rf"got Int4SpecialisedConfig\(.*{said}$", misfit), misfit
