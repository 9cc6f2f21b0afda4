"""Casts with a scale per column, transposed, of columns short enough to stay in registers.

Details of kernels.cast.columns: x is read once. The rows of a small x are cast by the same launch.
"""

from dataclasses import dataclass, replace
from typing import Final

import torch
import triton
import triton.language as tl

from kernels.cast.rows import ROWS, cast_rows, rows_tile
from kernels.cast.tiles import (
    FEW_ROWS,
    Cast,
    load_tile,
    multiple_of,
    row_alignment_elements,
    store_transposed,
)
from kernels.common.architecture import compute_units, is_amd_build, is_hopper
from kernels.common.checks import largest_fp8_value
from kernels.common.fp8_scales import magnitude, scale_and_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortColumnsConfig:
    """How columns that stay in registers are cut into programs.

    most_rows, most_elements    of a matrix whose columns are read once; rows a power of two
    most_ragged_rows, most_ragged_elements  the same on Hopper, where rows are no multiple of 16
    least_rows                  of a program's tile
    least_cols, most_cols       columns of a program, powers of two
    most_elements_of_program    longer columns get fewer columns per program, down to least_cols
    elements_per_thread         decides the warps
    most_warps                  of a program
    """

    most_rows: int
    most_elements: int
    most_ragged_rows: int
    most_ragged_elements: int
    least_rows: int
    least_cols: int
    most_cols: int
    most_elements_of_program: int
    elements_per_thread: int
    most_warps: int


# Read once or twice, on an H200 in us: 1.8 and 4.4 at 1 x 8192, 4.4 and 9.1 at 1024^2, 9.3 and 13.4
# at 2048^2, 39.3 and 31.8 at 4096^2. Ragged rows are worth reading once up to more elements, as
# kernels.cast.hopper.columns does not take them: 44.0 and 69.9 at 4095 x 4097.
SHORT_COLUMNS: Final = ShortColumnsConfig(
    most_rows=2048,
    most_elements=1 << 22,
    most_ragged_rows=4096,
    most_ragged_elements=1 << 24,
    least_rows=16,
    least_cols=8,
    most_cols=64,
    most_elements_of_program=8192,
    elements_per_thread=32,
    most_warps=32,
)
# With few rows, a thread that holds eight columns makes eight divisions one after the other. 1 and
# 16 rows of 8192 take 1.36 and 2.39 so, 1.89 and 2.58 as SHORT_COLUMNS.
SHORT_COLUMNS_OF_FEW_ROWS: Final = replace(
    SHORT_COLUMNS, least_rows=1, least_cols=32, most_cols=32, elements_per_thread=4
)
# Rows of up to so many elements are cast by the same launch: 5.5 together and 6.9 apart at 1024^2,
# but 20.9 and 14.3 at 2048^2.
ROWS_BESIDE_MOST_ELEMENTS: Final = 1 << 21


@triton.jit
def _short_columns_kernel(
    x,
    q,
    scale,
    q0,
    scale0,
    ROWS,
    COLS,
    STRIDE,
    ALIGN: tl.constexpr,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Casts BLOCK_N whole columns per program, kept in registers between amax and cast.

    With q0, programs beyond the columns cast whole rows, R at a time. ALIGN divides COLS and
    STRIDE.
    """
    program = tl.program_id(0)
    across = tl.cdiv(COLS, BLOCK_N)
    if q0 is None or program < across:
        row = tl.arange(0, BLOCK_M)
        col = program * BLOCK_N + tl.arange(0, BLOCK_N)
        cols, stride = multiple_of(COLS, ALIGN), multiple_of(STRIDE, ALIGN)
        values, inside = load_tile(x, row, col, ROWS, cols, stride)
        bits = tl.max(magnitude(values), axis=0)
        made_scale, factor = scale_and_factor(bits, LARGEST, POWER_OF_TWO)
        scaled = (values.to(tl.float32) * factor[None, :]).to(q.dtype.element_ty)
        store_transposed(scaled, inside, q, row, col, ROWS)
        tl.store(scale + col, made_scale, mask=col < cols)
    else:
        row_program = program - across
        cast_rows(row_program, x, q0, scale0, ROWS, COLS, STRIDE, LARGEST, POWER_OF_TWO, R, BLOCK)


def has_short_columns(x: torch.Tensor) -> bool:
    """Whether whole columns of x are cast from one read. Columns of 4096 rows fit on Hopper only.

    Elsewhere they would spill; there, x with rows in multiples of 16 goes to the tensor memory
    unit (kernels.cast.hopper.columns), which is faster from 2048 rows on.
    """
    how = SHORT_COLUMNS
    if x.shape[0] % 16 and is_hopper(x):
        fits = x.shape[0] <= how.most_ragged_rows and x.numel() <= how.most_ragged_elements
    else:
        fits = x.shape[0] <= how.most_rows and x.numel() <= how.most_elements
    return fits and x.numel() > 0 and not is_amd_build()


def short_columns_tile(
    rows: int, cols: int, units: int, how: ShortColumnsConfig
) -> tuple[int, int, int]:
    """(rows and columns of the tile, warps) of a program that casts whole columns.

    The tile is narrower than `most_cols` where there would be fewer programs than `units`.
    """
    block_m = triton.next_power_of_2(max(how.least_rows, rows))
    for_all_units = triton.next_power_of_2(triton.cdiv(cols, units))
    in_registers = how.most_elements_of_program // block_m
    block_n = max(how.least_cols, min(how.most_cols, for_all_units, in_registers))
    warps = block_m * block_n // (32 * how.elements_per_thread)
    return block_m, block_n, max(1, min(how.most_warps, warps))


def cast_short_columns(
    x: torch.Tensor, by_columns: Cast, by_rows: Cast | None, power_of_two: bool
) -> None:
    """Fill (q, scale) of the columns, and those of the rows unless they are None."""
    rows, cols = x.shape
    how = SHORT_COLUMNS_OF_FEW_ROWS if rows <= FEW_ROWS else SHORT_COLUMNS
    block_m, block_n, warps = short_columns_tile(rows, cols, compute_units(x), how)
    tile = rows_tile(cols, ROWS)
    programs = triton.cdiv(cols, block_n)
    if by_rows is not None:
        programs += triton.cdiv(rows, tile.rows)
        warps = max(warps, tile.num_warps)
    q, scale = by_columns
    q0, scale0 = by_rows or (None, None)
    _short_columns_kernel[(programs,)](
        x,
        q,
        scale,
        q0,
        scale0,
        rows,
        cols,
        x.stride(0),
        ALIGN=row_alignment_elements(x),
        LARGEST=largest_fp8_value(q.dtype, x),
        POWER_OF_TWO=power_of_two,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        R=tile.rows,
        BLOCK=tile.block,
        num_warps=warps,
    )
