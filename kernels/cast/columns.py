"""Casts of a matrix to fp8 with a scale per column, transposed: what a weight gradient reads.

    rowwise_dim1   q [cols, rows], scale [cols, 1]
    rowwise_both   that, and rowwise_dim0: of small inputs in one launch, of large ones from the
                   same first read (up to 16384 columns), of others one after the other

Inputs, outputs and arithmetic as in kernels.cast.tensorwise. Short columns are read once
(kernels.cast.short_columns). The amax of longer ones is known only after a pass over all rows, so x
is read twice. The first pass takes the maxima: of a few parts of each column, or by atomics (exact
in any order) beside the cast of rows. The second pass casts, backwards, from what the first left in
the cache; it is kernels.cast.hopper.columns where the tensor memory unit can store the result.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import torch
import triton
import triton.language as tl

from kernels.cast import rule
from kernels.cast.hopper import columns as hopper_columns
from kernels.cast.rows import ROWS, rows_tile, rowwise_dim0, store_rows
from kernels.cast.short_columns import cast_short_columns, has_short_columns
from kernels.cast.tiles import (
    E4M3,
    Both,
    Cast,
    TileConfig,
    empty_rowwise,
    like_both,
    like_casts,
    load_tile,
    store_transposed,
)
from kernels.common.architecture import compute_units
from kernels.common.checks import check_matrix, largest_fp8_value
from kernels.common.fp8_scales import fill_with_scale_of_zeros, magnitude, scale_and_factor
from kernels.common.operators import operator


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMaximaConfig:
    """How the maxima of columns are taken: programs walk down tiles of rows x cols.

    programs_per_unit  programs per multiprocessor that are wanted
    wide_partials      programs per column up to which more than wanted are taken; a power of two
    most_partials      programs per column at most, which narrow matrices need; a power of two. Each
                       writes a maximum of its own, and the second pass reads them all
    """

    rows: int
    cols: int
    num_warps: int
    programs_per_unit: int
    wide_partials: int
    most_partials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentConfig:
    """Programs that stay: as many as fill a multiprocessor with `warps_per_unit` warps.

    stages            1: no load ahead of its use; n: n - 1 of them, through shared memory
    most_bytes_ahead  of these loads in a program: larger loads get fewer stages
    """

    warps_per_unit: int
    stages: int
    most_bytes_ahead: int


# On an H200 in us, 8192^2 and 16384^2 bf16 unless said otherwise. Four partial maxima per column
# take 91.9 and 340, atomics 95.9 and 340. Narrow matrices take up to sixteen: 26.2 at 13440 x 1024
# and 26.4 at 4096^2; in tiles of 128 x 128 27.0 and 27.2 (with four partial maxima 45.1 and 30.1).
COLUMN_MAXIMA: Final = ColumnMaximaConfig(
    rows=128, cols=64, num_warps=4, programs_per_unit=4, wide_partials=4, most_partials=16
)
# One partial maximum per column, of matrices so wide that columns alone make programs enough.
WIDE_MAXIMA: Final = replace(COLUMN_MAXIMA, wide_partials=1, most_partials=1)
# Where kernels.cast.hopper.columns does not fit: 69.9 at 4095 x 4097, 111 with tiles of 64 x 64.
TRANSPOSE: Final = TileConfig(rows=32, cols=128, num_warps=4)
# Of ragged rows (rule.is_ragged), of which 16 bytes spill otherwise. Not timed yet.
RAGGED_TRANSPOSE: Final = replace(TRANSPOSE, cols=64)
# Rows and columns from the same first read: 121 and 413 with 16 elements per thread and three rows
# ahead of the one that is cast; 126 and 417 with 32 and two; 134 and 470 with none ahead.
BOTH_ROWS: Final = replace(ROWS, most_warps=32)
BOTH_PROGRAMS: Final = PersistentConfig(warps_per_unit=16, stages=4, most_bytes_ahead=65536)

# Scales that are read at a time, and columns that a program writes. Not tuned.
SPREAD_BLOCK: Final = 1024


@triton.jit
def _columns_amax_kernel(
    x, largest, ROWS, COLS, STRIDE, STEPS, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """STEPS tiles per program, one below the other; largest: [programs per column, COLS]."""
    across = tl.cdiv(COLS, BLOCK_N)
    col = (tl.program_id(0) % across) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = (tl.program_id(0) // across) * (STEPS * BLOCK_M)
    row = first + tl.arange(0, BLOCK_M)
    source = x + row.to(tl.int64)[:, None] * STRIDE + col[None, :]
    bits = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for _ in range(STEPS):
        values = tl.load(source, mask=(row < ROWS)[:, None] & (col < COLS)[None, :], other=0.0)
        bits = tl.maximum(bits, magnitude(values))
        row += BLOCK_M
        source += tl.cast(STRIDE, tl.int64) * BLOCK_M
    partial = tl.program_id(0) // across
    tl.store(largest + partial * COLS + col, tl.max(bits, axis=0), mask=col < COLS)


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
    of_columns = tl.zeros((R, BLOCK), dtype=tl.int32)
    for step in tl.range(tl.program_id(0), tl.cdiv(ROWS, R), tl.num_programs(0), num_stages=STAGES):
        row = step * R + tl.arange(0, R)
        values, inside = load_tile(x, row, col, ROWS, COLS, STRIDE, LAST=False)
        bits = magnitude(values)
        of_columns = tl.maximum(of_columns, bits)
        store_rows(values, bits, q, scale, row, col, inside, ROWS, COLS, LARGEST, POWER_OF_TWO)
    tl.atomic_max(largest + col, tl.max(of_columns, axis=0), mask=col < COLS, sem="relaxed")


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
    values, inside = load_tile(x, row, col, ROWS, COLS, STRIDE)
    bits = tl.load(largest + col, mask=col < COLS, other=0)
    for partial in tl.static_range(1, PARTIALS):
        more = tl.load(largest + partial * COLS + col, mask=col < COLS, other=0)
        bits = tl.maximum(bits, more)
    made_scale, factor = scale_and_factor(bits, LARGEST, POWER_OF_TWO)
    scaled = (values.to(tl.float32) * factor[None, :]).to(q.dtype.element_ty)
    store_transposed(scaled, inside, q, row, col, ROWS)
    if tile < across:
        tl.store(scale + col, made_scale, mask=col < COLS)


@triton.jit
def _spread_largest_kernel(scale, largest, COUNT, COLS, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    """The largest of COUNT scales times LARGEST, as bits, for each of BLOCK columns."""
    place = tl.arange(0, BLOCK)
    bits = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, COUNT, BLOCK):
        inside = start + place < COUNT
        bits = tl.maximum(bits, magnitude(tl.load(scale + start + place, mask=inside, other=0.0)))
    amax = tl.max(bits, axis=0).to(tl.float32, bitcast=True) * LARGEST
    col = tl.program_id(0) * BLOCK + place
    every = tl.zeros((BLOCK,), dtype=tl.int32) + magnitude(amax)
    tl.store(largest + col, every, mask=col < COLS)


def spread_largest(scales: torch.Tensor, factor: float, cols: int) -> torch.Tensor:
    """The amax of a matrix for each of its columns: fp32 bits as int32 [1, cols].

    It is the largest of `scales`, fp32 of any shape without gaps, times `factor`. Kernels compare
    magnitudes as int32, where NaN is the largest; see transpose_with_maxima.
    """
    maxima = torch.empty((1, cols), dtype=torch.int32, device=scales.device)
    if cols:
        _spread_largest_kernel[(triton.cdiv(cols, SPREAD_BLOCK),)](
            scales, maxima, scales.numel(), cols, LARGEST=factor, BLOCK=SPREAD_BLOCK, num_warps=4
        )
    return maxima


@operator(like_casts("", "axiswise"))
def rowwise_dim1(
    x: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    power_of_two: bool = False,
    units: int | None = None,
) -> Cast:
    """(q [cols, rows] contiguous, scale [cols, 1]), each column by its own amax.

    `power_of_two` rounds scales up to powers of two. units: as of
    kernels.common.architecture.compute_units, of the pass that finds maxima. Raises ValueError for
    inputs that kernels.common.checks refuses.
    """
    check_matrix(x)
    largest_fp8_value(dtype, x)
    if has_short_columns(x):
        by_columns = empty_rowwise(x.shape[1], x.shape[0], dtype, x)
        cast_short_columns(x, by_columns, None, power_of_two)
        return by_columns
    maxima = _column_maxima(x, COLUMN_MAXIMA, units) if x.numel() else _zero_maxima(x)
    return transpose_with_maxima(x, dtype, maxima, power_of_two)


@operator(like_casts("axiswise", "axiswise"))
def rowwise_both(
    x: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    power_of_two: bool = False,
    units: int | None = None,
) -> Both:
    """(q0 [rows, cols], scale0 [rows, 1], q1 [cols, rows], scale1 [cols, 1]).

    The results of rowwise_dim0 and rowwise_dim1, with their arguments and ValueErrors.
    """
    check_matrix(x)
    largest_fp8_value(dtype, x)
    rows, cols = x.shape
    if has_short_columns(x) and rule.casts_rows_beside_columns(rows, cols):
        by_rows = empty_rowwise(rows, cols, dtype, x)
        by_columns = empty_rowwise(cols, rows, dtype, x)
        cast_short_columns(x, by_columns, by_rows, power_of_two)
        return (*by_rows, *by_columns)
    if not rule.takes_maxima_beside_rows(rows, cols):
        return (
            *rowwise_dim0(x, dtype, power_of_two=power_of_two),
            *rowwise_dim1(x, dtype, power_of_two=power_of_two, units=units),
        )
    q, scale, maxima = rowwise_dim0_and_maxima(x, dtype, power_of_two=power_of_two, units=units)
    return q, scale, *transpose_with_maxima(x, dtype, maxima, power_of_two)


def is_large(x: torch.Tensor) -> bool:
    """Whether x is so large that its columns are cast from maxima that were found before."""
    return x.numel() >= max(1, rule.BOTH_LEAST_ELEMENTS)


def _like_rows_and_maxima(
    x: torch.Tensor, dtype: torch.dtype = E4M3, **_: Any
) -> list[torch.Tensor]:
    return [*like_both(x, "axiswise", "", dtype), x.new_empty((1, x.shape[1]), dtype=torch.int32)]


@operator(_like_rows_and_maxima)
def rowwise_dim0_and_maxima(
    x: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    power_of_two: bool = False,
    units: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(q and scale of rowwise_dim0, int32 [1, cols] for transpose_with_maxima).

    Of x [rows, cols] that is_large; from one read up to rule.MOST_COLUMNS_OF_ROW columns.
    Arguments and ValueErrors as of rowwise_dim1.
    """
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    rows, cols = x.shape
    if cols > rule.MOST_COLUMNS_OF_ROW:
        by_rows = rowwise_dim0(x, dtype, power_of_two=power_of_two)
        return (*by_rows, _column_maxima(x, WIDE_MAXIMA, units))
    q, scale = empty_rowwise(rows, cols, dtype, x)
    maxima = _zero_maxima(x)
    tile = rows_tile(cols, BOTH_ROWS)
    per_unit = max(1, BOTH_PROGRAMS.warps_per_unit // tile.num_warps)
    most_programs = compute_units(x, units) * per_unit
    _rows_and_columns_kernel[(min(triton.cdiv(rows, tile.rows), most_programs),)](
        x,
        q,
        scale,
        maxima,
        rows,
        cols,
        x.stride(0),
        LARGEST=largest,
        POWER_OF_TWO=power_of_two,
        R=tile.rows,
        BLOCK=tile.block,
        STAGES=stages_ahead(tile.block * tile.rows * x.element_size(), BOTH_PROGRAMS),
        num_warps=tile.num_warps,
    )
    return q, scale, maxima


def transpose_with_maxima(
    x: torch.Tensor, dtype: torch.dtype, maxima: torch.Tensor, power_of_two: bool
) -> Cast:
    """(q [cols, rows], scale [cols, 1]) from the columns' maxima.

    maxima: int32 [partials, cols], bits of the largest magnitudes of parts of each column.
    """
    rows, cols = x.shape
    q, scale = empty_rowwise(cols, rows, dtype, x)
    largest = largest_fp8_value(dtype, x)
    if rows == 0:
        fill_with_scale_of_zeros(scale, largest, power_of_two)
    elif cols and hopper_columns.fits(x):
        hopper_columns.transpose(x, q, scale, maxima, largest, power_of_two)
    elif cols:
        is_ragged = rule.is_ragged(cols, x.stride(0), x.data_ptr())
        tile = RAGGED_TRANSPOSE if is_ragged else TRANSPOSE
        tiles = triton.cdiv(rows, tile.rows) * triton.cdiv(cols, tile.cols)
        _transpose_kernel[(tiles,)](
            x,
            q,
            scale,
            maxima,
            rows,
            cols,
            x.stride(0),
            LARGEST=largest,
            POWER_OF_TWO=power_of_two,
            PARTIALS=maxima.shape[0],
            BLOCK_M=tile.rows,
            BLOCK_N=tile.cols,
            num_warps=tile.num_warps,
        )
    return q, scale


def _column_maxima(x: torch.Tensor, how: ColumnMaximaConfig, units: int | None) -> torch.Tensor:
    """Bits of the columns' largest magnitudes, int32 [partials, cols]."""
    rows, cols = x.shape
    if rule.is_ragged(cols, x.stride(0), x.data_ptr()):
        how = replace(how, rows=max(1, how.rows // rule.RAGGED_MAXIMA_ROWS_DIVISOR))
    programs, steps = column_maxima_grid(rows, cols, compute_units(x, units), how)
    maxima = torch.empty((programs, cols), dtype=torch.int32, device=x.device)
    _columns_amax_kernel[(programs * triton.cdiv(cols, how.cols),)](
        x,
        maxima,
        rows,
        cols,
        x.stride(0),
        steps,
        BLOCK_M=how.rows,
        BLOCK_N=how.cols,
        num_warps=how.num_warps,
    )
    return maxima


def column_maxima_grid(
    rows: int, cols: int, units: int, config: ColumnMaximaConfig
) -> tuple[int, int]:
    """(programs per column of tiles, a power of two; tiles that each walks down)."""
    across, down = triton.cdiv(cols, config.cols), triton.cdiv(rows, config.rows)
    for_all_units = triton.cdiv(config.programs_per_unit * units, across)
    programs = min(for_all_units, down, config.most_partials)
    rounded_up = triton.next_power_of_2(min(programs, config.wide_partials))
    rounded_down = 1 << programs.bit_length() - 1  # not more than the GPU has room for
    programs = max(rounded_up, rounded_down)
    return programs, triton.cdiv(down, programs)


def _zero_maxima(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros((1, x.shape[1]), dtype=torch.int32, device=x.device)


def stages_ahead(load_bytes: int, config: PersistentConfig) -> int:
    """Stages of a loop that loads so many bytes at a time, within what may be ahead."""
    return min(config.stages, 1 + config.most_bytes_ahead // load_bytes)
