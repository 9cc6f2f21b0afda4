"""Casts of a matrix to fp8 along its rows and, transposed, along its columns, from one read.

    tensorwise_both          one scale          x is read twice, its amax first; once where the
                                                amax is given
    blockwise_1x128_both     one per 1 x 128 of the rows, and one per 1 x 128 of the columns
    blockwise_128x128_both   one per 128 x 128

Each returns (q [rows, cols], scale, q [cols, rows], scale): what the two casts of
kernels.cast.tensorwise or kernels.cast.blocks return. The tensor memory unit stores the transposed
one where it can (kernels.cast.hopper.both_ways). Arithmetic: kernels.common.fp8_scales.
"""

from typing import Final, NamedTuple

import torch
import triton
import triton.language as tl

from kernels.cast import rule, tensorwise
from kernels.cast.hopper import both_ways as hopper_both_ways
from kernels.cast.tiles import Both, TileConfig, like_casts, load_tile, store_transposed
from kernels.common.checks import check_matrix, largest_fp8_value
from kernels.common.fp8_scales import (
    BLOCK,
    fill_with_scale_of_zeros,
    magnitude,
    new_block_scales,
    offset_of_block_scale,
    scale_and_factor,
)
from kernels.common.operators import operator


class PartsConfig(NamedTuple):
    """Blocks read in parts of so many rows, and then of so many columns."""

    part: int
    num_warps: int


# Where kernels.cast.hopper.both_ways does not fit.
TENSORWISE: Final = TileConfig(rows=32, cols=128, num_warps=4)
BLOCKS: Final = TileConfig(rows=BLOCK, cols=BLOCK, num_warps=16)
# Blocks that are held in parts: see rule.holds_blocks_in_parts. The fastest of five on an H200:
# of [8191, 8193] strips take 242 us (32 and 8 warps: 450), squares 188 (16 and 4: 329).
PARTS: Final = {
    "strips": PartsConfig(part=16, num_warps=4),
    "squares": PartsConfig(part=32, num_warps=8),
}


