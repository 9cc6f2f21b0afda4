"""Int4 x bf16/fp16 product in plain Triton: for every architecture, and for the interpreter.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T

The same packed weights, the same order of summation over groups and splits as in the kernels for
sm_90 (int4_direct, int4_staged), without their speed.
"""

import torch
import triton
import triton.language as tl

from kernels.int4 import plans
from kernels.int4.configs import Int4PlainConfig
from kernels.int4.packing import UNIT_COLUMNS, Int4Weights
from kernels.int4.workspace import Workspace


@triton.jit
def _levels(words, h: tl.constexpr, ROW_TILES: tl.constexpr):
    """Words [row tiles, 256] of one unit -> q [rows, 64] of columns 64*h and on, int32."""
    low = (words >> (8 * h)) & 15  # b 0, i 0
    high = (words >> (8 * h + 4)) & 15  # b 1, i 0
    low_next = (words >> (8 * h + 16)) & 15  # b 0, i 1
    high_next = (words >> (8 * h + 20)) & 15  # b 1, i 1
    q = tl.join(tl.join(low, low_next), tl.join(high, high_next))  # [row tile, word, i, b]
    q = tl.reshape(q, (ROW_TILES, 2, 8, 4, 4, 2, 2))  # row tile, half, g, s, w, i, b
    q = tl.permute(q, (0, 6, 2, 3, 1, 4, 5))  # row tile, b, g | s, half, w, i
    return tl.reshape(q, (ROW_TILES * 16, 64))


@triton.jit
def _group_values(pointer, group, GROUPS, tile, TILES, ROW_TILES: tl.constexpr):
    """Scales or zeros of one group, fp32 [rows]."""
    rows = tile + tl.arange(0, ROW_TILES)
    offsets = (rows * GROUPS + group)[:, None] * 16 + tl.arange(0, 16)[None, :]
    packed = tl.load(pointer + offsets, mask=(rows < TILES)[:, None], other=0.0).to(tl.float32)
    cut = tl.permute(tl.reshape(packed, (ROW_TILES, 8, 2)), (0, 2, 1))
    return tl.reshape(cut, (ROW_TILES * 16,))


@triton.jit
def _piece(acc, q, x, offsets, inside, scale, zero, MULTIPLY: tl.constexpr):
    """acc += scale * ((q - zero) @ x.T); q - zero is a whole number, exact in any of the types."""
    values = tl.load(x + offsets, mask=inside, other=0.0).to(MULTIPLY)
    weights = (q.to(tl.float32) - zero[:, None]).to(MULTIPLY)
    return acc + tl.dot(weights, tl.trans(values), out_dtype=tl.float32) * scale[:, None]


