"""How a product is cut into blocks: whether a configuration fits, which one, what it needs.

No kernel is launched here and none imported, so that a table of configurations can be checked on
any machine.
"""

import math
from dataclasses import replace
from typing import Final

import torch
import triton

from kernels.common.architecture import SHARED_MEMORY_LIMIT
from kernels.int4.configs import (
    INT4_PLAIN,
    INT4_TABLE,
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4Row,
    Int4StagedConfig,
)
from kernels.int4.costs import COSTS, HALVING_S
from kernels.int4.packing import UNIT_COLUMNS, UNIT_ROWS, Int4Weights

# how kernels.int4.direct removes the zero point
CHAIN: Final = 0
CENTRE: Final = 1
ZEROS: Final = 2
MATRIX: Final = {"sync": 0, "group": 1, "overlapped": 2}
# units of activations that a warp of kernels.int4.direct keeps in registers without spilling, per
# token tile (the compile tests walk them)
MOST_UNITS: Final = {8: 8, 16: 2}
_UNITS: Final = 132  # multiprocessors of an H200
# of a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, technical
# specifications per compute capability)
_SHARED_MEMORY: Final = 228 * 1024  # bytes
_WARPS: Final = 64
_BETWEEN_BUFFERS: Final = 1024  # bytes that aligning the buffers can cost


def choose(
    weights: Int4Weights, tokens: int, *, chained: bool = False, units: int = _UNITS
) -> Int4Config:
    """How a sm_90 with so many multiprocessors runs this product, so launched.

    From the first row of the table that has something which fits: the first configuration of
    int4_direct, or the one of int4_staged with the least `estimate`.
    """
    for row in INT4_TABLE[chained]:
        if tokens <= row.most_tokens and is_for(row, weights):
            for configs in (row.configs, row.otherwise):
                found = [config for config in configs if fits(config, weights)]
                if found:
                    return _fastest(found, weights, tokens, units)
    return plain(tokens)


def _fastest(found: list[Int4Config], weights: Int4Weights, tokens: int, units: int) -> Int4Config:
    """The first of the direct ones, which come in the order of preference; else by estimate."""
    staged = [config for config in found if isinstance(config, Int4StagedConfig)]
    if len(staged) < len(found):
        return found[0]
    return min(staged, key=lambda config: estimate(config, weights, tokens, units))


def estimate(
    config: Int4StagedConfig, weights: Int4Weights, tokens: int, units: int = _UNITS
) -> float:
    """Seconds that a product takes, so far as they depend on the configuration.

        turns * (start + columns of a block * time of a column) + merging the splits of K

    Blocks run in turns, as many at once as fit on the multiprocessors. Constants: see
    kernels.int4.costs. Raises KeyError for a configuration without any.
    """
    across, down, split = grid(config, weights, tokens)
    turns = triton.cdiv(triton.cdiv(across * down * split, units), _resident(config, weights))
    cost = COSTS[replace(config, split=1)]
    of_a_block = cost.start_s + cost.unit_s * weights.k / UNIT_COLUMNS / split
    return turns * of_a_block + HALVING_S * math.log2(split)