@triton.jit
def _both_ways_kernel(
    x,
    q0,
    scale0,
    q1,
    scale1,
    partial,
    ROWS,
    COLS,
    STRIDE,
    PARTIALS,
    LARGEST: tl.constexpr,
    KIND: tl.constexpr,
    MOST_PARTIALS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One tile per program, the last one first: the pass before left the end of x in the cache."""
    across = tl.cdiv(COLS, BLOCK_N)
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    down, right = tile // across, tile % across
    row = down * BLOCK_M + tl.arange(0, BLOCK_M)
    col = right * BLOCK_N + tl.arange(0, BLOCK_N)
    values, inside = load_tile(x, row, col, ROWS, COLS, STRIDE)
    if KIND == "strips":
        made_scale, factor = scale_and_factor(tl.max(magnitude(values), axis=1), LARGEST, False)
        place = scale0 + offset_of_block_scale(row, right, ROWS)
        tl.store(place, made_scale, mask=row < ROWS)
        by_rows = values.to(tl.float32) * factor[:, None]
        made_scale, factor = scale_and_factor(tl.max(magnitude(values), axis=0), LARGEST, False)
        place = scale1 + offset_of_block_scale(col, down, COLS)
        tl.store(place, made_scale, mask=col < COLS)
        by_columns = values.to(tl.float32) * factor[None, :]
    else:
        if KIND == "squares":
            bits = tl.max(tl.max(magnitude(values), axis=1), axis=0)
        else:
            maxima = tl.arange(0, MOST_PARTIALS)
            # A given amax may be a NaN with a sign.
            bits = tl.load(partial + maxima, mask=maxima < PARTIALS, other=0) & 0x7FFFFFFF
            bits = tl.max(bits, axis=0)
        made_scale, factor = scale_and_factor(bits, LARGEST, False)
        if KIND == "squares":
            tl.store(scale0 + tile, made_scale)
            tl.store(scale1 + right * tl.cdiv(ROWS, BLOCK_M) + down, made_scale)
        elif tile == 0:
            tl.store(scale0, made_scale)
            tl.store(scale1, made_scale)
        by_rows = values.to(tl.float32) * factor
        by_columns = by_rows
    target = q0 + row.to(tl.int64)[:, None] * COLS + col[None, :]
    tl.store(target, by_rows.to(q0.dtype.element_ty), mask=inside)
    store_transposed(by_columns.to(q1.dtype.element_ty), inside, q1, row, col, ROWS)


@triton.jit
def _in_parts_kernel(
    x,
    q0,
    scale0,
    q1,
    scale1,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: tl.constexpr,
    STRIPS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PART: tl.constexpr,
):
    """A block per program, read in parts: PART rows at a time, and again PART columns at a time.

    Ragged rows and columns are accessed one element at a time. A thread that holds a whole block's
    share would hold as many addresses and masks, and spill.
    """
    across = tl.cdiv(COLS, BLOCK_N)
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    down, right = tile // across, tile % across
    first_row, first_col = down * BLOCK_M, right * BLOCK_N
    m, n = tl.arange(0, PART), tl.arange(0, BLOCK_N)
    largest = tl.zeros((PART, BLOCK_N), dtype=tl.int32)
    for row in range(first_row, tl.minimum(first_row + BLOCK_M, ROWS), PART):
        values, inside = _load_part(x, row, first_col, m, n, ROWS, COLS, STRIDE, False)
        if STRIPS:
            bits = tl.max(magnitude(values), axis=1)
            made_scale, factor = scale_and_factor(bits, LARGEST, False)
            place = scale0 + offset_of_block_scale(row + m, right, ROWS)
            tl.store(place, made_scale, mask=m < ROWS - row)
            scaled = (values.to(tl.float32) * factor[:, None]).to(q0.dtype.element_ty)
            tl.store(_places(q0, row, first_col, m, n, COLS), scaled, mask=inside)
        else:
            largest = tl.maximum(largest, magnitude(values))
    if not STRIPS:
        bits = tl.max(tl.max(largest, axis=1), axis=0)
        made_scale, factor = scale_and_factor(bits, LARGEST, False)
        tl.store(scale0 + tile, made_scale)
        tl.store(scale1 + right * tl.cdiv(ROWS, BLOCK_M) + down, made_scale)
    m, n = tl.arange(0, BLOCK_M), tl.arange(0, PART)
    for col in range(first_col, tl.minimum(first_col + BLOCK_N, COLS), PART):
        values, inside = _load_part(x, first_row, col, m, n, ROWS, COLS, STRIDE, True)
        if STRIPS:
            bits = tl.max(magnitude(values), axis=0)
            made_scale, by_columns = scale_and_factor(bits, LARGEST, False)
            place = scale1 + offset_of_block_scale(col + n, down, COLS)
            tl.store(place, made_scale, mask=n < COLS - col)
            scaled = (values.to(tl.float32) * by_columns[None, :]).to(q1.dtype.element_ty)
        else:
            scaled = (values.to(tl.float32) * factor).to(q1.dtype.element_ty)
            tl.store(_places(q0, first_row, col, m, n, COLS), scaled, mask=inside)
        places = _places(q1, col, first_row, n, m, ROWS)
        tl.store(places, tl.trans(scaled), mask=tl.trans(inside))


@triton.jit
def _load_part(x, row, col, m, n, ROWS, COLS, STRIDE, LAST: tl.constexpr):
    """(values, which are inside) of rows m from `row` on, columns n from `col` on."""
    policy: tl.constexpr = "evict_first" if LAST else ""
    inside = (m < ROWS - row)[:, None] & (n < COLS - col)[None, :]
    source = _places(x, row, col, m, n, STRIDE)
    return tl.load(source, mask=inside, other=0.0, eviction_policy=policy), inside


@triton.jit
def _places(matrix, row, col, m, n, STRIDE):
    """Where [row + m, col + n] lie: an address per row of a thread, to which columns are added."""
    first = matrix + (tl.cast(row, tl.int64) * STRIDE + col)
    return (first + m.to(tl.int64) * STRIDE)[:, None] + n[None, :]


@operator(like_casts("tensorwise", "tensorwise"))
def tensorwise_both(
    x: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    amax: torch.Tensor | None = None,
    units: int | None = None,
) -> Both:
    """(q [rows, cols], scale [], q [cols, rows], scale []): one scale, in two tensors.

    amax: fp32, the largest magnitude of x, if it is known; it spares a pass over x. units: as of
    kernels.common.architecture.compute_units, of that pass.

    Raises ValueError for inputs that kernels.common.checks refuses, or an amax of another kind.
    """
    return _cast_both_ways(x, dtype, "tensorwise", amax, units)


@operator(like_casts("blockwise", "blockwise"))
def blockwise_1x128_both(x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> Both:
    """(q and scale of blockwise_1x128, q and scale of blockwise_1x128_dim1).

    Raises ValueError for inputs that kernels.common.checks refuses.
    """
    return _cast_both_ways(x, dtype, "strips")


@operator(like_casts("squares", "squares"))
def blockwise_128x128_both(x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> Both:
    """(q and scale of blockwise_128x128, the transposes of both, contiguous).

    Raises ValueError for inputs that kernels.common.checks refuses.
    """
    return _cast_both_ways(x, dtype, "squares")


def _cast_both_ways(
    x: torch.Tensor,
    dtype: torch.dtype,
    kind: str,
    amax: torch.Tensor | None = None,
    units: int | None = None,
) -> Both:
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    rows, cols = x.shape
    q0, q1 = (torch.empty(size, dtype=dtype, device=x.device) for size in (x.shape, (cols, rows)))
    scale0, scale1 = (_new_scales(*size, kind, x.device) for size in ((rows, cols), (cols, rows)))
    outputs = (q0, scale0, q1, scale1)
    if amax is not None:
        tensorwise.check_single("amax", amax, x)
    if not x.numel():
        for scale in (scale0, scale1):
            fill_with_scale_of_zeros(scale, largest, power_of_two=False)
        return outputs
    partial = tensorwise.maxima_of(x, amax, units) if kind == "tensorwise" else None
    partials = 0 if partial is None else partial.numel()
    most_partials = triton.next_power_of_2(max(1, partials))
    if hopper_both_ways.fits(x):
        if kind == "strips":
            hopper_both_ways.cast_strips(x, outputs, largest=largest)
        else:
            hopper_both_ways.cast_with_one_scale(
                x, outputs, partial, largest=largest, most_partials=most_partials
            )
        return outputs
    tiles = triton.cdiv(rows, BLOCK) * triton.cdiv(cols, BLOCK)
    if kind != "tensorwise" and rule.holds_blocks_in_parts(rows, cols, strips=kind == "strips"):
        _in_parts_kernel[(tiles,)](
            x,
            *outputs,
            rows,
            cols,
            x.stride(0),
            LARGEST=largest,
            STRIPS=kind == "strips",
            BLOCK_M=BLOCK,
            BLOCK_N=BLOCK,
            PART=PARTS[kind].part,
            num_warps=PARTS[kind].num_warps,
        )
        return outputs
    tile = TENSORWISE if kind == "tensorwise" else BLOCKS
    _both_ways_kernel[(triton.cdiv(rows, tile.rows) * triton.cdiv(cols, tile.cols),)](
        x,
        *outputs,
        partial,
        rows,
        cols,
        x.stride(0),
        partials,
        LARGEST=largest,
        KIND=kind,
        MOST_PARTIALS=most_partials,
        BLOCK_M=tile.rows,
        BLOCK_N=tile.cols,
        num_warps=tile.num_warps,
    )
    return outputs


def _new_scales(rows: int, cols: int, kind: str, device: torch.device) -> torch.Tensor:
    """Empty scales of q [rows, cols]."""
    if kind == "strips":
        return new_block_scales(rows, triton.cdiv(cols, BLOCK), device)
    squares = (triton.cdiv(rows, BLOCK), triton.cdiv(cols, BLOCK)) if kind == "squares" else ()
    return torch.empty(squares, dtype=torch.float32, device=device)
