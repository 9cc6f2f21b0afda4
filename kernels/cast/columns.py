"""Casts of a matrix to fp8 with a scale per column, transposed: what a weight gradient reads.

    rowwise_dim1   q [cols, rows], scale [cols, 1]
    rowwise_both   that, and rowwise_dim0: of small inputs in one launch, of large ones from the
                   same first read (up to 16384 columns), of others one after the other

Inputs, outputs and arithmetic as in kernels.cast.tensorwise. Short columns (configs.SHORT_COLUMNS)
are kept in registers between their amax and their cast. The amax of longer ones is known only after
a pass over all rows, so the input is read twice: the first pass takes the maxima (of a few parts of
each column; beside the cast of rows with atomics, exact in any order), the second casts, backwards,
from what the first left in the cache. On NVIDIA GPUs from Hopper on the second pass is that of
kernels.cast.hopper.row_scales, where the rows of the result can be stored by the tensor memory unit
(a multiple of 16 elements).
"""

import torch
import triton
import triton.language as tl

from kernels.cast.hopper import row_scales as cast_fp8_hopper
from kernels.cast.rows import Cast, cast_rows, rows_tile, rowwise_dim0
from kernels.common import configs
from kernels.common.fp8_scales import (
    alignment,
    check_matrix,
    check_target,
    compute_units,
    fill_as_of_zeros,
    magnitude,
    scale_and_factor,
)