def _resident(config: Int4StagedConfig, weights: Int4Weights) -> int:
    """Blocks that a multiprocessor holds at once, by shared memory and threads."""
    # what aligning buffers can cost is as much as the 1 KiB that CUDA reserves per block
    block = shared_bytes(config, weights.k, weights.group, weights.zeros is not None)
    return min(_SHARED_MEMORY // block, _WARPS // config.num_warps)


def is_for(row: Int4Row, weights: Int4Weights) -> bool:
    """Whether a row of the table is about such weights, at some number of tokens."""
    size = weights.rows * weights.k
    return size <= row.most_weights and weights.group >= row.least_group


def plain(tokens: int) -> Int4PlainConfig:
    """The configuration of the kernel in plain Triton: the smallest token tile that suffices."""
    config = INT4_PLAIN[-1]
    for config in INT4_PLAIN:
        if tokens <= config.token_tile:
            break
    return config


def fits(config: Int4Config, weights: Int4Weights) -> bool:
    """Whether rows and K divide evenly among blocks and warps, which have room for their part.

    The kernel in plain Triton fits any weights.
    """
    units = weights.k // UNIT_COLUMNS
    if isinstance(config, Int4PlainConfig):
        return True
    if isinstance(config, Int4DirectConfig):
        tiles = weights.padded_rows // UNIT_ROWS
        warps = config.split * config.num_warps
        if weights.group == 32 and config.token_tile > 8:  # masks, and no registers for them
            return False
        most = MOST_UNITS[config.token_tile] * warps
        return units % warps == 0 and units <= most and tiles % config.row_tiles == 0
    if units % (config.split * config.unroll) or weights.padded_rows % config.rows:
        return False
    needed = shared_bytes(config, weights.k, weights.group, weights.zeros is not None)
    return needed <= SHARED_MEMORY_LIMIT[90]


def grid(config: Int4Config, weights: Int4Weights, tokens: int) -> tuple[int, int, int]:
    """Blocks: (rows, tokens, splits of K)."""
    rows = config.rows if isinstance(config, Int4StagedConfig) else UNIT_ROWS * config.row_tiles
    down = triton.cdiv(tokens, config.token_tile)
    return triton.cdiv(weights.padded_rows, rows), down, config.split


def needs(config: Int4Config, weights: Int4Weights, tokens: int) -> tuple[int, int]:
    """(fp32 partial sums, counters) a product needs in its workspace."""
    across, down, split = grid(config, weights, tokens)
    if split == 1:
        return 0, 0
    if isinstance(config, Int4StagedConfig):
        rows = config.rows
    else:
        rows = UNIT_ROWS * triton.next_power_of_2(config.row_tiles)
    return across * down * split * rows * config.token_tile, across * down


def groups_per_unit(k: int, group: int) -> int:
    """Groups of columns in a unit of 128; 0 for one scale per row."""
    return 0 if group == k else UNIT_COLUMNS // group


def direct_constants(
    config: Int4DirectConfig, k: int, group: int, dtype: torch.dtype, zeros: bool
) -> dict[str, int]:
    """What kernels.int4.direct is compiled for."""
    per = groups_per_unit(k, group)
    # with groups of 32 a correction costs as much as the subtractions it saves
    symmetric = CHAIN if dtype == torch.bfloat16 and per != 4 else CENTRE
    return {
        "K": k,
        "PER": per,
        "REMOVE": ZEROS if zeros else symmetric,
        "R": config.row_tiles,
        "RP": triton.next_power_of_2(config.row_tiles),
        "NT": config.token_tile,
        "SPLIT": config.split,
        "U": k // UNIT_COLUMNS // config.split // config.num_warps,
        "DEPTH": min(config.depth, config.row_tiles),
    }


def staged_constants(config: Int4StagedConfig, k: int, group: int, zeros: bool) -> dict[str, int]:
    """What kernels.int4.staged is compiled for."""
    units = k // UNIT_COLUMNS // config.split
    return {
        "UNITS": units,
        "PER": groups_per_unit(k, group),
        "HAS_ZEROS": int(zeros),
        "BM": config.rows,
        "NT": config.token_tile,
        "SPLIT": config.split,
        "STAGES": min(config.stages, units // config.unroll),
        "U": config.unroll,
        "MATRIX": MATRIX[config.matrix],
    }


def shared_bytes(config: Int4StagedConfig, k: int, group: int, zeros: bool) -> int:
    """Most shared memory of a block of kernels.int4.staged: ring, scales, zeros, barriers."""
    compiled_for = staged_constants(config, k, group, zeros)
    slot = config.unroll * (config.rows * 64 + config.token_tile * 256)
    groups = triton.next_power_of_2(max(1, compiled_for["UNITS"] * compiled_for["PER"]))
    scales = 2 * groups * config.rows * (2 if zeros else 1)
    return compiled_for["STAGES"] * (slot + 8) + scales + _BETWEEN_BUFFERS
