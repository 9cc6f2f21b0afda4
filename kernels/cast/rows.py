"""The cast of a matrix to fp8 with a scale per row.

    rowwise_dim0   q [rows, cols]   scale [rows, 1]    x read once up to 16384 columns, and more in
                                                       few rows: kernels.cast.rule.long_row_tile

Inputs, outputs and arithmetic as in kernels.cast.tensorwise.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
import triton
import triton.language as tl

from kernels.cast import rule
from kernels.cast.tiles import Cast, empty_rowwise, like_casts, load_tile
from kernels.common.architecture import is_amd_build
from kernels.common.checks import check_matrix, largest_fp8_value
from kernels.common.fp8_scales import magnitude, scale_and_factor
from kernels.common.operators import operator


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsConfig:
    """How rows that stay in registers are cut into programs.

    least_elements       elements of a program: shorter rows share one
    most_rows            rows of a program at most
    elements_per_thread  decides the warps
    most_warps           of a program
    """

    least_elements: int
    most_rows: int
    elements_per_thread: int
    most_warps: int


class RowsTile(NamedTuple):
    """The whole rows that a program keeps: `rows` of them, in blocks of `block` columns."""

    block: int
    rows: int
    num_warps: int


# On an H200 in us: 8192^2 takes 51.5 with 16 elements per thread and 52.5 with 32; 16384^2 takes
# the same time in 16 or 32 warps.
ROWS: Final = RowsConfig(least_elements=4096, most_rows=64, elements_per_thread=16, most_warps=16)
LONG_ROWS_ELEMENTS: Final = 1024  # of a warp, of rows that are read twice
HELD_ROW_WARPS: Final = 32  # of rows that are held in two parts


@triton.jit
def cast_rows(
    program,
    x,
    q,
    scale,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The program-th R whole rows, kept in registers between their amax and their cast."""
    row = program * R + tl.arange(0, R)
    col = tl.arange(0, BLOCK)
    values, inside = load_tile(x, row, col, ROWS, COLS, STRIDE)
    bits = magnitude(values)
    store_rows(values, bits, q, scale, row, col, inside, ROWS, COLS, LARGEST, POWER_OF_TWO)


@triton.jit
def store_rows(
    values,
    bits,
    q,
    scale,
    row,
    col,
    inside,
    ROWS,
    COLS,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
):
    """Cast whole rows of the magnitudes `bits` and store them with their scales."""
    made_scale, factor = scale_and_factor(tl.max(bits, axis=1), LARGEST, POWER_OF_TWO)
    scaled = values.to(tl.float32) * factor[:, None]
    target = q + row.to(tl.int64)[:, None] * COLS + col[None, :]
    tl.store(target, scaled.to(q.dtype.element_ty), mask=inside)
    tl.store(scale + row, made_scale, mask=row < ROWS)


@triton.jit
def _rows_kernel(
    x,
    q,
    scale,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """R rows per program."""
    program = tl.program_id(0)
    cast_rows(program, x, q, scale, ROWS, COLS, STRIDE, LARGEST, POWER_OF_TWO, R, BLOCK)


@triton.jit
def _two_part_rows_kernel(
    x,
    q,
    scale,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
):
    """One row of HEAD + 1 to HEAD + TAIL columns per program, kept in registers in two parts.

    One part of a power of two would have up to twice as many lanes as there are columns.
    """
    row = tl.program_id(0).to(tl.int64)
    head, tail = tl.arange(0, HEAD), HEAD + tl.arange(0, TAIL)
    source, target = x + row * STRIDE, q + row * COLS
    first = tl.load(source + head)
    second = tl.load(source + tail, mask=tail < COLS, other=0.0)
    largest = tl.maximum(tl.max(magnitude(first), axis=0), tl.max(magnitude(second), axis=0))
    made_scale, factor = scale_and_factor(largest, LARGEST, POWER_OF_TWO)
    cast = (first.to(tl.float32) * factor).to(q.dtype.element_ty)
    tl.store(target + head, cast)
    cast_tail = (second.to(tl.float32) * factor).to(q.dtype.element_ty)
    tl.store(target + tail, cast_tail, mask=tail < COLS)
    tl.store(scale + row, made_scale)


@triton.jit
def _long_rows_kernel(
    x,
    q,
    scale,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row per program, read twice, the second time backwards and from the cache."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, COLS, BLOCK):
        col = start + lanes
        values = tl.load(x + row * STRIDE + col, mask=col < COLS, other=0.0)
        largest = tl.maximum(largest, magnitude(values))
    made_scale, factor = scale_and_factor(tl.max(largest, axis=0), LARGEST, POWER_OF_TWO)
    last = (COLS - 1) // BLOCK * BLOCK
    for back in range(0, COLS, BLOCK):
        col = last - back + lanes
        source = x + row * STRIDE + col
        values = tl.load(source, mask=col < COLS, other=0.0, eviction_policy="evict_first")
        scaled = values.to(tl.float32) * factor
        tl.store(q + row * COLS + col, scaled.to(q.dtype.element_ty), mask=col < COLS)
    tl.store(scale + row, made_scale)


@operator(like_casts("axiswise"))
def rowwise_dim0(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [rows, cols], scale [rows, 1]), each row by its own amax.

    `power_of_two` rounds scales up to powers of two. Raises ValueError for inputs that
    kernels.common.checks refuses.
    """
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    rows, cols = x.shape
    q, scale = empty_rowwise(rows, cols, dtype, x)
    if rows == 0:
        return q, scale
    if cols > rule.MOST_COLUMNS_OF_ROW:
        _cast_long_rows(x, q, scale, largest, power_of_two)
        return q, scale
    tile = rows_tile(cols, ROWS)
    _rows_kernel[(triton.cdiv(rows, tile.rows),)](
        x,
        q,
        scale,
        rows,
        cols,
        x.stride(0),
        LARGEST=largest,
        POWER_OF_TWO=power_of_two,
        R=tile.rows,
        BLOCK=tile.block,
        num_warps=tile.num_warps,
    )
    return q, scale


def _cast_long_rows(
    x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, largest: float, power_of_two: bool
) -> None:
    """Cast rows of more than rule.MOST_COLUMNS_OF_ROW columns, one per program."""
    rows, cols = x.shape
    options: dict[str, Any] = {"LARGEST": largest, "POWER_OF_TWO": power_of_two}
    tile = rule.long_row_tile(rows, cols, x.element_size())
    if tile and not is_amd_build():  # a warp has 64 threads there, and a program at most 1024
        cut = {"HEAD": tile.head, "TAIL": tile.tail, "num_warps": HELD_ROW_WARPS}
        _two_part_rows_kernel[(rows,)](x, q, scale, cols, x.stride(0), **options, **cut)
    else:
        are_few = rows <= rule.FEW_LONG_ROWS
        block = rule.FEW_LONG_ROWS_BLOCK if are_few else rule.LONG_ROWS_BLOCK
        cut = {"BLOCK": block, "num_warps": max(1, block // LONG_ROWS_ELEMENTS)}
        _long_rows_kernel[(rows,)](x, q, scale, cols, x.stride(0), **options, **cut)


def rows_tile(cols: int, config: RowsConfig) -> RowsTile:
    """What a program keeps of rows of so many columns."""
    block = triton.next_power_of_2(max(1, cols))
    rows = max(1, min(config.most_rows, config.least_elements // block))
    warps = block * rows // (32 * config.elements_per_thread)
    return RowsTile(block, rows, max(1, min(config.most_warps, warps)))
