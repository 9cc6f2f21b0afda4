"""Casts along the rows and along the columns from one read, in Gluon: kernels.cast.both_ways.

How a tile is held, transposed and stored: kernels.cast.hopper.tiles. Rows leave from the registers.
"""

from typing import Final

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma

from kernels.cast.hopper.tiles import TileConfig, fits, load_tile, start_transposed_store
from kernels.cast.tiles import Both
from kernels.common.fp8_scales import (
    factor_of_amax,
    magnitude,
    offset_of_block_scale,
    scale_of_amax,
)
from kernels.common.tiles import tile_at

__all__ = ["cast_strips", "cast_with_one_scale", "fits"]

# A tile is a block of 128 x 128. On an H200 in us, 16384 x 2048 and 8192^2 bf16: one scale 57.5 and
# 112 with its amax (the two casts apart 76.3 and 147), squares 40.3 and 77.0 (cast, and then turned
# by torch, 216 and 440), a copy of 3 bytes an element 49.9 and 97.6. 16 rows per thread hold half
# the registers of 32 (94 of 210), so that two programs share a multiprocessor.
TENSORWISE: Final = TileConfig(columns_per_thread=4, num_warps=8, group=1, rows_per_thread=16)
BLOCKS: Final = TileConfig(columns_per_thread=4, num_warps=8, group=1, rows_per_thread=16)


