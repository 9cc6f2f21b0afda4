"""Casts of a matrix to fp8 with a scale per block: mxfp8 and blockwise, from one read.

    mxfp8_dim0            q [rows, cols]  scale [rows, ceil(cols/32)] e8m0
    mxfp8_dim1            q [cols, rows]  scale [cols, ceil(rows/32)] e8m0: transposed
    mxfp8_both            dim0 and dim1
    blockwise_1x128       q [rows, cols]  scale [rows, ceil(cols/128)] fp32
    blockwise_1x128_dim1  q [cols, rows]  scale [cols, ceil(rows/128)] fp32: transposed
    blockwise_128x128     q [rows, cols]  scale [ceil(rows/128), ceil(cols/128)] fp32

Shapes: x [rows, cols] bf16, fp16 or fp32 with contiguous rows; q e4m3 or e5m2, contiguous; scales
not swizzled for any matrix unit. Blocks at the edge are cut off. The value that q stands for is
q * scale. Arithmetic: kernels.common.fp8_scales. Scales per 1x128 lie transposed in memory
(new_block_scales there), all others in rows.

mxfp8 follows the OCP Microscaling Formats specification 1.0 (blocks of 32, scales 2**e); `floor` is
its conversion, which saturates values above the largest; `ceil` rounds the scale up, so that none
is above it. Transposing mxfp8 casts are kernels.cast.hopper.mx where that fits.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

import torch
import triton
import triton.language as tl

from kernels.cast.hopper import mx as hopper_mx
from kernels.cast.rule import FEW_ROWS
from kernels.cast.tiles import (
    Both,
    Cast,
    TileConfig,
    like_casts,
    load_tile,
    multiple_of,
    row_alignment_elements,
)
from kernels.common.checks import check_matrix, largest_fp8_value
from kernels.common.fp8_scales import (
    BLOCK,
    MX_BLOCK,
    exponent_and_factor,
    magnitude,
    new_block_scales,
    offset_of_block_scale,
    scale_and_factor,
)
from kernels.common.operators import operator

Rounding = Literal["floor", "ceil"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksAlongRowsConfig:
    """Programs of so many elements, whole blocks, counted along the rows."""

    elements: int
    num_warps: int

    def __post_init__(self) -> None:
        """A program has whole blocks of either size."""
        assert self.elements % BLOCK == 0


# On an H200 in us. Along the rows 16 elements per thread take 53.1 (mxfp8_dim0 at 8192^2), 8 of
# them 61.3; programs of 1024 take 32.6 at 4095 x 4097, those of 2048 37.6.
ALONG_ROWS: Final = BlocksAlongRowsConfig(elements=1024, num_warps=2)
# Where kernels.cast.hopper.mx does not fit. This tile is the best along the columns alone, 27.1 at
# 4095 x 4097; both ways it takes 63.0 and the lower one 55.4.
ALONG_COLUMNS: Final = TileConfig(rows=128, cols=64, num_warps=4)
ALONG_BOTH: Final = TileConfig(rows=32, cols=128, num_warps=4)
# Up to so many elements: along rows 2.8 at 1000 x 1000 (ALONG_ROWS 3.2), along columns 4.3
# (ALONG_COLUMNS 5.1), both 4.7 (ALONG_BOTH 5.4).
SMALL_MOST_ELEMENTS: Final = 1 << 21
SMALL_ALONG_ROWS: Final = BlocksAlongRowsConfig(elements=1024, num_warps=4)
SMALL_TRANSPOSED: Final = TileConfig(rows=32, cols=64, num_warps=2)
# Tiles as high as the few rows that there are. 1 and 16 rows of 8192: along columns 1.4 and 2.5,
# both 1.5 and 2.7; filled up with zeros to 32 rows 1.9, 2.5, 2.1 and 3.1.
FEW_ROWS_TRANSPOSED: Final = TileConfig(rows=32, cols=64, num_warps=2)
SQUARES_WARPS: Final = 4


@triton.constexpr_function
def _is_mx(SCALES):
    """Whether scales of this kind are those of mxfp8; the others are "fp32" and "power_of_two"."""
    return SCALES in ("floor", "ceil")


@triton.jit
def _scale_of_kind(bits, LARGEST: tl.constexpr, SCALES: tl.constexpr):
    """(scale, factor) of the largest magnitudes, in the kind of scale that SCALES names."""
    if _is_mx(SCALES):
        return exponent_and_factor(bits, LARGEST, SCALES == "ceil")
    else:  # noqa: RET505 (both branches are traced without it)
        return scale_and_factor(bits, LARGEST, SCALES == "power_of_two")


@triton.jit
def _scale_offset(row, block, ROWS, across, SCALES: tl.constexpr):
    """The offset of a block's scale."""
    if _is_mx(SCALES):
        return row.to(tl.int64) * across + block
    else:  # noqa: RET505 (both branches are traced without it)
        return offset_of_block_scale(row, block, ROWS)


