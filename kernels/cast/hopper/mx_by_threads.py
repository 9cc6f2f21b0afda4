"""The transposing mxfp8 casts without a transpose in shared memory: Gluon, NVIDIA from Hopper on.

    q1[n, m] = x[m, n] / scale1[n, m // 32]          and, in the same program if asked for,
    q0[m, n] = x[m, n] / scale0[m, n // 32]

A thread holds 32 rows x C columns: the blocks along the columns lie within it, so their maxima need
no other thread; the transposed tile leaves as in kernels.cast.hopper.row_scales. For q0 the tile is
loaded again, from the first-level cache, with 16 columns of one row per thread.

Triton's interpreter knows no Gluon: kernels.cast.blocks has the same casts in plain Triton.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.cast.hopper import row_scales as cast_fp8_hopper
from kernels.cast.hopper.row_scales import store_transposed, tile_of
from kernels.cast.rows import Cast
from kernels.common import configs

_INFINITY: gl.constexpr = gl.constexpr(0x7F800000)


@gluon.jit
def _magnitude(x):
    return x.to(gl.float32).to(gl.int32, bitcast=True) & 0x7FFFFFFF


@gluon.jit
def _exponent_and_factor(bits, LARGEST: gl.constexpr, CEIL: gl.constexpr):
    """The (byte, factor) of kernels.common.fp8_scales.exponent_and_factor."""
    largest_exponent: gl.constexpr = 8 if LARGEST == 448.0 else 15
    above: gl.constexpr = 0x1FFFFF if CEIL else 0
    byte = gl.maximum(((bits + above) >> 23) - largest_exponent, 0)
    finite = bits < _INFINITY
    factor = gl.where(finite, (254 - byte) << 23, 0x7FC00000).to(gl.float32, bitcast=True)
    return gl.where(finite, byte, 255).to(gl.uint8), factor


@gluon.jit
def _load(source, m, n, ROWS, COLS, STRIDE, EVEN: gl.constexpr, LAST: gl.constexpr):
    """The tile at `source`; ROWS and COLS count from there. LAST: it is not read again."""
    policy: gl.constexpr = "evict_first" if LAST else ""
    at = source + (m[:, None] * STRIDE + n[None, :])
    if EVEN:
        return gl.load(at, eviction_policy=policy)
    else:  # noqa: RET505 (both branches are traced without it)
        inside = (m < ROWS)[:, None] & (n < COLS)[None, :]
        return gl.load(at, mask=inside, other=0.0, eviction_policy=policy)


@gluon.jit
def _mx_kernel(
    x,
    q0,
    scale0,
    target,
    scale1,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    BOTH: gl.constexpr,
    EVEN: gl.constexpr,
    C: gl.constexpr,
    GROUP: gl.constexpr,
    num_warps: gl.constexpr,
):
    """One tile per program. EVEN: no tile reaches beyond the matrix."""
    BLOCK_M: gl.constexpr = 32 * num_warps
    BLOCK_N: gl.constexpr = 32 * C
    L: gl.constexpr = gl.BlockedLayout([32, C], [1, 32], [num_warps, 1], [1, 0])
    down, right = tile_of(gl.program_id(0), ROWS, COLS, BLOCK_M, BLOCK_N, GROUP)
    row, col = down * BLOCK_M, right * BLOCK_N
    source = x + (row.to(gl.int64) * STRIDE + col)
    m = gl.arange(0, BLOCK_M, gl.SliceLayout(1, L))
    n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, L))
    values = _load(source, m, n, ROWS - row, COLS - col, STRIDE, EVEN, not BOTH)
    blocks = gl.reshape(values.to(gl.float32), (num_warps, 32, BLOCK_N))
    byte, factor = _exponent_and_factor(gl.max(_magnitude(blocks), 1), LARGEST, CEIL)
    scaled = gl.reshape(blocks * gl.expand_dims(factor, 1), (BLOCK_M, BLOCK_N))
    scaled = gl.convert_layout(scaled, L, assert_trivial=True)
    store_transposed(scaled, target, row, col, C, num_warps)
    _store_scales(scale1, byte, row, col, ROWS, COLS, EVEN, C, num_warps)
    if BOTH:
        _rows_of_tile(
            *(source, q0, scale0, row, col, ROWS, COLS, STRIDE),
            *(LARGEST, CEIL, EVEN, C, num_warps),
        )


@gluon.jit
def _store_scales(
    scale,
    byte,
    row,
    col,
    ROWS,
    COLS,
    EVEN: gl.constexpr,
    C: gl.constexpr,
    num_warps: gl.constexpr,
):
    """byte [num_warps, 32 * C] -> scale [COLS, ceil(ROWS / 32)]: a lane writes C columns.

    EVEN: the bytes of a column are one store; the compiler sees that from the products.
    """
    S: gl.constexpr = gl.BlockedLayout([C, num_warps], [32, 1], [num_warps, 1], [1, 0])
    turned = gl.convert_layout(gl.permute(byte, (1, 0)), S)
    n = gl.arange(0, 32 * C, gl.SliceLayout(1, S))
    block = gl.arange(0, num_warps, gl.SliceLayout(0, S))
    if EVEN:
        along = ROWS // (32 * num_warps) * num_warps
        first = row // (32 * num_warps) * num_warps
    else:
        along = gl.cdiv(ROWS, 32)
        first = row // 32
    at = scale + (col.to(gl.int64) * along + first) + (n[:, None] * along + block[None, :])
    if EVEN:
        gl.store(at, turned)
    else:
        gl.store(at, turned, mask=(n < COLS - col)[:, None] & (block < along - first)[None, :])


@gluon.jit
def _store_row_scales(
    scale,
    byte,
    row,
    col,
    ROWS,
    COLS,
    EVEN: gl.constexpr,
    C: gl.constexpr,
    num_warps: gl.constexpr,
):
    """byte [32 * num_warps, C] -> scale [ROWS, ceil(COLS / 32)]; EVEN as in _store_scales."""
    S: gl.constexpr = gl.BlockedLayout([1, C], [32, 1], [num_warps, 1], [1, 0])
    made = gl.convert_layout(byte, S)
    m = gl.arange(0, 32 * num_warps, gl.SliceLayout(1, S))
    block = gl.arange(0, C, gl.SliceLayout(0, S))
    if EVEN:
        across = COLS // (32 * C) * C
        first = col // (32 * C) * C
    else:
        across = gl.cdiv(COLS, 32)
        first = col // 32
    at = scale + (row.to(gl.int64) * across + first) + (m[:, None] * across + block[None, :])
    if EVEN:
        gl.store(at, made)
    else:
        gl.store(at, made, mask=(m < ROWS - row)[:, None] & (block < across - first)[None, :])


@gluon.jit
def _rows_of_tile(
    source,
    q,
    scale,
    row,
    col,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    EVEN: gl.constexpr,
    C: gl.constexpr,
    num_warps: gl.constexpr,
):
    """The same tile with blocks along its rows: two threads share one."""
    BLOCK_M: gl.constexpr = 32 * num_warps
    BLOCK_N: gl.constexpr = 32 * C
    R: gl.constexpr = gl.BlockedLayout([1, 16], [32 // (2 * C), 2 * C], [num_warps, 1], [1, 0])
    m = gl.arange(0, BLOCK_M, gl.SliceLayout(1, R))
    n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, R))
    values = _load(source, m, n, ROWS - row, COLS - col, STRIDE, EVEN, True)
    blocks = gl.reshape(values.to(gl.float32), (BLOCK_M, C, 32))
    byte, factor = _exponent_and_factor(gl.max(_magnitude(blocks), 2), LARGEST, CEIL)
    scaled = gl.reshape(blocks * gl.expand_dims(factor, 2), (BLOCK_M, BLOCK_N))
    cast = gl.convert_layout(scaled.to(q.dtype.element_ty), R, assert_trivial=True)
    at = q + (row.to(gl.int64) * COLS + col) + (m[:, None] * COLS + n[None, :])
    if EVEN:
        gl.store(at, cast)
    else:
        gl.store(at, cast, mask=(m < ROWS - row)[:, None] & (n < COLS - col)[None, :])
    _store_row_scales(scale, byte, row, col, ROWS, COLS, EVEN, C, num_warps)


def fits(x: torch.Tensor) -> bool:
    """Whether this GPU and the shape of x allow it, as cast_fp8_hopper.fits; offsets are 32 bit."""
    return cast_fp8_hopper.fits(x) and max(x.shape) < 1 << 22


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
    how = configs.HOPPER_MX if by_rows is None else configs.HOPPER_MX_BOTH
    q0, scale0 = by_rows or (None, None)
    q1, scale1 = by_columns
    block_m, block_n = 32 * how.num_warps, 32 * how.columns_per_thread
    _mx_kernel[(triton.cdiv(rows, block_m) * triton.cdiv(cols, block_n),)](
        *(x, q0, scale0, cast_fp8_hopper.tiles_of(q1, how), scale1, rows, cols, x.stride(0)),
        LARGEST=largest,
        CEIL=ceil,
        BOTH=by_rows is not None,
        EVEN=rows % block_m == 0 and cols % block_n == 0,
        C=how.columns_per_thread,
        GROUP=how.group,
        num_warps=how.num_warps,
    )
