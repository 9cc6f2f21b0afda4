"""The cast of a matrix to fp8 with a scale per row.

    rowwise_dim0   q [rows, cols]   scale [rows, 1]    x read once up to 16384 columns

Inputs, outputs and arithmetic as in kernels.cast.tensorwise.
"""

import torch
import triton
import triton.language as tl

from kernels.common import configs
from kernels.common.fp8_scales import (
    check_matrix,
    check_target,
    magnitude,
    scale_and_factor,
)

Cast = tuple[torch.Tensor, torch.Tensor]


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
    inside = (row < ROWS)[:, None] & (col < COLS)[None, :]
    source = x + row.to(tl.int64)[:, None] * STRIDE + col[None, :]
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    bits = tl.max(magnitude(values), axis=1)
    made, factor = scale_and_factor(bits, LARGEST, POWER_OF_TWO)
    scaled = values.to(tl.float32) * factor[:, None]
    target = q + row.to(tl.int64)[:, None] * COLS + col[None, :]
    tl.store(target, scaled.to(q.dtype.element_ty), mask=inside)
    tl.store(scale + row, made, mask=row < ROWS)


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
    made, factor = scale_and_factor(tl.max(largest, axis=0), LARGEST, POWER_OF_TWO)
    last = (COLS - 1) // BLOCK * BLOCK
    for back in range(0, COLS, BLOCK):
        col = last - back + lanes
        source = x + row * STRIDE + col
        values = tl.load(source, mask=col < COLS, other=0.0, eviction_policy="evict_first")
        scaled = values.to(tl.float32) * factor
        tl.store(q + row * COLS + col, scaled.to(q.dtype.element_ty), mask=col < COLS)
    tl.store(scale + row, made)


def rowwise_dim0(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [rows, cols], scale [rows, 1]), each row by its own amax.

    Raises ValueError for inputs that fp8_scales refuses.
    """
    check_matrix(x)
    largest = check_target(dtype, x)
    rows, cols = x.shape
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    scale = torch.empty((rows, 1), dtype=torch.float32, device=x.device)
    if rows == 0:
        return q, scale
    how = {"LARGEST": largest, "POWER_OF_TWO": power_of_two}
    if cols > configs.ROWS.largest_block:
        _long_rows_kernel[(rows,)](
            x,
            q,
            scale,
            cols,
            x.stride(0),
            **how,
            BLOCK=configs.ROWS.long_block,
            num_warps=configs.ROWS.long_warps,
        )
        return q, scale
    block, per_program, warps = rows_tile(cols, configs.ROWS)
    _rows_kernel[(triton.cdiv(rows, per_program),)](
        *(x, q, scale, rows, cols, x.stride(0)), **how, R=per_program, BLOCK=block, num_warps=warps
    )
    return q, scale


def rows_tile(cols: int, config: configs.RowsConfig) -> tuple[int, int, int]:
    """(columns of a block, rows of a program, warps) for rows of this many columns."""
    block = triton.next_power_of_2(max(1, cols))
    rows = max(1, min(config.most_rows, config.least_elements // block))
    warps = block * rows // (32 * config.elements_per_thread)
    return block, rows, max(1, min(config.most_warps, warps))
