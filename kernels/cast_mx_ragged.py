"""mxfp8 casts of matrices whose rows begin anywhere: Gluon, NVIDIA GPUs from Hopper on.

    q0[m, n] = x[m, n] / scale0[m, n // 32]    and, from the same read,
    q1[n, m] = x[m, n] / scale1[n, m // 32]    either or both

Where rows are no multiple of 16 bytes, an access moves one element, so instructions are what is
scarce. A warp has 32 x 32 elements, loaded with its lanes along a row. Down the columns each lane
has a whole block; along the rows it has one, too, once the tile went through shared memory. Maxima
need no other lane, and an exponent is found once per block, not by each of 32 lanes. Both results
go back through shared memory, so that lanes store neighbours.

Triton's interpreter knows no Gluon: kernels.cast_blocks has the same casts in plain Triton.
"""

import math

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels import configs
from kernels.cast_fp8 import Cast
from kernels.cast_mx_hopper import _exponent_and_factor, _load, _magnitude
from kernels.fp8_scales import alignment

_MOST = 1 << 22  # offsets within a tile are 32 bit


@gluon.jit
def _store(at, values, m, n, ROWS, COLS, WHOLE: gl.constexpr):
    """ROWS and COLS count from the tile."""
    if WHOLE:
        gl.store(at, values)
    else:
        gl.store(at, values, mask=(m < ROWS)[:, None] & (n < COLS)[None, :])