@triton.jit
def store_blocks(
    values,
    q,
    scale,
    row,
    col,
    ROWS,
    COLS,
    LARGEST: tl.constexpr,
    SCALES: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Cast a tile in blocks of SIZE along its rows, and store it at (row, col) of q and scale."""
    blocks: tl.constexpr = (BLOCK_M, BLOCK_N // SIZE, SIZE)
    split = tl.reshape(values, blocks)
    made_scale, factor = _scale_of_kind(tl.max(magnitude(split), axis=2), LARGEST, SCALES)
    scaled = tl.reshape(split.to(tl.float32) * factor[:, :, None], (BLOCK_M, BLOCK_N))
    if SCALES == "floor":
        scaled = tl.clamp(scaled, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)
    m = row + tl.arange(0, BLOCK_M)
    n = col + tl.arange(0, BLOCK_N)
    inside = (m < ROWS)[:, None] & (n < COLS)[None, :]
    target = q + m.to(tl.int64)[:, None] * COLS + n[None, :]
    tl.store(target, scaled.to(q.dtype.element_ty), mask=inside)
    across = tl.cdiv(COLS, SIZE)
    block = col // SIZE + tl.arange(0, BLOCK_N // SIZE)
    target = scale + _scale_offset(m[:, None], block[None, :], ROWS, across, SCALES)
    tl.store(target, made_scale, mask=(m < ROWS)[:, None] & (block < across)[None, :])


@triton.jit
def _rows_of_blocks_kernel(
    x,
    q,
    scale,
    ROWS,
    COLS,
    STRIDE,
    ALIGN: tl.constexpr,
    LARGEST: tl.constexpr,
    SCALES: tl.constexpr,
    SIZE: tl.constexpr,
    COUNT: tl.constexpr,
    LONG: tl.constexpr,
    WIDE: tl.constexpr,
):
    """COUNT blocks per program, counted along the rows and on from row to row.

    LONG: a row has COUNT blocks or more, so that a program reaches into two rows at most.
    WIDE: x has so many blocks that they are counted in 64 bits; their division takes longer.
    ALIGN divides COLS and STRIDE.
    """
    COLS, STRIDE = multiple_of(COLS, ALIGN), multiple_of(STRIDE, ALIGN)
    across = tl.cdiv(COLS, SIZE)
    program = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)
    first = program * COUNT
    row = (first // across).to(tl.int32)
    block = (first % across).to(tl.int32) + tl.arange(0, COUNT)
    below = (block >= across).to(tl.int32) if LONG else block // across
    row += below
    block -= below * across
    col = block[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    inside = (row < ROWS)[:, None] & (col < COLS)
    source = x + row.to(tl.int64)[:, None] * STRIDE + col
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    made_scale, factor = _scale_of_kind(tl.max(magnitude(values), axis=1), LARGEST, SCALES)
    scaled = values.to(tl.float32) * factor[:, None]
    if SCALES == "floor":
        scaled = tl.clamp(scaled, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)
    target = q + row.to(tl.int64)[:, None] * COLS + col
    tl.store(target, scaled.to(q.dtype.element_ty), mask=inside)
    if _is_mx(SCALES):
        place = first + tl.arange(0, COUNT)  # as the compiler sees, neighbours: one wide store
    else:
        place = offset_of_block_scale(row, block, ROWS)
    tl.store(scale + place, made_scale, mask=row < ROWS)


@triton.jit
def _blocks_kernel(
    x,
    q0,
    scale0,
    q1,
    scale1,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    SCALES: tl.constexpr,
    SIZE: tl.constexpr,
    DOWN: tl.constexpr,
    DIM0: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One tile per program, along its columns and transposed, and with DIM0 along its rows.

    DOWN: rows of a block along the columns; SIZE, or less where x has no more rows.
    ALIGN divides COLS and STRIDE.
    """
    COLS, STRIDE = multiple_of(COLS, ALIGN), multiple_of(STRIDE, ALIGN)
    across = tl.cdiv(COLS, BLOCK_N)
    row = tl.program_id(0) // across * BLOCK_M
    col = tl.program_id(0) % across * BLOCK_N
    m = row + tl.arange(0, BLOCK_M)
    n = col + tl.arange(0, BLOCK_N)
    values, _ = load_tile(x, m, n, ROWS, COLS, STRIDE)
    if DIM0:
        store_blocks(
            values, q0, scale0, row, col, ROWS, COLS, LARGEST, SCALES, SIZE, BLOCK_M, BLOCK_N
        )
    turned = tl.trans(values)
    store_blocks(turned, q1, scale1, col, row, COLS, ROWS, LARGEST, SCALES, DOWN, BLOCK_N, BLOCK_M)


@triton.jit
def _squares_kernel(
    x, q, scale, ROWS, COLS, STRIDE, LARGEST: tl.constexpr, SCALES: tl.constexpr, SIZE: tl.constexpr
):
    """One square of SIZE x SIZE per program."""
    across = tl.cdiv(COLS, SIZE)
    m = tl.program_id(0) // across * SIZE + tl.arange(0, SIZE)
    n = tl.program_id(0) % across * SIZE + tl.arange(0, SIZE)
    values, inside = load_tile(x, m, n, ROWS, COLS, STRIDE)
    bits = tl.max(tl.max(magnitude(values), axis=1), axis=0)
    made_scale, factor = _scale_of_kind(bits, LARGEST, SCALES)
    target = q + m.to(tl.int64)[:, None] * COLS + n[None, :]
    tl.store(target, (values.to(tl.float32) * factor).to(q.dtype.element_ty), mask=inside)
    tl.store(scale + tl.program_id(0), made_scale)


@operator(like_casts("mxfp8"))
def mxfp8_dim0(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, rounding: Rounding = "floor"
) -> Cast:
    """(q [rows, cols], scale [rows, ceil(cols/32)] e8m0), blocks along the rows.

    Raises ValueError for inputs that kernels.common.checks refuses, or an unknown rounding.
    """
    return _cast_along_rows(x, dtype, _checked(rounding), MX_BLOCK)


@operator(like_casts("", "mxfp8"))
def mxfp8_dim1(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, rounding: Rounding = "floor"
) -> Cast:
    """(q [cols, rows], scale [cols, ceil(rows/32)] e8m0), blocks along the columns, transposed.

    Raises ValueError as mxfp8_dim0 does.
    """
    return cast_along_columns(x, dtype, _checked(rounding), MX_BLOCK)


@operator(like_casts("mxfp8", "mxfp8"))
def mxfp8_both(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, rounding: Rounding = "floor"
) -> Both:
    """(q and scale of mxfp8_dim0, q and scale of mxfp8_dim1); raises ValueError as they do."""
    scales = _checked(rounding)
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    by_rows = empty_blocks(x, dtype, scales, MX_BLOCK)
    by_columns = empty_blocks(x.t(), dtype, scales, MX_BLOCK)
    _fill_transposing(x, by_rows, by_columns, largest, scales, MX_BLOCK)
    return (*with_e8m0(by_rows), *with_e8m0(by_columns))


@operator(like_casts("blockwise"))
def blockwise_1x128(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [rows, cols], scale [rows, ceil(cols/128)] fp32), blocks along the rows.

    `power_of_two` rounds scales up to powers of two. Raises ValueError for inputs that
    kernels.common.checks refuses.
    """
    return _cast_along_rows(x, dtype, "power_of_two" if power_of_two else "fp32", BLOCK)


@operator(like_casts("", "blockwise"))
def blockwise_1x128_dim1(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [cols, rows], scale [cols, ceil(rows/128)] fp32), blocks along the columns, transposed.

    Arguments and errors are those of blockwise_1x128.
    """
    return cast_along_columns(x, dtype, "power_of_two" if power_of_two else "fp32", BLOCK)


@operator(like_casts("squares"))
def blockwise_128x128(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [rows, cols], scale [ceil(rows/128), ceil(cols/128)] fp32).

    Arguments and errors are those of blockwise_1x128.
    """
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    rows, cols = x.shape
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    squares = (triton.cdiv(rows, BLOCK), triton.cdiv(cols, BLOCK))
    scale = torch.empty(squares, dtype=torch.float32, device=x.device)
    if x.numel():
        _squares_kernel[(scale.numel(),)](
            x,
            q,
            scale,
            rows,
            cols,
            x.stride(0),
            LARGEST=largest,
            SCALES="power_of_two" if power_of_two else "fp32",
            SIZE=BLOCK,
            num_warps=SQUARES_WARPS,
        )
    return q, scale


def _cast_along_rows(x: torch.Tensor, dtype: torch.dtype, scales: str, size: int) -> Cast:
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    q, scale = empty_blocks(x, dtype, scales, size)
    if x.numel():
        config = SMALL_ALONG_ROWS if x.numel() <= SMALL_MOST_ELEMENTS else ALONG_ROWS
        count = config.elements // size
        rows, cols = x.shape
        _rows_of_blocks_kernel[(triton.cdiv(scale.numel(), count),)](
            x,
            q,
            scale,
            rows,
            cols,
            x.stride(0),
            ALIGN=row_alignment_elements(x),
            LARGEST=largest,
            SCALES=scales,
            SIZE=size,
            COUNT=count,
            LONG=scale.shape[1] >= count,
            WIDE=scale.numel() >= 2**31 - count,
            num_warps=config.num_warps,
        )
    return with_e8m0((q, scale))


def cast_along_columns(x: torch.Tensor, dtype: torch.dtype, scales: str, size: int) -> Cast:
    """(q, scale) in blocks of `size` along the columns, transposed.

    scales: "floor" or "ceil" for e8m0, "fp32", or "power_of_two" for such scales in fp32.
    """
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    by_columns = empty_blocks(x.t(), dtype, scales, size)
    _fill_transposing(x, None, by_columns, largest, scales, size)
    return with_e8m0(by_columns)


def _fill_transposing(
    x: torch.Tensor, by_rows: Cast | None, by_columns: Cast, largest: float, scales: str, size: int
) -> None:
    """Fill (q, scale) along the columns, and those along the rows unless they are None."""
    if not x.numel():
        return
    if size == MX_BLOCK and x.shape[0] > FEW_ROWS and hopper_mx.fits(x):
        hopper_mx.cast(x, by_rows, by_columns, largest=largest, ceil=scales == "ceil")
        return
    rows, cols = x.shape
    tile = _mx_tile(x, both=by_rows is not None) if size == MX_BLOCK else ALONG_COLUMNS
    q0, scale0 = by_rows or (None, None)
    q1, scale1 = by_columns
    _blocks_kernel[(triton.cdiv(rows, tile.rows) * triton.cdiv(cols, tile.cols),)](
        x,
        q0,
        scale0,
        q1,
        scale1,
        rows,
        cols,
        x.stride(0),
        LARGEST=largest,
        SCALES=scales,
        SIZE=size,
        DOWN=min(size, tile.rows),
        DIM0=by_rows is not None,
        ALIGN=row_alignment_elements(x),
        BLOCK_M=tile.rows,
        BLOCK_N=tile.cols,
        num_warps=tile.num_warps,
    )


def _mx_tile(x: torch.Tensor, *, both: bool) -> TileConfig:
    """The tile in which x is cast to mxfp8 along its columns, or both ways."""
    if x.shape[0] <= FEW_ROWS:
        most = FEW_ROWS_TRANSPOSED
        return replace(most, rows=min(most.rows, triton.next_power_of_2(x.shape[0])))
    if x.numel() <= SMALL_MOST_ELEMENTS:
        return SMALL_TRANSPOSED
    return ALONG_BOTH if both else ALONG_COLUMNS


def empty_blocks(x: torch.Tensor, dtype: torch.dtype, scales: str, size: int) -> Cast:
    """(q, scale) to be filled, for blocks along the rows of x; scales of mxfp8 as bytes."""
    rows, cols = x.shape
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    across = triton.cdiv(cols, size)
    if scales in ("floor", "ceil"):
        return q, torch.empty((rows, across), dtype=torch.uint8, device=x.device)
    return q, new_block_scales(rows, across, x.device)


def with_e8m0(cast: Cast) -> Cast:
    """The same cast, with bytes of scales as e8m0."""
    q, scale = cast
    return q, scale.view(torch.float8_e8m0fnu) if scale.dtype == torch.uint8 else scale


def _checked(rounding: str) -> str:
    if rounding not in ("floor", "ceil"):
        raise ValueError(f"rounding: wanted floor or ceil, got {rounding}")
    return rounding