@triton.jit
def _unit(
    acc, loaded, x, scales, zeros, unit, tile, tokens, TOKENS, UNITS, TILES, GROUPS,
    PIECE: tl.constexpr, GROUP: tl.constexpr, HAS_ZEROS: tl.constexpr, ROW_TILES: tl.constexpr,
    MULTIPLY: tl.constexpr,
):  # fmt: skip
    """acc + the products of a unit's words [row tiles, 256], piece by piece."""
    columns = tl.arange(0, PIECE)
    zero = tl.full((ROW_TILES * 16,), 8.0, tl.float32)
    for h in tl.static_range(2):
        q = _levels(loaded, h, ROW_TILES)
        if PIECE == 64:
            pieces = (q,)
        else:
            cut = tl.permute(tl.reshape(q, (ROW_TILES * 16, 2, 32)), (0, 2, 1))
            pieces = tl.split(cut)
        for p in tl.static_range(64 // PIECE):
            column = unit * 128 + h * 64 + p * PIECE
            group = column // GROUP if GROUP else 0
            scale = _group_values(scales, group, GROUPS, tile, TILES, ROW_TILES)
            if HAS_ZEROS:
                zero = _group_values(zeros, group, GROUPS, tile, TILES, ROW_TILES)
            offsets = tokens[:, None] * (UNITS * 128) + (column + columns)[None, :]
            inside = (tokens < TOKENS)[:, None]
            acc = _piece(acc, pieces[p], x, offsets, inside, scale, zero, MULTIPLY)
    return acc


@triton.jit
def _finish(
    acc, target, inside, partials, counters, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    SPLIT: tl.constexpr,
):  # fmt: skip
    """finish of kernels.int4.finish in plain Triton: the last to arrive adds all in order."""
    if SPLIT == 1:
        tl.store(target, acc.to(target.dtype.element_ty), mask=inside)
    else:
        size: tl.constexpr = HEIGHT * WIDTH
        block = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        lanes = tl.arange(0, HEIGHT)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
        own = partials + block * (SPLIT * size) + lanes
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
    words, scales, zeros, x, out, partials, counters, ROWS, TOKENS, UNITS, TILES, GROUPS,
    UNITS_PER_SPLIT,
    SPLIT: tl.constexpr, PIECE: tl.constexpr, GROUP: tl.constexpr, HAS_ZEROS: tl.constexpr,
    ROW_TILES: tl.constexpr, TOKEN_TILE: tl.constexpr, MULTIPLY: tl.constexpr,
):  # fmt: skip
    """Program (row block, token block, split of K).

    PIECE: columns multiplied at once (32 or 64); GROUP: columns per scale, 0 for one per row.
    """
    tile = tl.program_id(0) * ROW_TILES
    split = tl.program_id(2)
    tiles = tile + tl.arange(0, ROW_TILES)
    tokens = tl.program_id(1) * TOKEN_TILE + tl.arange(0, TOKEN_TILE)
    acc = tl.zeros((ROW_TILES * 16, TOKEN_TILE), dtype=tl.float32)
    last = tl.minimum((split + 1) * UNITS_PER_SPLIT, UNITS)
    for unit in range(split * UNITS_PER_SPLIT, last):
        place = (tiles * UNITS + unit)[:, None] * 256 + tl.arange(0, 256)[None, :]
        loaded = tl.load(words + place, mask=(tiles < TILES)[:, None], other=0)
        acc = _unit(
            acc, loaded, x, scales, zeros, unit, tile, tokens, TOKENS, UNITS, TILES, GROUPS,
            PIECE, GROUP, HAS_ZEROS, ROW_TILES, MULTIPLY,
        )  # fmt: skip
    rows = tile * 16 + tl.arange(0, ROW_TILES * 16)
    inside = (rows < ROWS)[:, None] & (tokens < TOKENS)[None, :]
    target = out + tokens[None, :] * ROWS + rows[:, None]
    _finish(acc, target, inside, partials, counters, ROW_TILES * 16, TOKEN_TILE, SPLIT)


def launch(
    config: Int4PlainConfig,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    workspace: Workspace,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    units = weights.k // UNIT_COLUMNS
    per_row = weights.group == weights.k
    # The interpreter holds bf16 as bits and multiplies those; fp32 is exact there.
    multiply = tl.float32 if not x.is_cuda else _TYPES[x.dtype]
    _int4_plain_kernel[plans.grid(config, weights, x.shape[0])](
        weights.packed.view(torch.int32),
        weights.scales,
        weights.scales if weights.zeros is None else weights.zeros,
        x,
        out,
        workspace.partials,
        workspace.counters,
        weights.rows,
        x.shape[0],
        units,
        weights.padded_rows // 16,
        weights.k // weights.group,
        triton.cdiv(units, config.split),
        SPLIT=config.split,
        PIECE=32 if weights.group == 32 else 64,
        GROUP=0 if per_row else weights.group,
        HAS_ZEROS=weights.zeros is not None,
        ROW_TILES=config.row_tiles,
        TOKEN_TILE=config.token_tile,
        MULTIPLY=multiply,
        num_warps=config.num_warps,
    )


_TYPES = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