@gluon.jit
def _by_columns(
    values,
    q,
    scale,
    row,
    col,
    ROWS,
    COLS,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    WHOLE: gl.constexpr,
    DOWN: gl.constexpr,
    ACROSS: gl.constexpr,
):
    """values [32 * DOWN, 32 * ACROSS], a thread has 32 rows of a column -> q [COLS, ROWS]."""
    L: gl.constexpr = gl.BlockedLayout([32, 1], [1, 32], [DOWN, ACROSS], [1, 0])
    LT: gl.constexpr = gl.BlockedLayout([1, 32], [32, 1], [ACROSS, DOWN], [0, 1])
    T: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [ACROSS, DOWN], [0, 1])
    S: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [DOWN, ACROSS], [1, 0])
    blocks = gl.reshape(values.to(gl.float32), (DOWN, 32, 32 * ACROSS))
    byte, factor = _exponent_and_factor(gl.max(_magnitude(blocks), 1), LARGEST, CEIL)
    scaled = gl.reshape(blocks * gl.expand_dims(factor, 1), (32 * DOWN, 32 * ACROSS))
    scaled = gl.convert_layout(scaled, L, assert_trivial=True)
    turned = gl.convert_layout(gl.permute(scaled, (1, 0)), LT, assert_trivial=True)
    cast = gl.convert_layout(turned.to(q.dtype.element_ty), T)
    n = gl.arange(0, 32 * ACROSS, gl.SliceLayout(1, T))
    m = gl.arange(0, 32 * DOWN, gl.SliceLayout(0, T))
    at = q + (col.to(gl.int64) * ROWS + row) + (n[:, None] * ROWS + m[None, :])
    _store(at, cast, n, m, COLS - col, ROWS - row, WHOLE)
    along = gl.cdiv(ROWS, 32)
    block = gl.arange(0, DOWN, gl.SliceLayout(1, S))
    n = gl.arange(0, 32 * ACROSS, gl.SliceLayout(0, S))
    at = scale + (col.to(gl.int64) * along + row // 32) + (n[None, :] * along + block[:, None])
    _store(at, gl.convert_layout(byte, S), block, n, along - row // 32, COLS - col, WHOLE)


@gluon.jit
def _by_rows(
    values,
    q,
    scale,
    row,
    col,
    ROWS,
    COLS,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    WHOLE: gl.constexpr,
    DOWN: gl.constexpr,
    ACROSS: gl.constexpr,
):
    """values [32 * DOWN, 32 * ACROSS], a thread has 32 rows of a column -> q [ROWS, COLS]."""
    L: gl.constexpr = gl.BlockedLayout([32, 1], [1, 32], [DOWN, ACROSS], [1, 0])
    R: gl.constexpr = gl.BlockedLayout([1, 32], [32, 1], [DOWN, ACROSS], [1, 0])
    S: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [DOWN, ACROSS], [1, 0])
    turned = gl.convert_layout(values, R)
    blocks = gl.reshape(turned.to(gl.float32), (32 * DOWN, ACROSS, 32))
    byte, factor = _exponent_and_factor(gl.max(_magnitude(blocks), 2), LARGEST, CEIL)
    scaled = gl.reshape(blocks * gl.expand_dims(factor, 2), (32 * DOWN, 32 * ACROSS))
    cast = gl.convert_layout(scaled.to(q.dtype.element_ty), L)
    m = gl.arange(0, 32 * DOWN, gl.SliceLayout(1, L))
    n = gl.arange(0, 32 * ACROSS, gl.SliceLayout(0, L))
    at = q + (row.to(gl.int64) * COLS + col) + (m[:, None] * COLS + n[None, :])
    _store(at, cast, m, n, ROWS - row, COLS - col, WHOLE)
    across = gl.cdiv(COLS, 32)
    m = gl.arange(0, 32 * DOWN, gl.SliceLayout(1, S))
    block = gl.arange(0, ACROSS, gl.SliceLayout(0, S))
    at = scale + (row.to(gl.int64) * across + col // 32) + (m[:, None] * across + block[None, :])
    _store(at, gl.convert_layout(byte, S), m, block, ROWS - row, across - col // 32, WHOLE)


@gluon.jit
def _tile(
    x,
    q0,
    scale0,
    q1,
    scale1,
    row,
    col,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    WHOLE: gl.constexpr,
    DOWN: gl.constexpr,
    ACROSS: gl.constexpr,
):
    L: gl.constexpr = gl.BlockedLayout([32, 1], [1, 32], [DOWN, ACROSS], [1, 0])
    source = x + (row.to(gl.int64) * STRIDE + col)
    m = gl.arange(0, 32 * DOWN, gl.SliceLayout(1, L))
    n = gl.arange(0, 32 * ACROSS, gl.SliceLayout(0, L))
    values = _load(source, m, n, ROWS - row, COLS - col, STRIDE, WHOLE, True)
    if q0 is not None:
        to_rows = (values, q0, scale0, row, col, ROWS, COLS)
        _by_rows(*to_rows, LARGEST, CEIL, WHOLE, DOWN, ACROSS)
    if q1 is not None:
        to_columns = (values, q1, scale1, row, col, ROWS, COLS)
        _by_columns(*to_columns, LARGEST, CEIL, WHOLE, DOWN, ACROSS)


@gluon.jit
def _ragged_kernel(
    x,
    q0,
    scale0,
    q1,
    scale1,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: gl.constexpr,
    CEIL: gl.constexpr,
    ACROSS: gl.constexpr,
    num_warps: gl.constexpr,
):
    """One tile of warps, ACROSS of them abreast, per program; no masks where all of it is in x."""
    DOWN: gl.constexpr = num_warps // ACROSS
    across = gl.cdiv(COLS, 32 * ACROSS)
    row = gl.program_id(0) // across * (32 * DOWN)
    col = gl.program_id(0) % across * (32 * ACROSS)
    to = (x, q0, scale0, q1, scale1, row, col, ROWS, COLS, STRIDE)
    if (row + 32 * DOWN <= ROWS) & (col + 32 * ACROSS <= COLS):
        _tile(*to, LARGEST, CEIL, True, DOWN, ACROSS)
    else:
        _tile(*to, LARGEST, CEIL, False, DOWN, ACROSS)


def fits(x: torch.Tensor, *, transposing: bool) -> bool:
    """Whether this GPU allows it, and the shape of x is one that other kernels move in bits."""
    if not x.is_cuda or torch.version.hip is not None:
        return False
    hopper = torch.cuda.get_device_capability(x.device) >= (9, 0)
    return hopper and max(*x.shape, x.stride(0)) < _MOST and is_ragged(x, transposing=transposing)


def is_ragged(x: torch.Tensor, *, transposing: bool) -> bool:
    """Whether rows of x, or those of a transposed q, begin at odd places; not for few of them.

    One column (a constant to the compiler) would crash Triton 3.6.
    """
    unit = math.gcd(alignment(x), x.shape[0] if transposing else 0)
    return min(x.shape) > configs.FEW_ROWS and unit <= configs.RAGGED_MOST_ALIGNMENT


def cast(
    x: torch.Tensor,
    by_rows: Cast | None,
    by_columns: Cast | None,
    *,
    largest: float,
    ceil: bool,
) -> None:
    """Fill (q [rows, cols], scale as bytes), (q [cols, rows], scale) unless they are None."""
    rows, cols = x.shape
    how = configs.RAGGED_MX[by_rows is not None, by_columns is not None]
    tiles = triton.cdiv(rows, 32 * how.down) * triton.cdiv(cols, 32 * how.across)
    _ragged_kernel[(tiles,)](
        *(x, *(by_rows or (None, None)), *(by_columns or (None, None)), rows, cols, x.stride(0)),
        LARGEST=largest,
        CEIL=ceil,
        ACROSS=how.across,
        num_warps=how.down * how.across,
    )
