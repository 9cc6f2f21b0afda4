"""Casts of a matrix to fp8 with a scale per block: mxfp8 and blockwise, from one read.

    mxfp8_dim0            q [rows, cols]  scale [rows, ceil(cols/32)] e8m0
    mxfp8_dim1            q [cols, rows]  scale [cols, ceil(rows/32)] e8m0: transposed
    mxfp8_both            dim0 and dim1
    blockwise_1x128       q [rows, cols]  scale [rows, ceil(cols/128)] fp32
    blockwise_1x128_dim1  q [cols, rows]  scale [cols, ceil(rows/128)] fp32: transposed
    blockwise_128x128     q [rows, cols]  scale [ceil(rows/128), ceil(cols/128)] fp32

Shapes: x [rows, cols] bf16, fp16 or fp32 with contiguous rows; q e4m3 or e5m2, contiguous; scales
not swizzled for any matrix unit. Blocks at the edge are cut off. The value that q stands
for is q * scale. Arithmetic: kernels.common.fp8_scales. Scales per 1x128 lie transposed in memory
(new_block_scales there), all others in rows.

mxfp8 follows the OCP Microscaling Formats specification 1.0 (blocks of 32, scales 2**e); `floor` is
its conversion, which saturates values above the largest; `ceil` rounds the scale up to where none
is. Transposing mxfp8 casts use kernels.cast.hopper.mx_by_tma or kernels.cast.hopper.mx_by_threads
where these fit.
"""

from dataclasses import replace
from typing import Final, Literal

import torch
import triton
import triton.language as tl

from kernels.cast.hopper import mx_by_threads as cast_mx_hopper
from kernels.cast.hopper import mx_by_tma as cast_mx_tiles
from kernels.cast.rows import Cast
from kernels.common import configs
from kernels.common.fp8_scales import (
    alignment,
    check_matrix,
    check_target,
    exponent_and_factor,
    magnitude,
    new_block_scales,
    place_of_block_scale,
    scale_and_factor,
)

Rounding = Literal["floor", "ceil"]
Both = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
MX_BLOCK: Final = 32
BLOCK: Final = 128


@triton.jit
def _scales(bits, LARGEST: tl.constexpr, SCALES: tl.constexpr):
    """(scale, factor) of the largest magnitudes, in the kind of scale that SCALES names."""
    if SCALES == "floor" or SCALES == "ceil":  # noqa: PLR1714 (Triton knows no `in`)
        return exponent_and_factor(bits, LARGEST, SCALES == "ceil")
    else:  # noqa: RET505 (both branches are traced without it)
        return scale_and_factor(bits, LARGEST, SCALES == "power_of_two")


@triton.jit
def _place(row, block, ROWS, across, SCALES: tl.constexpr):
    """The offset of a block's scale."""
    if SCALES == "floor" or SCALES == "ceil":  # noqa: PLR1714 (Triton knows no `in`)
        return row.to(tl.int64) * across + block
    else:  # noqa: RET505 (both branches are traced without it)
        return place_of_block_scale(row, block, ROWS)