@gluon.jit
def _one_scale_kernel(
    x,
    q0,
    scale0,
    target,
    scale1,
    partial,
    ROWS,
    COLS,
    STRIDE,
    PARTIALS,
    LARGEST: gl.constexpr,
    MOST_PARTIALS: gl.constexpr,
    EVEN: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """A tile with one scale per program, the last tile first. EVEN: none reaches beyond x.

    partial: what the maximum of all is taken of; None for a scale per tile.
    """
    tile = gl.num_programs(0) - 1 - gl.program_id(0)
    tiles_m, tiles_n = gl.cdiv(ROWS, CONFIG.rows), gl.cdiv(COLS, CONFIG.cols)
    down, right = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
    m = gl.arange(0, CONFIG.rows, gl.SliceLayout(1, CONFIG.layout))
    n = gl.arange(0, CONFIG.cols, gl.SliceLayout(0, CONFIG.layout))
    row, col = down * CONFIG.rows, right * CONFIG.cols
    if partial is not None:
        # Before the loads: a division branches, and loads ahead of a branch hold their registers.
        maxima = gl.arange(0, MOST_PARTIALS, gl.BlockedLayout([1], [32], [CONFIG.num_warps], [0]))
        # A given amax may be a NaN with a sign.
        bits = gl.load(partial + maxima, mask=maxima < PARTIALS, other=0) & 0x7FFFFFFF
        bits = gl.max(bits, 0)
        factor = factor_of_amax(bits, LARGEST, False)
    source = x + (row.to(gl.int64) * STRIDE + col)
    values = load_tile(source, m, n, ROWS - row, COLS - col, STRIDE, EVEN, True)
    if partial is None:
        bits = gl.max(gl.max(magnitude(values), 1), 0)
        factor = factor_of_amax(bits, LARGEST, False)
    shared = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    scaled = values.to(gl.float32) * factor
    start_transposed_store(scaled, shared, target, row, col, CONFIG)
    _store_rows(scaled, q0, row, col, m, n, ROWS, COLS, EVEN)
    if partial is None:
        gl.store(scale0 + tile, scale_of_amax(bits, LARGEST, False))
        gl.store(scale1 + right * tiles_m + down, scale_of_amax(bits, LARGEST, False))
    elif tile == 0:
        gl.store(scale0, scale_of_amax(bits, LARGEST, False))
        gl.store(scale1, scale_of_amax(bits, LARGEST, False))
    tma.store_wait(0)


@gluon.jit
def _strips_kernel(
    x,
    q0,
    scale0,
    target,
    scale1,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: gl.constexpr,
    EVEN: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """A tile with a scale per row and one per column. EVEN: none reaches beyond x."""
    tiles_m, tiles_n = gl.cdiv(ROWS, CONFIG.rows), gl.cdiv(COLS, CONFIG.cols)
    down, right = tile_at(gl.program_id(0), tiles_m, tiles_n, CONFIG.group)
    row, col = down * CONFIG.rows, right * CONFIG.cols
    source = x + (row.to(gl.int64) * STRIDE + col)
    m = gl.arange(0, CONFIG.rows, gl.SliceLayout(1, CONFIG.layout))
    n = gl.arange(0, CONFIG.cols, gl.SliceLayout(0, CONFIG.layout))
    values = load_tile(source, m, n, ROWS - row, COLS - col, STRIDE, EVEN, False)
    shared = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    bits = gl.max(magnitude(values), 0)
    scaled = values.to(gl.float32) * factor_of_amax(bits, LARGEST, False)[None, :]
    start_transposed_store(scaled, shared, target, row, col, CONFIG)
    made_scale = scale_of_amax(bits, LARGEST, False)
    gl.store(scale1 + offset_of_block_scale(col + n, down, COLS), made_scale, n < COLS - col)
    # Again, from the first-level cache, with 16 columns of a row per thread: a maximum along a row
    # takes three exchanges, and a store has 16 bytes. With 32 rows x 4 columns per thread, loaded
    # once, it took 143 us at 8192^2 on an H200; so 104, and the two casts apart 125.
    R: gl.constexpr = gl.BlockedLayout([1, 16], [4, 8], [CONFIG.num_warps, 1], [1, 0])
    m = gl.arange(0, CONFIG.rows, gl.SliceLayout(1, R))
    n = gl.arange(0, CONFIG.cols, gl.SliceLayout(0, R))
    values = load_tile(source, m, n, ROWS - row, COLS - col, STRIDE, EVEN, True)
    bits = gl.max(magnitude(values), 1)
    scaled = values.to(gl.float32) * factor_of_amax(bits, LARGEST, False)[:, None]
    _store_rows(scaled, q0, row, col, m, n, ROWS, COLS, EVEN)
    made_scale = scale_of_amax(bits, LARGEST, False)
    gl.store(scale0 + offset_of_block_scale(row + m, right, ROWS), made_scale, m < ROWS - row)
    tma.store_wait(0)
    # The compiler does not know that the store still reads it: scratch memory of the cast along the
    # rows would lie over it.
    shared._keep_alive()


@gluon.jit
def _store_rows(scaled, q, row, col, m, n, ROWS, COLS, EVEN: gl.constexpr):
    """scaled [m, n] fp32 -> q [ROWS, COLS] from (row, col) on."""
    at = q + (row.to(gl.int64) * COLS + col) + (m[:, None] * COLS + n[None, :])
    if EVEN:
        gl.store(at, scaled.to(q.dtype.element_ty))
    else:
        inside = (m < ROWS - row)[:, None] & (n < COLS - col)[None, :]
        gl.store(at, scaled.to(q.dtype.element_ty), mask=inside)


def cast_with_one_scale(
    x: torch.Tensor,
    outputs: Both,
    partial: torch.Tensor | None,
    *,
    largest: float,
    most_partials: int,
) -> None:
    """Fill the outputs of kernels.cast.both_ways: one scale or, without `partial`, squares."""
    config = BLOCKS if partial is None else TENSORWISE
    q0, scale0, q1, scale1 = outputs
    _one_scale_kernel[config.grid(x)](
        x,
        q0,
        scale0,
        config.transposed_descriptor(q1),
        scale1,
        partial,
        *x.shape,
        x.stride(0),
        0 if partial is None else partial.numel(),
        LARGEST=largest,
        MOST_PARTIALS=most_partials,
        **config.constants(x),
    )


def cast_strips(x: torch.Tensor, outputs: Both, *, largest: float) -> None:
    """Fill the outputs of kernels.cast.both_ways.blockwise_1x128_both."""
    q0, scale0, q1, scale1 = outputs
    _strips_kernel[BLOCKS.grid(x)](
        x,
        q0,
        scale0,
        BLOCKS.transposed_descriptor(q1),
        scale1,
        *x.shape,
        x.stride(0),
        LARGEST=largest,
        **BLOCKS.constants(x),
    )
