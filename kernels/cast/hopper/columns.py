"""The second pass of the transposing cast with a scale per column, in Gluon.

    q[n, m] = x[m, n] / scale[n]

How a tile is held, transposed and stored: kernels.cast.hopper.tiles.
"""

from dataclasses import replace
from typing import Final

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma

from kernels.cast import rule
from kernels.cast.hopper.tiles import TileConfig, fits, start_transposed_store
from kernels.common.fp8_scales import factor_of_amax, scale_of_amax
from kernels.common.tiles import tile_at

__all__ = ["fits", "transpose"]

TRANSPOSE: Final = TileConfig(columns_per_thread=4, num_warps=8, group=1)
# Of ragged rows (rule.is_ragged), whose elements have addresses of their own: of 128 in a thread
# 260 bytes spill. Not timed yet.
RAGGED_TRANSPOSE: Final = replace(TRANSPOSE, columns_per_thread=2)


@gluon.jit
def _transpose_kernel(
    x,
    target,
    scale,
    largest,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: gl.constexpr,
    POWER_OF_TWO: gl.constexpr,
    PARTIALS: gl.constexpr,
    EVEN: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """One tile per program, the last rows first. EVEN: no tile reaches beyond the matrix."""
    tile = gl.num_programs(0) - 1 - gl.program_id(0)
    tiles_m, tiles_n = gl.cdiv(ROWS, CONFIG.rows), gl.cdiv(COLS, CONFIG.cols)
    down, right = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
    m = gl.arange(0, CONFIG.rows, gl.SliceLayout(1, CONFIG.layout))
    n = gl.arange(0, CONFIG.cols, gl.SliceLayout(0, CONFIG.layout))
    row, col = down * CONFIG.rows, right * CONFIG.cols
    source = x + (row.to(gl.int64) * STRIDE + col) + (m[:, None] * STRIDE + n[None, :])
    bits = gl.load(largest + col + n, mask=n < COLS - col, other=0)
    for partial in gl.static_range(1, PARTIALS):
        more = gl.load(largest + partial * COLS + col + n, mask=n < COLS - col, other=0)
        bits = gl.maximum(bits, more)
    # Before the loads: a division branches, and loads ahead of a branch hold their registers.
    factor = factor_of_amax(bits, LARGEST, POWER_OF_TWO)
    if EVEN:
        values = gl.load(source, eviction_policy="evict_first")
    else:
        inside = (m < ROWS - row)[:, None] & (n < COLS - col)[None, :]
        values = gl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    shared = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    scaled = values.to(gl.float32) * factor[None, :]
    start_transposed_store(scaled, shared, target, row, col, CONFIG)
    tma.store_wait(0)
    if down == 0:
        made_scale = scale_of_amax(bits, LARGEST, POWER_OF_TWO)
        gl.store(scale + col + n, made_scale, mask=n < COLS - col)


def transpose(
    x: torch.Tensor,
    q: torch.Tensor,
    scale: torch.Tensor,
    maxima: torch.Tensor,
    largest: float,
    power_of_two: bool,
) -> None:
    """Fill q [cols, rows] and scale [cols, 1] from the columns' maxima [partials, cols] (bits)."""
    rows, cols = x.shape
    is_ragged = rule.is_ragged(cols, x.stride(0), x.data_ptr())
    tile = RAGGED_TRANSPOSE if is_ragged else TRANSPOSE
    _transpose_kernel[tile.grid(x)](
        x,
        tile.transposed_descriptor(q),
        scale,
        maxima,
        rows,
        cols,
        x.stride(0),
        LARGEST=largest,
        POWER_OF_TWO=power_of_two,
        PARTIALS=maxima.shape[0],
        **tile.constants(x),
    )
