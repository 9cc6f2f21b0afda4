"""Transposing mxfp8 casts of bf16 that read each tile once, through the tensor memory unit: Hopper.

    q1[n, m] = x[m, n] / scale1[n, m // 32]          and, in the same program if asked for,
    q0[m, n] = x[m, n] / scale0[m, n // 32]

The tensor memory unit brings a tile to shared memory: no load holds registers, and both casts read
what is there. One tile per program: others on the multiprocessor work while it waits. Two
neighbours of a row are one word in there; their magnitudes are compared as a pair (max.u16x2),
which halves the search for maxima. Layouts and stores are those of
kernels.cast.hopper.mx_by_threads, which has the same casts for fp16, fp32 and rows that are no
multiple of 16 bytes.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.cast.hopper import row_scales as cast_fp8_hopper
from kernels.cast.hopper.mx_by_threads import _exponent_and_factor, _store_row_scales, _store_scales
from kernels.cast.hopper.row_scales import tile_of
from kernels.cast.rows import Cast
from kernels.common import configs


@gluon.jit
def _larger_pair(a, b):
    return gl.inline_asm_elementwise(
        "max.u16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def _halves(pair):
    """(first, second) bf16 of a word, as bits of fp32."""
    return pair << 16, pair & -65536


@gluon.jit
def _by_columns(
    words,
    out,
    target,
    scale,
    row,
    col,
    ROWS,
    COLS,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    EVEN: gl.constexpr,
    C: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Cast the tile in blocks along its columns: a thread has 32 rows x C columns."""
    BLOCK_M: gl.constexpr = 32 * num_warps
    BLOCK_N: gl.constexpr = 32 * C
    W: gl.constexpr = gl.BlockedLayout([32, C // 2], [1, 32], [num_warps, 1], [1, 0])
    L: gl.constexpr = gl.BlockedLayout([32, C], [1, 32], [num_warps, 1], [1, 0])
    LT: gl.constexpr = gl.BlockedLayout([C, 32], [32, 1], [1, num_warps], [1, 0])
    blocks = gl.reshape(words.load(W), (num_warps, 32, BLOCK_N // 2))
    largest = gl.reduce(blocks & 0x7FFF7FFF, 1, _larger_pair)
    first_bits, second_bits = _halves(largest)
    first_byte, first_factor = _exponent_and_factor(first_bits, LARGEST, CEIL)
    second_byte, second_factor = _exponent_and_factor(second_bits, LARGEST, CEIL)
    first, second = _halves(blocks)
    first = first.to(gl.float32, bitcast=True) * gl.expand_dims(first_factor, 1)
    second = second.to(gl.float32, bitcast=True) * gl.expand_dims(second_factor, 1)
    scaled = gl.reshape(gl.join(first, second), (BLOCK_M, BLOCK_N))
    scaled = gl.convert_layout(scaled, L, assert_trivial=True)
    turned = gl.convert_layout(gl.permute(scaled, (1, 0)), LT, assert_trivial=True)
    cast = turned.to(target.dtype)
    out.store(cast)
    fence_async_shared()
    gl.thread_barrier()
    tma.async_copy_shared_to_global(target, [col, row], out)
    byte = gl.reshape(gl.join(first_byte, second_byte), (num_warps, BLOCK_N))
    _store_scales(scale, byte, row, col, ROWS, COLS, EVEN, C, num_warps)


@gluon.jit
def _by_rows(
    words,
    q,
    scale,
    row,
    col,
    ROWS,
    COLS,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    EVEN: gl.constexpr,
    C: gl.constexpr,
    num_warps: gl.constexpr,
):
    """Cast the tile in blocks along its rows: two threads share one, each with 16 columns."""
    BLOCK_M: gl.constexpr = 32 * num_warps
    BLOCK_N: gl.constexpr = 32 * C
    # Four threads along a row, so that eight neighbours read all banks of swizzled memory at once.
    W: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [num_warps, 1], [1, 0])
    R: gl.constexpr = gl.BlockedLayout([1, 16], [8, 4], [num_warps, 1], [1, 0])
    m = gl.arange(0, BLOCK_M, gl.SliceLayout(1, R))
    n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, R))
    blocks = gl.reshape(words.load(W), (BLOCK_M, C, 16))
    largest = gl.reduce(blocks & 0x7FFF7FFF, 2, _larger_pair)
    first, second = _halves(largest)
    byte, factor = _exponent_and_factor(gl.maximum(first, second), LARGEST, CEIL)
    first, second = _halves(blocks)
    first = first.to(gl.float32, bitcast=True) * gl.expand_dims(factor, 2)
    second = second.to(gl.float32, bitcast=True) * gl.expand_dims(factor, 2)
    scaled = gl.reshape(gl.join(first, second), (BLOCK_M, BLOCK_N))
    scaled = gl.convert_layout(scaled, R, assert_trivial=True)
    cast = scaled.to(q.dtype.element_ty)
    at = q + (row.to(gl.int64) * COLS + col) + (m[:, None] * COLS + n[None, :])
    if EVEN:
        gl.store(at, cast)
    else:
        gl.store(at, cast, mask=(m < ROWS - row)[:, None] & (n < COLS - col)[None, :])
    _store_row_scales(scale, byte, row, col, ROWS, COLS, EVEN, C, num_warps)


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
    C: gl.constexpr,
    GROUP: gl.constexpr,
    num_warps: gl.constexpr,
):
    """One tile per program; x and target are descriptors. EVEN: none reaches beyond x."""
    BLOCK_M: gl.constexpr = 32 * num_warps
    BLOCK_N: gl.constexpr = 32 * C
    PAIRS: gl.constexpr = gl.NVMMASharedLayout(x.layout.swizzle_byte_width, 32, 2)
    tile = gl.allocate_shared_memory(x.dtype, [BLOCK_M, BLOCK_N], x.layout)
    out = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    gl.thread_barrier()
    down, right = tile_of(gl.program_id(0), ROWS, COLS, BLOCK_M, BLOCK_N, GROUP)
    row, col = down * BLOCK_M, right * BLOCK_N
    mbarrier.expect(ready, x.block_type.nbytes)
    tma.async_copy_global_to_shared(x, [row, col], ready, tile)
    mbarrier.wait(ready, 0)
    words = tile._reinterpret(gl.int32, [BLOCK_M, BLOCK_N // 2], PAIRS)
    _by_columns(
        *(words, out, target, scale1, row, col, ROWS, COLS),
        *(LARGEST, CEIL, EVEN, C, num_warps),
    )
    if BOTH:
        to_rows = (words, q0, scale0, row, col, ROWS, COLS)
        _by_rows(*to_rows, LARGEST, CEIL, EVEN, C, num_warps)
    tma.store_wait(0)
    # The compiler does not know that the store still reads it: scratch memory of the cast along the
    # rows would lie over it.
    out._keep_alive()


def fits(x: torch.Tensor) -> bool:
    """Whether this GPU, type and shape of x allow it: rows of x and of q1 in units of 16 bytes.

    Rows may lie apart, as in a column of a matrix, but not over each other. The stride along a row
    of one column may be anything; the tensor memory unit wants 1.
    """
    rows_are = x.stride(0) % 8 == 0 and x.data_ptr() % 16 == 0
    rows_are &= x.stride(1) == 1 and x.stride(0) >= x.shape[1]
    return rows_are and x.dtype == torch.bfloat16 and cast_fp8_hopper.fits(x)


def cast(
    x: torch.Tensor,
    by_rows: Cast | None,
    by_columns: Cast,
    *,
    largest: float,
    ceil: bool,
) -> None:
    """Fill (q [cols, rows], scale as bytes), and unless it is None (q [rows, cols], scale)."""
    rows, cols = x.shape
    how = configs.TILES_MX if by_rows is None else configs.TILES_MX_BOTH
    block_m, block_n = 32 * how.num_warps, 32 * how.columns_per_thread
    q0, scale0 = by_rows or (None, None)
    q1, scale1 = by_columns
    source = TensorDescriptor.from_tensor(x, [block_m, block_n], source_layout(how))
    _tiles_kernel[(triton.cdiv(rows, block_m) * triton.cdiv(cols, block_n),)](
        *(source, q0, scale0, cast_fp8_hopper.tiles_of(q1, how), scale1, rows, cols),
        LARGEST=largest,
        CEIL=ceil,
        BOTH=by_rows is not None,
        EVEN=rows % block_m == 0 and cols % block_n == 0,
        C=how.columns_per_thread,
        GROUP=how.group,
        num_warps=how.num_warps,
    )


def source_layout(how: configs.HopperConfig) -> gl.NVMMASharedLayout:
    """bf16 of a tile in shared memory, swizzled as wide as its rows are."""
    return gl.NVMMASharedLayout(min(128, 64 * how.columns_per_thread), 16, 2)
