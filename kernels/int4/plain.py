"""Int4 x bf16/fp16 product in plain Triton: for every architecture, and for the interpreter.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T

The same packed weights and the same order of summation over groups and splits as in the kernels for
sm_90 (kernels.int4.direct and staged), without their speed.
"""

import torch
import triton
import triton.language as tl

from kernels.int4.constants import PlainConstants
from kernels.int4.packing import Int4Weights
from kernels.int4.rule import UNIT_COLUMNS, UNIT_ROWS, Int4PlainConfig


@triton.jit
def _levels(words, h: tl.constexpr, C: tl.constexpr):
    """Words [row tiles, 256] of one unit -> q [rows, 64] of columns 64*h and on, int32."""
    low = (words >> (8 * h)) & 15  # b 0, i 0
    high = (words >> (8 * h + 4)) & 15  # b 1, i 0
    low_next = (words >> (8 * h + 16)) & 15  # b 0, i 1
    high_next = (words >> (8 * h + 20)) & 15  # b 1, i 1
    q = tl.join(tl.join(low, low_next), tl.join(high, high_next))  # [row tile, word, i, b]
    q = tl.reshape(q, (C.row_tiles, 2, 8, 4, 4, 2, 2))  # row tile, half, g, s, w, i, b
    q = tl.permute(q, (0, 6, 2, 3, 1, 4, 5))  # row tile, b, g | s, half, w, i
    return tl.reshape(q, (C.row_tiles * 16, 64))


@triton.jit
def _load_group(pointer, group, GROUPS, tile, TILES, C: tl.constexpr):
    """Scales or zeros of one group, fp32 [rows]; `pointer` points at those of the first tile."""
    rows = tl.arange(0, C.row_tiles)
    offsets = (rows * GROUPS + group)[:, None] * 16 + tl.arange(0, 16)[None, :]
    inside = (tile + rows < TILES)[:, None]
    packed = tl.load(pointer + offsets, mask=inside, other=0.0).to(tl.float32)
    cut = tl.permute(tl.reshape(packed, (C.row_tiles, 8, 2)), (0, 2, 1))
    return tl.reshape(cut, (C.row_tiles * 16,))


@triton.jit
def _add_piece(acc, q, places, inside, scale, zero, MULTIPLY: tl.constexpr):
    """acc += scale * ((q - zero) @ x.T); q - zero is a whole number, exact in any of the types."""
    values = tl.load(places, mask=inside, other=0.0).to(MULTIPLY)
    weights = (q.to(tl.float32) - zero[:, None]).to(MULTIPLY)
    return acc + tl.dot(weights, tl.trans(values), out_dtype=tl.float32) * scale[:, None]


