"""Casts with a scale per column, transposed, of columns short enough to stay in registers.

Details of kernels.cast.columns: x is read once. The rows of a small x are cast by the same launch.
"""

import torch
import triton
import triton.language as tl

from kernels.cast import rule
from kernels.cast.rows import ROWS, cast_rows, rows_tile
from kernels.cast.tiles import (
    Cast,
    load_tile,
    multiple_of,
    row_alignment_elements,
    store_transposed,
)
from kernels.common.architecture import compute_units, is_amd_build, is_hopper
from kernels.common.checks import largest_fp8_value
from kernels.common.fp8_scales import magnitude, scale_and_factor


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
    """Whether whole columns of x are cast from one read."""
    is_short = rule.has_short_columns(*x.shape, on_hopper=is_hopper(x))
    return bool(is_short) and x.numel() > 0 and not is_amd_build()


def cast_short_columns(
    x: torch.Tensor, by_columns: Cast, by_rows: Cast | None, power_of_two: bool
) -> None:
    """Fill (q, scale) of the columns, and those of the rows unless they are None."""
    rows, cols = x.shape
    how = rule.SHORT_COLUMNS_OF_FEW_ROWS if rows <= rule.FEW_ROWS else rule.SHORT_COLUMNS
    block_m, block_n, warps = map(int, rule.short_columns_tile(rows, cols, compute_units(x), how))
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