@triton.jit
def _cast_blocks(
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
    made, factor = _scales(tl.max(magnitude(split), axis=2), LARGEST, SCALES)
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
    target = scale + _place(m[:, None], block[None, :], ROWS, across, SCALES)
    tl.store(target, made, mask=(m < ROWS)[:, None] & (block < across)[None, :])


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
):
    """COUNT blocks per program, counted along the rows and on from row to row.

    LONG: a row has COUNT blocks or more, so that a program reaches into two rows at most.

    ALIGN divides COLS and STRIDE: what the compiler cannot see of 1000 (it asks for multiples of
    16), it sees from the products.
    """
    if ALIGN > 1:
        COLS = COLS // ALIGN * ALIGN
        STRIDE = STRIDE // ALIGN * ALIGN
    across = tl.cdiv(COLS, SIZE)
    first = tl.program_id(0) * COUNT
    row = first // across
    block = first % across + tl.arange(0, COUNT)
    below = (block >= across).to(tl.int32) if LONG else block // across
    row += below
    block -= below * across
    col = block[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    inside = (row < ROWS)[:, None] & (col < COLS)
    source = x + row.to(tl.int64)[:, None] * STRIDE + col
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    made, factor = _scales(tl.max(magnitude(values), axis=1), LARGEST, SCALES)
    scaled = values.to(tl.float32) * factor[:, None]
    if SCALES == "floor":
        scaled = tl.clamp(scaled, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)
    target = q + row.to(tl.int64)[:, None] * COLS + col
    tl.store(target, scaled.to(q.dtype.element_ty), mask=inside)
    if SCALES == "floor" or SCALES == "ceil":  # noqa: PLR1714 (Triton knows no `in`)
        place = first + tl.arange(0, COUNT)  # as the compiler sees, neighbours: one wide store
    else:
        place = place_of_block_scale(row, block, ROWS)
    tl.store(scale + place, made, mask=row < ROWS)


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
    ALIGN divides COLS and STRIDE, as in _rows_of_blocks_kernel.
    """
    if ALIGN > 1:
        COLS = COLS // ALIGN * ALIGN
        STRIDE = STRIDE // ALIGN * ALIGN
    across = tl.cdiv(COLS, BLOCK_N)
    row = tl.program_id(0) // across * BLOCK_M
    col = tl.program_id(0) % across * BLOCK_N
    m = row + tl.arange(0, BLOCK_M)
    n = col + tl.arange(0, BLOCK_N)
    inside = (m < ROWS)[:, None] & (n < COLS)[None, :]
    source = x + m.to(tl.int64)[:, None] * STRIDE + n[None, :]
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    if DIM0:
        _cast_blocks(
            values, q0, scale0, row, col, ROWS, COLS, LARGEST, SCALES, SIZE, BLOCK_M, BLOCK_N
        )
    turned = tl.trans(values)
    _cast_blocks(turned, q1, scale1, col, row, COLS, ROWS, LARGEST, SCALES, DOWN, BLOCK_N, BLOCK_M)


@triton.jit
def _squares_kernel(
    x,
    q,
    scale,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    SCALES: tl.constexpr,
    SIZE: tl.constexpr,
):
    """One square of SIZE x SIZE per program."""
    across = tl.cdiv(COLS, SIZE)
    m = tl.program_id(0) // across * SIZE + tl.arange(0, SIZE)
    n = tl.program_id(0) % across * SIZE + tl.arange(0, SIZE)
    inside = (m < ROWS)[:, None] & (n < COLS)[None, :]
    source = x + m.to(tl.int64)[:, None] * STRIDE + n[None, :]
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    bits = tl.max(tl.max(magnitude(values), axis=1), axis=0)
    made, factor = _scales(bits, LARGEST, SCALES)
    target = q + m.to(tl.int64)[:, None] * COLS + n[None, :]
    tl.store(target, (values.to(tl.float32) * factor).to(q.dtype.element_ty), mask=inside)
    tl.store(scale + tl.program_id(0), made)


def mxfp8_dim0(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, rounding: Rounding = "floor"
) -> Cast:
    """(q [rows, cols], scale [rows, ceil(cols/32)] e8m0), blocks along the rows.

    Raises ValueError for inputs that fp8_scales refuses or an unknown rounding.
    """
    return _along_rows(x, dtype, _known(rounding), MX_BLOCK)


def mxfp8_dim1(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, rounding: Rounding = "floor"
) -> Cast:
    """(q [cols, rows], scale [cols, ceil(rows/32)] e8m0), blocks along the columns, transposed.

    Raises ValueError as mxfp8_dim0 does.
    """
    return along_columns(x, dtype, _known(rounding), MX_BLOCK)


def mxfp8_both(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, rounding: Rounding = "floor"
) -> Both:
    """(q and scale of mxfp8_dim0, q and scale of mxfp8_dim1); raises ValueError as they do."""
    how = _known(rounding)
    check_matrix(x)
    largest = check_target(dtype, x)
    by_rows, by_columns = _empty(x, dtype, how, MX_BLOCK), _empty(x.t(), dtype, how, MX_BLOCK)
    _transposing(x, by_rows, by_columns, largest, how)
    return (*_named(by_rows), *_named(by_columns))


def blockwise_1x128(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [rows, cols], scale [rows, ceil(cols/128)] fp32), blocks along the rows.

    Raises ValueError for inputs that fp8_scales refuses.
    """
    return _along_rows(x, dtype, "power_of_two" if power_of_two else "fp32", BLOCK)


def blockwise_1x128_dim1(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [cols, rows], scale [cols, ceil(rows/128)] fp32), blocks along the columns, transposed.

    Raises ValueError for inputs that fp8_scales refuses.
    """
    return along_columns(x, dtype, "power_of_two" if power_of_two else "fp32", BLOCK)


def blockwise_128x128(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [rows, cols], scale [ceil(rows/128), ceil(cols/128)] fp32).

    Raises ValueError for inputs that fp8_scales refuses.
    """
    check_matrix(x)
    largest = check_target(dtype, x)
    rows, cols = x.shape
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    squares = (triton.cdiv(rows, BLOCK), triton.cdiv(cols, BLOCK))
    scale = torch.empty(squares, dtype=torch.float32, device=x.device)
    if x.numel():
        _squares_kernel[(scale.numel(),)](
            *(x, q, scale, rows, cols, x.stride(0)),
            LARGEST=largest,
            SCALES="power_of_two" if power_of_two else "fp32",
            SIZE=BLOCK,
            num_warps=configs.SQUARES_WARPS,
        )
    return q, scale


def _along_rows(x: torch.Tensor, dtype: torch.dtype, how: str, size: int) -> Cast:
    check_matrix(x)
    largest = check_target(dtype, x)
    made = _empty(x, dtype, how, size)
    if x.numel():
        rows, cols = x.shape
        small = x.numel() <= configs.BLOCKS_SMALL_MOST
        cut = configs.BLOCKS_SMALL if small else configs.BLOCKS
        count = cut.block // size
        _rows_of_blocks_kernel[(triton.cdiv(made[1].numel(), count),)](
            *(x, *made, rows, cols, x.stride(0)),
            ALIGN=alignment(x),
            LARGEST=largest,
            SCALES=how,
            SIZE=size,
            COUNT=count,
            LONG=made[1].shape[1] >= count,
            num_warps=cut.num_warps,
        )
    return _named(made)


def along_columns(x: torch.Tensor, dtype: torch.dtype, how: str, size: int) -> Cast:
    """(q, scale) in blocks of `size` along the columns, transposed; `how`: SCALES of the kernel."""
    check_matrix(x)
    largest = check_target(dtype, x)
    made = _empty(x.t(), dtype, how, size)
    _transposing(x, None, made, largest, how, size)
    return _named(made)


def _transposing(
    x: torch.Tensor,
    by_rows: Cast | None,
    by_columns: Cast,
    largest: float,
    how: str,
    size: int = MX_BLOCK,
) -> None:
    """Fill (q, scale) along the columns, and those along the rows unless they are None."""
    if not x.numel():
        return
    many = x.shape[0] > configs.FEW_ROWS
    if size == MX_BLOCK and many and cast_mx_tiles.fits(x):
        cast_mx_tiles.cast(x, by_rows, by_columns, largest=largest, ceil=how == "ceil")
        return
    if size == MX_BLOCK and many and cast_mx_hopper.fits(x):
        cast_mx_hopper.cast(x, by_rows, by_columns, largest=largest, ceil=how == "ceil")
        return
    rows, cols = x.shape
    tile = _tile(x, both=by_rows is not None) if size == MX_BLOCK else configs.BLOCKS_TRANSPOSED
    _blocks_kernel[(triton.cdiv(rows, tile.rows) * triton.cdiv(cols, tile.cols),)](
        *(x, *(by_rows or (None, None)), *by_columns, rows, cols, x.stride(0)),
        LARGEST=largest,
        SCALES=how,
        SIZE=size,
        DOWN=min(size, tile.rows),
        DIM0=by_rows is not None,
        ALIGN=alignment(x),
        BLOCK_M=tile.rows,
        BLOCK_N=tile.cols,
        num_warps=tile.num_warps,
    )


def _tile(x: torch.Tensor, *, both: bool) -> configs.TileConfig:
    """For matrices of few rows or elements or many, cast both ways or along columns to mxfp8."""
    if x.shape[0] <= configs.FEW_ROWS:
        how = configs.BLOCKS_FEW_ROWS
        return replace(how, rows=min(how.rows, triton.next_power_of_2(x.shape[0])))
    if x.numel() <= configs.BLOCKS_SMALL_MOST:
        return configs.BLOCKS_TRANSPOSED_SMALL
    return configs.BLOCKS_BOTH if both else configs.BLOCKS_TRANSPOSED


def _empty(x: torch.Tensor, dtype: torch.dtype, how: str, size: int) -> Cast:
    """(q, scale) to be filled, for blocks along the rows of x; e8m0 as bytes."""
    rows, cols = x.shape
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    across = triton.cdiv(cols, size)
    if how in ("floor", "ceil"):
        return q, torch.empty((rows, across), dtype=torch.uint8, device=x.device)
    return q, new_block_scales(rows, across, x.device)


def _named(made: Cast) -> Cast:
    """The same, bytes of scales as e8m0."""
    q, scale = made
    return q, scale.view(torch.float8_e8m0fnu) if scale.dtype == torch.uint8 else scale


def _known(rounding: str) -> str:
    if rounding not in ("floor", "ceil"):
        raise ValueError(f"rounding: wanted floor or ceil, got {rounding}")
    return rounding
