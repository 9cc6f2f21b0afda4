"""The transposing mxfp8 casts in Gluon.

    q1[n, m] = x[m, n] / scale1[n, m // 32]          and, in the same program if asked for,
    q0[m, n] = x[m, n] / scale0[m, n // 32]

x is bf16 in units of 16 bytes; any other x is cast by kernels.cast.blocks.

A thread holds 32 rows x C columns: the blocks along the columns lie within it, so their maxima need
no other thread. The transposed tile leaves as kernels.cast.hopper.tiles says. It comes to shared
memory by the tensor memory unit: no load holds registers, and both casts read what is there. One
tile per program: others on the multiprocessor work while it waits. Two neighbours of a row are one
word in there; their magnitudes are compared as a pair (max.u16x2), which halves the search for
maxima.
"""

from typing import Final

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from kernels.cast.hopper import tiles
from kernels.cast.hopper.tiles import TileConfig, start_transposed_store
from kernels.cast.tiles import Cast
from kernels.common.fp8_scales import exponent_and_factor
from kernels.common.tiles import tile_at

# On an H200 in us, at 8192^2 and 16384^2 bf16: along the columns 54.8 and 207 with 8 warps, 57.0
# and 215 with 4. Both ways 80.9 and 326 in groups of 1 tile, 83.2 and 329 in groups of 4, 85.0 and
# 337 with two columns per thread. Persistent programs, on another card, took 85.0 and 366 where one
# tile per program took 83.8 and 334.
ALONG_COLUMNS: Final = TileConfig(columns_per_thread=2, num_warps=8, group=1)
ALONG_BOTH: Final = TileConfig(columns_per_thread=4, num_warps=4, group=1)


@gluon.jit
def _store_scales(scale, byte, row, col, ROWS, COLS, S: gl.constexpr, EVEN: gl.constexpr):
    """byte [rows, blocks], in layout S -> scale [ROWS, ceil(COLS / 32)], from (row, col / 32) on.

    EVEN: all bytes are there. Those of a row are one wide store then, which the compiler sees from
    the products below.
    """
    byte = gl.convert_layout(byte, S)
    BLOCKS: gl.constexpr = byte.shape[1]
    m = gl.arange(0, byte.shape[0], gl.SliceLayout(1, S))
    block = gl.arange(0, BLOCKS, gl.SliceLayout(0, S))
    if EVEN:
        across = COLS // (32 * BLOCKS) * BLOCKS
        first = col // (32 * BLOCKS) * BLOCKS
    else:
        across = gl.cdiv(COLS, 32)
        first = col // 32
    at = scale + (row.to(gl.int64) * across + first) + (m[:, None] * across + block[None, :])
    if EVEN:
        gl.store(at, byte)
    else:
        gl.store(at, byte, mask=(m < ROWS - row)[:, None] & (block < across - first)[None, :])


