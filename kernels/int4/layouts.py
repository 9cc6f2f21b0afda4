"""Which thread holds which element, for kernels.int4.direct and kernels.int4.staged.

Names of the axes as in kernels.int4.packing. A basis lists, bit by bit, the coordinate that a bit
of the register number, lane or warp adds. Every layout is chosen so that turning packed words into
matrix operands renames registers and moves nothing (the kernels assert that).
"""

from typing import Any, Final

import triton
from triton.experimental.gluon import language as gl

Layout = Any  # gl.DistributedLinearLayout or gl.BlockedLayout; Triton has no types
_LANES: Final = 32


@triton.constexpr_function
def _bits(size: int) -> int:
    return size.bit_length() - 1


@triton.constexpr_function
def direct_sums(WARPS: int) -> gl.NVMMADistributedLayout:
    """Sums [warp, 16 rows, token] of mma.sync: every warp has a product of its own."""
    return gl.NVMMADistributedLayout([2, 0], [WARPS, 1, 1], [1, 16, 8])


@triton.constexpr_function
def direct_words(WARPS: int) -> Layout:
    """Bytes [warp, 1024] of a unit per warp: a lane reads 16 bytes, twice."""
    return gl.DistributedLinearLayout(
        [[0, 1], [0, 2], [0, 4], [0, 8], [0, 512]],
        [[0, 16 << i] for i in range(5)],
        [[1 << i, 0] for i in range(_bits(WARPS))],
        [],
        [WARPS, 1024],
    )


@triton.constexpr_function
def direct_activations(WARPS: int, TOKENS: int) -> Layout:
    """Activations [token, warp, 64]: lane 4*g + s reads columns 16*s .. 16*s + 15 of token g."""
    more = [[8 << i, 0, 0] for i in range(_bits(TOKENS) - 3)]
    return gl.DistributedLinearLayout(
        [[0, 0, 1], [0, 0, 2], [0, 0, 4], [0, 0, 8], *more],
        [[0, 0, 16], [0, 0, 32], [1, 0, 0], [2, 0, 0], [4, 0, 0]],
        [[0, 1 << i, 0] for i in range(_bits(WARPS))],
        [],
        [TOKENS, WARPS, 64],
    )


@triton.constexpr_function
def direct_scales(WARPS: int) -> Layout:
    """Scales [warp, 16] in packed order: lane 4*g + s reads those of rows g and g + 8."""
    return gl.DistributedLinearLayout(
        [[0, 1]],
        [[0, 0], [0, 0], [0, 2], [0, 4], [0, 8]],
        [[1 << i, 0] for i in range(_bits(WARPS))],
        [],
        [WARPS, 16],
    )


@triton.constexpr_function
def direct_partials(WARPS: int, TOKENS: int) -> Layout:
    """Partial sums [warp, 16, token] of a row tile: a thread holds all warps of its elements."""
    wide = 1
    while wide < 4 and _LANES * WARPS * wide * 2 <= 16 * TOKENS:
        wide *= 2
    across = TOKENS // wide
    return gl.BlockedLayout(
        [WARPS, 1, wide], [1, _LANES // across, across], [1, WARPS, 1], [2, 1, 0]
    )


@triton.constexpr_function
def direct_output(WARPS: int, TOKENS: int, TILES: int) -> Layout:
    """Sums [16 * TILES rows, token], lanes along rows, so that stores are contiguous."""
    rows = 16 * TILES
    each = min(8, max(1, rows * TOKENS // (_LANES * WARPS)))
    lanes = min(_LANES, rows // each)
    warps = min(WARPS, rows // each // lanes)
    beside = _LANES // lanes
    warp_bases = [[each * lanes << i, 0] for i in range(_bits(warps))]
    more = [beside << i for i in range(_bits(WARPS // warps))]
    warp_bases += [[0, token if token < TOKENS else 0] for token in more]
    registers = [[1 << i, 0] for i in range(_bits(each))]
    token = beside * max(1, WARPS // warps)
    while token < TOKENS:
        registers.append([0, token])
        token *= 2
    lane_bases = [[each << i, 0] for i in range(_bits(lanes))]
    lane_bases += [[0, 1 << i] for i in range(_bits(beside))]
    return gl.DistributedLinearLayout(registers, lane_bases, warp_bases, [], [rows, TOKENS])


@triton.constexpr_function
def staged_sums(WARPS: int, TOKENS: int, GROUP: bool) -> gl.NVMMADistributedLayout:
    """Sums [rows, token] of mma.sync, or with GROUP of wgmma."""
    if GROUP:
        return gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, TOKENS, 16])
    return gl.NVMMADistributedLayout([2, 0], [WARPS, 1], [16, 8])


@triton.constexpr_function
def staged_words(ROWS: int, WARPS: int) -> Layout:
    """Bytes [ROWS / 2, 128] of a unit per 16 rows: lane 4*g + w reads its word w."""
    more = [[8 * WARPS << i, 0] for i in range(_bits(ROWS // 16 // WARPS))]
    return gl.DistributedLinearLayout(
        [[0, 1], [0, 2], [0, 16], [0, 32], [4, 0], *more],
        [[0, 4], [0, 8], [0, 64], [1, 0], [2, 0]],
        [[8 << i, 0] for i in range(_bits(WARPS))],
        [],
        [ROWS // 2, 128],
    )


@triton.constexpr_function
def staged_scales(ROWS: int, WARPS: int) -> Layout:
    """Scales [ROWS] in packed order: lane 4*g + w reads those of rows g and g + 8 of its tiles."""
    more = [[16 * WARPS << i] for i in range(_bits(ROWS // 16 // WARPS))]
    return gl.DistributedLinearLayout(
        [[1], *more],
        [[0], [0], [2], [4], [8]],
        [[16 << i] for i in range(_bits(WARPS))],
        [],
        [ROWS],
    )


@triton.constexpr_function
def staged_scale_rows(ROWS: int, WARPS: int) -> Layout:
    """Scales [group, row tile, 16] on their way to shared memory: 16 bytes per thread."""
    tiles = min(ROWS // 16, WARPS)
    return gl.BlockedLayout([1, 1, 8], [16, 1, 2], [WARPS // tiles, tiles, 1], [2, 0, 1])


@triton.constexpr_function
def power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count` and one."""
    return 1 << max(0, count - 1).bit_length()