@triton.jit
def _add_unit(
    acc, loaded, operands, sizes, unit, tile, tokens, MULTIPLY: tl.constexpr, C: tl.constexpr
):
    """acc + the products of a unit's words [row tiles, 256], piece by piece.

    operands: where x begins in each token, where scales and zeros begin in the first row tile.
    """
    x, scales, zeros = operands
    TOKENS, TILES, GROUPS = sizes
    PIECE: tl.constexpr = C.piece
    HEIGHT: tl.constexpr = (C.row_tiles * 16,)
    columns = tl.arange(0, PIECE)
    zero = tl.full(HEIGHT, 8.0, tl.float32)
    for h in tl.static_range(2):
        q = _levels(loaded, h, C)
        if PIECE == 64:
            pieces = (q,)
        else:
            cut = tl.permute(tl.reshape(q, (C.row_tiles * 16, 2, 32)), (0, 2, 1))
            pieces = tl.split(cut)
        for p in tl.static_range(64 // PIECE):
            column = unit * 128 + h * 64 + p * PIECE
            group = column // C.group if C.group else 0
            scale = _load_group(scales, group, GROUPS, tile, TILES, C)
            if C.has_zeros:
                zero = _load_group(zeros, group, GROUPS, tile, TILES, C)
            inside = (tokens < TOKENS)[:, None]
            places = x + (column + columns)[None, :]
            acc = _add_piece(acc, pieces[p], places, inside, scale, zero, MULTIPLY)
    return acc


@triton.jit
def _finish(acc, target, inside, partials, counters, SPLIT: tl.constexpr):
    """finish of kernels.int4.hopper in plain Triton: the last to arrive adds all in order."""
    if SPLIT == 1:
        tl.store(target, acc.to(target.dtype.element_ty), mask=inside)
    else:
        height: tl.constexpr = acc.shape[0]
        width: tl.constexpr = acc.shape[1]
        size: tl.constexpr = height * width
        block = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        lanes = tl.arange(0, height)[:, None] * width + tl.arange(0, width)[None, :]
        own = partials + tl.cast(block, tl.int64) * (SPLIT * size) + lanes
        tl.store(own + tl.program_id(2) * size, acc)
        tl.debug_barrier()
        arrived = tl.atomic_add(counters + block, 1, sem="acq_rel", scope="gpu")
        if arrived == SPLIT - 1:
            total = tl.load(own, cache_modifier=".cg")
            for other in tl.static_range(1, SPLIT):
                total += tl.load(own + other * size, cache_modifier=".cg")
            tl.store(target, total.to(target.dtype.element_ty), mask=inside)
            tl.store(counters + block, 0)


@triton.jit
def _int4_plain_kernel(
    words,
    scales,
    zeros,
    x,
    out,
    partials,
    counters,
    ROWS,
    TOKENS,
    UNITS,
    TILES,
    GROUPS,
    UNITS_PER_SPLIT,
    MULTIPLY: tl.constexpr,
    C: tl.constexpr,
):
    """Program (row block, token block, split of K)."""
    sizes = (TOKENS, TILES, GROUPS)
    tile = tl.program_id(0) * C.row_tiles
    split = tl.program_id(2)
    tiles = tile + tl.arange(0, C.row_tiles)
    tokens = tl.program_id(1) * C.token_tile + tl.arange(0, C.token_tile)
    of_tile = tl.cast(tile, tl.int64) * (GROUPS * 16)
    of_tokens = tokens.to(tl.int64)[:, None] * (UNITS * 128)
    operands = (x + of_tokens, scales + of_tile, zeros + of_tile)
    SHAPE: tl.constexpr = (C.row_tiles * 16, C.token_tile)
    acc = tl.zeros(SHAPE, dtype=tl.float32)
    last = tl.minimum((split + 1) * UNITS_PER_SPLIT, UNITS)
    for unit in range(split * UNITS_PER_SPLIT, last):
        place = (tiles.to(tl.int64) * UNITS + unit)[:, None] * 256 + tl.arange(0, 256)[None, :]
        loaded = tl.load(words + place, mask=(tiles < TILES)[:, None], other=0)
        acc = _add_unit(acc, loaded, operands, sizes, unit, tile, tokens, MULTIPLY, C)
    rows = tile * 16 + tl.arange(0, C.row_tiles * 16)
    inside = (rows < ROWS)[:, None] & (tokens < TOKENS)[None, :]
    target = out + tokens.to(tl.int64)[None, :] * ROWS + rows[:, None]
    _finish(acc, target, inside, partials, counters, C.split)


def launch(
    config: Int4PlainConfig,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    partials: torch.Tensor,
    counters: torch.Tensor,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    units = weights.k // UNIT_COLUMNS
    zeros = weights.zeros
    _int4_plain_kernel[config.grid(weights, x.shape[0])](
        weights.packed.view(torch.int32),
        weights.scales,
        weights.scales if zeros is None else zeros,
        x,
        out,
        partials,
        counters,
        weights.rows,
        x.shape[0],
        units,
        weights.padded_rows // UNIT_ROWS,
        weights.k // weights.group,
        triton.cdiv(units, config.split),
        # The interpreter holds bf16 as bits and multiplies those; fp32 is exact there.
        MULTIPLY=_TYPES[x.dtype] if x.is_cuda else tl.float32,
        C=PlainConstants.of(config, weights),
        num_warps=config.num_warps,
    )


_TYPES = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