@gluon.jit
def _store_column_scales(scale, byte, row, col, ROWS, COLS, EVEN: gl.constexpr):
    """byte [warps, columns] -> scale [COLS, ceil(ROWS / 32)]; a lane writes neighbours."""
    WARPS: gl.constexpr = byte.shape[0]
    S: gl.constexpr = gl.BlockedLayout([byte.shape[1] // 32, WARPS], [32, 1], [WARPS, 1], [1, 0])
    _store_scales(scale, gl.permute(byte, (1, 0)), col, row, COLS, ROWS, S, EVEN)


@gluon.jit
def _store_rows(cast, byte, q, scale, row, col, m, n, ROWS, COLS, EVEN: gl.constexpr):
    """cast [m, n] -> q [ROWS, COLS] from (row, col) on; byte [m, blocks] -> its scales."""
    WARPS: gl.constexpr = cast.shape[0] // 32
    S: gl.constexpr = gl.BlockedLayout([1, byte.shape[1]], [32, 1], [WARPS, 1], [1, 0])
    at = q + (row.to(gl.int64) * COLS + col) + (m[:, None] * COLS + n[None, :])
    if EVEN:
        gl.store(at, cast)
    else:
        gl.store(at, cast, mask=(m < ROWS - row)[:, None] & (n < COLS - col)[None, :])
    _store_scales(scale, byte, row, col, ROWS, COLS, S, EVEN)


@gluon.jit
def _larger_pair(a, b):
    return gl.inline_asm_elementwise(
        "max.u16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def _pair_bits(pair):
    """(first, second) bf16 of a word, as bits of fp32."""
    return pair << 16, pair & -65536


@gluon.jit
def _scaled_pairs(words, first_factor, second_factor, AXIS: gl.constexpr, SHAPE: gl.constexpr):
    """fp32 values of blocks of words times their factors along AXIS, in SHAPE."""
    first, second = _pair_bits(words)
    first = first.to(gl.float32, bitcast=True) * gl.expand_dims(first_factor, AXIS)
    second = second.to(gl.float32, bitcast=True) * gl.expand_dims(second_factor, AXIS)
    return gl.reshape(gl.join(first, second), SHAPE)


@gluon.jit
def _tiles_kernel(
    x,
    q0,
    scale0,
    target,
    scale1,
    ROWS,
    COLS,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    BOTH: gl.constexpr,
    EVEN: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """One tile per program; x and target are descriptors. EVEN: none reaches beyond x."""
    BLOCK_M: gl.constexpr = CONFIG.rows
    BLOCK_N: gl.constexpr = CONFIG.cols
    C: gl.constexpr = CONFIG.columns_per_thread
    WARPS: gl.constexpr = CONFIG.num_warps
    PAIRS: gl.constexpr = gl.NVMMASharedLayout(x.layout.swizzle_byte_width, 32, 2)
    tile = gl.allocate_shared_memory(x.dtype, [BLOCK_M, BLOCK_N], x.layout)
    shared = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    gl.thread_barrier()
    tiles_m, tiles_n = gl.cdiv(ROWS, BLOCK_M), gl.cdiv(COLS, BLOCK_N)
    down, right = tile_at(gl.program_id(0), tiles_m, tiles_n, CONFIG.group)
    row, col = down * BLOCK_M, right * BLOCK_N
    mbarrier.expect(ready, x.block_type.nbytes)
    tma.async_copy_global_to_shared(x, [row, col], ready, tile)
    mbarrier.wait(ready, 0)
    words = tile._reinterpret(gl.int32, [BLOCK_M, BLOCK_N // 2], PAIRS)
    # Along the columns: a thread has 32 rows x C columns.
    BY_COLUMNS: gl.constexpr = gl.BlockedLayout([32, C // 2], [1, 32], [WARPS, 1], [1, 0])
    blocks = gl.reshape(words.load(BY_COLUMNS), (WARPS, 32, BLOCK_N // 2))
    first, second = _pair_bits(gl.reduce(blocks & 0x7FFF7FFF, 1, _larger_pair))
    first_byte, first_factor = exponent_and_factor(first, LARGEST, CEIL)
    second_byte, second_factor = exponent_and_factor(second, LARGEST, CEIL)
    scaled = _scaled_pairs(blocks, first_factor, second_factor, 1, (BLOCK_M, BLOCK_N))
    scaled = gl.convert_layout(scaled, CONFIG.layout, assert_trivial=True)
    start_transposed_store(scaled, shared, target, row, col, CONFIG)
    byte = gl.reshape(gl.join(first_byte, second_byte), (WARPS, BLOCK_N))
    _store_column_scales(scale1, byte, row, col, ROWS, COLS, EVEN)
    if BOTH:
        # Along the rows: two threads share a block, each with 16 columns. Four threads along a
        # row, so that eight neighbours read all banks of swizzled memory at once.
        BY_ROWS: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [WARPS, 1], [1, 0])
        R: gl.constexpr = gl.BlockedLayout([1, 16], [8, 4], [WARPS, 1], [1, 0])
        m = gl.arange(0, BLOCK_M, gl.SliceLayout(1, R))
        n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, R))
        blocks = gl.reshape(words.load(BY_ROWS), (BLOCK_M, C, 16))
        first, second = _pair_bits(gl.reduce(blocks & 0x7FFF7FFF, 2, _larger_pair))
        byte, factor = exponent_and_factor(gl.maximum(first, second), LARGEST, CEIL)
        scaled = _scaled_pairs(blocks, factor, factor, 2, (BLOCK_M, BLOCK_N))
        scaled = gl.convert_layout(scaled, R, assert_trivial=True)
        cast = scaled.to(q0.dtype.element_ty)
        _store_rows(cast, byte, q0, scale0, row, col, m, n, ROWS, COLS, EVEN)
    tma.store_wait(0)
    # The compiler does not know that the store still reads it: scratch memory of the cast along the
    # rows would lie over it.
    shared._keep_alive()


def fits(x: torch.Tensor) -> bool:
    """Whether x is for this kernel: on such a GPU, bf16 in units of 16 bytes.

    Rows may lie apart, as in a column of a matrix, but not over each other. The stride along a row
    of one column may be anything; the tensor memory unit wants 1.
    """
    is_aligned = x.stride(0) % 8 == 0 and x.data_ptr() % 16 == 0
    has_rows = x.stride(1) == 1 and x.stride(0) >= x.shape[1]
    return is_aligned and has_rows and x.dtype == torch.bfloat16 and tiles.fits(x)


def cast(
    x: torch.Tensor, by_rows: Cast | None, by_columns: Cast, *, largest: float, ceil: bool
) -> None:
    """Fill (q [cols, rows], scale as bytes), and unless it is None (q [rows, cols], scale)."""
    q0, scale0 = by_rows or (None, None)
    q1, scale1 = by_columns
    config = ALONG_COLUMNS if by_rows is None else ALONG_BOTH
    _tiles_kernel[config.grid(x)](
        config.source_descriptor(x),
        q0,
        scale0,
        config.transposed_descriptor(q1),
        scale1,
        *x.shape,
        LARGEST=largest,
        CEIL=ceil,
        BOTH=by_rows is not None,
        **config.constants(x),
    )