@triton.jit
def _columns_amax_kernel(
    x,
    largest,
    ROWS,
    COLS,
    STRIDE,
    STEPS,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """STEPS tiles per program, one below the other; largest: [programs per column, COLS]."""
    across = tl.cdiv(COLS, BLOCK_N)
    col = (tl.program_id(0) % across) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = (tl.program_id(0) // across) * (STEPS * BLOCK_M)
    row = first + tl.arange(0, BLOCK_M)
    source = x + row.to(tl.int64)[:, None] * STRIDE + col[None, :]
    found = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for _ in range(STEPS):
        values = tl.load(source, mask=(row < ROWS)[:, None] & (col < COLS)[None, :], other=0.0)
        found = tl.maximum(found, magnitude(values))
        row += BLOCK_M
        source += tl.cast(STRIDE, tl.int64) * BLOCK_M
    partial = tl.program_id(0) // across
    tl.store(largest + partial * COLS + col, tl.max(found, axis=0), mask=col < COLS)


@triton.jit
def _cast_short_columns(
    program,
    x,
    q,
    scale,
    ROWS,
    COLS,
    STRIDE,
    ALIGN: tl.constexpr,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """The program-th BLOCK_N whole columns, kept in registers between their amax and their cast.

    ALIGN divides COLS and STRIDE, as in kernels.cast.blocks.
    """
    if ALIGN > 1:
        COLS = COLS // ALIGN * ALIGN
        STRIDE = STRIDE // ALIGN * ALIGN
    row = tl.arange(0, BLOCK_M)
    col = program * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row < ROWS)[:, None] & (col < COLS)[None, :]
    source = x + row.to(tl.int64)[:, None] * STRIDE + col[None, :]
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    made, factor = scale_and_factor(tl.max(magnitude(values), axis=0), LARGEST, POWER_OF_TWO)
    scaled = (values.to(tl.float32) * factor[None, :]).to(q.dtype.element_ty)
    target = q + col.to(tl.int64)[:, None] * ROWS + row[None, :]
    tl.store(target, tl.trans(scaled), mask=tl.trans(inside))
    tl.store(scale + col, made, mask=col < COLS)


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
    """Casts whole columns; with q0, programs beyond the columns cast whole rows, R at a time."""
    program = tl.program_id(0)
    across = tl.cdiv(COLS, BLOCK_N)
    if q0 is None or program < across:
        _cast_short_columns(
            *(program, x, q, scale, ROWS, COLS, STRIDE),
            *(ALIGN, LARGEST, POWER_OF_TWO, BLOCK_M, BLOCK_N),
        )
    else:
        cast_rows(
            *(program - across, x, q0, scale0, ROWS, COLS, STRIDE),
            *(LARGEST, POWER_OF_TWO, R, BLOCK),
        )


@triton.jit
def _rows_and_columns_kernel(
    x,
    q,
    scale,
    largest,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Casts whole rows, R at a time, and takes the columns' maxima from the same registers."""
    col = tl.arange(0, BLOCK)
    found = tl.zeros((R, BLOCK), dtype=tl.int32)
    for step in tl.range(tl.program_id(0), tl.cdiv(ROWS, R), tl.num_programs(0), num_stages=STAGES):
        row = step * R + tl.arange(0, R)
        inside = (row < ROWS)[:, None] & (col < COLS)[None, :]
        source = x + row.to(tl.int64)[:, None] * STRIDE + col[None, :]
        values = tl.load(source, mask=inside, other=0.0)
        bits = magnitude(values)
        found = tl.maximum(found, bits)
        made, factor = scale_and_factor(tl.max(bits, axis=1), LARGEST, POWER_OF_TWO)
        scaled = values.to(tl.float32) * factor[:, None]
        target = q + row.to(tl.int64)[:, None] * COLS + col[None, :]
        tl.store(target, scaled.to(q.dtype.element_ty), mask=inside)
        tl.store(scale + row, made, mask=row < ROWS)
    tl.atomic_max(largest + col, tl.max(found, axis=0), mask=col < COLS, sem="relaxed")


@triton.jit
def _transpose_kernel(
    x,
    q,
    scale,
    largest,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    PARTIALS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One tile per program, the last rows first; a column's maximum is that of its PARTIALS."""
    across = tl.cdiv(COLS, BLOCK_N)
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    row = (tile // across) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = (tile % across) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row < ROWS)[:, None] & (col < COLS)[None, :]
    source = x + row.to(tl.int64)[:, None] * STRIDE + col[None, :]
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    bits = tl.load(largest + col, mask=col < COLS, other=0)
    for partial in tl.static_range(1, PARTIALS):
        found = tl.load(largest + partial * COLS + col, mask=col < COLS, other=0)
        bits = tl.maximum(bits, found)
    made, factor = scale_and_factor(bits, LARGEST, POWER_OF_TWO)
    scaled = (values.to(tl.float32) * factor[None, :]).to(q.dtype.element_ty)
    target = q + col.to(tl.int64)[:, None] * ROWS + row[None, :]
    tl.store(target, tl.trans(scaled), mask=tl.trans(inside))
    if tile < across:
        tl.store(scale + col, made, mask=col < COLS)


def rowwise_dim1(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> Cast:
    """(q [cols, rows] contiguous, scale [cols, 1]), each column by its own amax.

    Raises ValueError for inputs that fp8_scales refuses.
    """
    check_matrix(x)
    check_target(dtype, x)
    if short(x):
        made = _empty_pair(x.shape[1], x.shape[0], dtype, x)
        _cast_short(x, made, None, power_of_two)
        return made
    largest = _columns_amax(x) if x.numel() else _zeros(x)
    return transposed(x, dtype, largest, power_of_two)


def rowwise_both(
    x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, power_of_two: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(q and scale of rowwise_dim0, q and scale of rowwise_dim1).

    Raises ValueError for inputs that fp8_scales refuses.
    """
    check_matrix(x)
    largest_value = check_target(dtype, x)
    rows, cols = x.shape
    if short(x) and cols <= configs.ROWS.largest_block and x.numel() <= configs.SHORT_BOTH_MOST:
        by_rows, by_columns = _empty_pair(rows, cols, dtype, x), _empty_pair(cols, rows, dtype, x)
        _cast_short(x, by_columns, by_rows, power_of_two)
        return (*by_rows, *by_columns)
    small = x.numel() < max(1, configs.BOTH_LEAST_ELEMENTS)
    if small or cols > configs.BOTH_ROWS.largest_block:
        return (
            *rowwise_dim0(x, dtype, power_of_two=power_of_two),
            *rowwise_dim1(x, dtype, power_of_two=power_of_two),
        )
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    scale = torch.empty((rows, 1), dtype=torch.float32, device=x.device)
    largest = _zeros(x)
    block, at_once, warps = rows_tile(cols, configs.BOTH_ROWS)
    most = compute_units(x) * max(1, configs.BOTH.warps_per_unit // warps)
    _rows_and_columns_kernel[(min(triton.cdiv(rows, at_once), most),)](
        *(x, q, scale, largest, rows, cols, x.stride(0)),
        LARGEST=largest_value,
        POWER_OF_TWO=power_of_two,
        R=at_once,
        BLOCK=block,
        STAGES=stages_of(block * at_once * x.element_size(), configs.BOTH),
        num_warps=warps,
    )
    return q, scale, *transposed(x, dtype, largest, power_of_two)


def short(x: torch.Tensor) -> bool:
    """Whether whole columns of x are cast from one read."""
    how = configs.SHORT_COLUMNS
    if x.shape[0] % 16 and _is_hopper(x):  # else its second pass is kernels.cast.hopper.row_scales
        few = x.shape[0] <= how.most_ragged_rows and x.numel() <= how.most_ragged_elements
    else:
        few = x.shape[0] <= how.most_rows and x.numel() <= how.most_elements
    return few and x.numel() > 0 and torch.version.hip is None


def _is_hopper(x: torch.Tensor) -> bool:
    """Columns of 4096 rows spill on others."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device) == (9, 0)


def short_tile(
    rows: int, cols: int, units: int, how: configs.ShortColumnsConfig
) -> tuple[int, int, int]:
    """(rows and columns of the tile, warps) of a program that casts whole columns.

    Narrower than `most_cols` where there would be fewer programs than units.
    """
    block_m = triton.next_power_of_2(max(how.least_rows, rows))
    wanted = triton.next_power_of_2(triton.cdiv(cols, units))
    fits = how.most_elements_of_program // block_m
    block_n = max(how.least_cols, min(how.most_cols, wanted, fits))
    warps = block_m * block_n // (32 * how.elements_per_thread)
    return block_m, block_n, max(1, min(how.most_warps, warps))


def _cast_short(
    x: torch.Tensor, by_columns: Cast, by_rows: Cast | None, power_of_two: bool
) -> None:
    """Fill (q, scale) of the columns, and those of the rows unless they are None."""
    rows, cols = x.shape
    how = configs.SHORT_FEW_ROWS if rows <= configs.FEW_ROWS else configs.SHORT_COLUMNS
    block_m, block_n, warps = short_tile(rows, cols, compute_units(x), how)
    block, at_once, warps_of_rows = rows_tile(cols, configs.ROWS)
    programs = triton.cdiv(cols, block_n)
    if by_rows is not None:
        programs += triton.cdiv(rows, at_once)
        warps = max(warps, warps_of_rows)
    _short_columns_kernel[(programs,)](
        *(x, *by_columns, *(by_rows or (None, None)), rows, cols, x.stride(0)),
        ALIGN=alignment(x),
        LARGEST=check_target(by_columns[0].dtype, x),
        POWER_OF_TWO=power_of_two,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        R=at_once,
        BLOCK=block,
        num_warps=warps,
    )


def _empty_pair(rows: int, cols: int, dtype: torch.dtype, x: torch.Tensor) -> Cast:
    """(q [rows, cols], scale [rows, 1]) to be filled."""
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    return q, torch.empty((rows, 1), dtype=torch.float32, device=x.device)


def stages_of(load_bytes: int, config: configs.PersistentConfig) -> int:
    """Stages of a loop that loads so many bytes at a time, within what may be ahead."""
    return min(config.stages, 1 + config.most_bytes_ahead // load_bytes)


def columns_grid(
    rows: int, cols: int, units: int, config: configs.ColumnsConfig
) -> tuple[int, int]:
    """(programs per column of tiles, a power of two; tiles that each walks down)."""
    across, down = triton.cdiv(cols, config.cols), triton.cdiv(rows, config.rows)
    wanted = min(triton.cdiv(config.programs_per_unit * units, across), down, config.most_partials)
    few = triton.next_power_of_2(min(wanted, config.wide_partials))
    programs = max(few, 1 << wanted.bit_length() - 1)  # beyond few: not more than the GPU has room
    return programs, triton.cdiv(down, programs)


def _zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros((1, x.shape[1]), dtype=torch.int32, device=x.device)


def _columns_amax(x: torch.Tensor) -> torch.Tensor:
    """Bits of the columns' largest magnitudes [partials, cols]."""
    how = configs.COLUMNS_AMAX
    rows, cols = x.shape
    programs, steps = columns_grid(rows, cols, compute_units(x), how)
    largest = torch.empty((programs, cols), dtype=torch.int32, device=x.device)
    _columns_amax_kernel[(programs * triton.cdiv(cols, how.cols),)](
        *(x, largest, rows, cols, x.stride(0), steps),
        BLOCK_M=how.rows,
        BLOCK_N=how.cols,
        num_warps=how.num_warps,
    )
    return largest


def transposed(
    x: torch.Tensor, dtype: torch.dtype, largest: torch.Tensor, power_of_two: bool
) -> Cast:
    """(q [cols, rows], scale [cols, 1]) from maxima [partials, cols] of the columns, as bits."""
    rows, cols = x.shape
    q = torch.empty((cols, rows), dtype=dtype, device=x.device)
    scale = torch.empty((cols, 1), dtype=torch.float32, device=x.device)
    value = check_target(dtype, x)
    if rows == 0:
        fill_as_of_zeros(scale, value, power_of_two)
    elif cols and cast_fp8_hopper.fits(x):
        cast_fp8_hopper.transpose(x, q, scale, largest, value, power_of_two)
    elif cols:
        how = configs.TRANSPOSE
        _transpose_kernel[(triton.cdiv(rows, how.rows) * triton.cdiv(cols, how.cols),)](
            *(x, q, scale, largest, rows, cols, x.stride(0)),
            LARGEST=value,
            POWER_OF_TWO=power_of_two,
            PARTIALS=largest.shape[0],
            BLOCK_M=how.rows,
            BLOCK_N=how.cols,
            num_warps=how.num_warps,
        )
    return q, scale
