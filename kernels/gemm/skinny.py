"""Products of fp8 matrices whose A has few rows: B's rows on the matrix unit's M side, K split.

    C[M,N] bf16 as in kernels.gemm.axiswise or kernels.gemm.blockwise        M <= 64

Shapes as in these two, which send such products here. The matrix unit of Hopper multiplies
64 rows by any number of columns: with B's rows as its rows, one row of A costs 16 of them, not 64.

The time is that of reading B, so all multiprocessors have to read: programs share the K of a tile.
Each writes its sums; the last of a tile to finish (an atomic counter) adds them all in the order of
K, so that results are the same in every run.
"""

import torch
import triton
import triton.language as tl

from kernels.common.architecture import is_amd_build
from kernels.common.counters import zeroed_counters
from kernels.common.fp8_scales import BLOCK
from kernels.common.tiles import tile_descriptor
from kernels.gemm.operands import Product, load_block_scales
from kernels.gemm.rule import FEW_ROWS, FEW_ROWS_BLOCKS, SkinnyConfig, split_of_k

_BLOCK: tl.constexpr = tl.constexpr(BLOCK)


@triton.jit
def _sums(
    a,
    b,
    first,
    begin,
    end,
    PROMOTE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """[BLOCK_N, BLOCK_M], of rows of B from `first` on and steps of K from `begin` to `end`."""
    sums = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for step in range(begin, end):
        weights = b.load([first, step * BLOCK_K])
        rows = a.load([0, step * BLOCK_K]).T
        if PROMOTE:
            sums = tl.dot(weights, rows, sums, max_num_imprecise_acc=PROMOTE)
        else:
            sums = tl.dot(weights, rows, sums)
    return sums


@triton.jit
def _load_both_scales(
    scales,
    first,
    step,
    SQUARE_A: tl.constexpr,
    SQUARE_B: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """(of A [1, BLOCK_M], of B [BLOCK_N, 1]) in a step; one number where all share it."""
    scale_a, scale_b, M, N, STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP = scales
    by_a = load_block_scales(scale_a, 0, step, M, STRIDE_A_ROW, STRIDE_A_STEP, SQUARE_A, BLOCK_M)
    by_b = load_block_scales(
        scale_b, first, step, N, STRIDE_B_ROW, STRIDE_B_STEP, SQUARE_B, BLOCK_N
    )
    if not SQUARE_A:
        by_a = by_a[None, :]
    if SQUARE_B:
        return by_a * by_b, 1.0
    else:  # noqa: RET505 (both branches are traced without it)
        return by_a, by_b[:, None]


@triton.jit
def _scaled_sums(
    a,
    b,
    scales,
    first,
    begin,
    end,
    SQUARE_A: tl.constexpr,
    SQUARE_B: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """As _sums, each block of 128 columns times its scales."""
    sums = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    by_a, by_b = _load_both_scales(scales, first, begin, SQUARE_A, SQUARE_B, BLOCK_M, BLOCK_N)
    for step in range(begin, end):
        # of the next step: a read takes as long as a step
        later = tl.minimum(step + 1, end - 1)
        next_a, next_b = _load_both_scales(
            scales, first, later, SQUARE_A, SQUARE_B, BLOCK_M, BLOCK_N
        )
        block_sums = tl.dot(b.load([first, step * _BLOCK]), a.load([0, step * _BLOCK]).T)
        sums += block_sums * by_a * by_b
        by_a, by_b = next_a, next_b
    return sums


@triton.jit
def _store_scaled(
    sums,
    c,
    scale_a,
    scale_b,
    first,
    M,
    N,
    STRIDE,
    BLOCKS: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
):
    """Store sums [rows of B, rows of A] as columns of C from `first` on; BLOCKS: already scaled."""
    n = first + tl.arange(0, sums.shape[0])
    m = tl.arange(0, sums.shape[1])
    if not BLOCKS:
        if ROWS_A:
            sums = sums * tl.load(scale_a + m, mask=m < M, other=0.0)[None, :]
        else:
            sums = sums * tl.load(scale_a)
        if ROWS_B:
            sums = sums * tl.load(scale_b + n, mask=n < N, other=0.0)[:, None]
        else:
            sums = sums * tl.load(scale_b)
    target = c + m.to(tl.int64)[None, :] * STRIDE + n[:, None]
    inside = (m < M)[None, :] & (n < N)[:, None]
    tl.store(target, sums.to(tl.bfloat16), mask=inside)


@triton.jit
def _sum_of_pieces(piece, SIZE: tl.constexpr, SPLIT: tl.constexpr):
    """What SPLIT programs wrote, added in the order of K; past the cache of this unit."""
    sums = tl.load(piece, cache_modifier=".cg")
    for other in tl.static_range(1, SPLIT):
        sums += tl.load(piece + other * SIZE, cache_modifier=".cg")
    return sums


@triton.jit
def _skinny_kernel(
    a,
    b,
    c,
    scale_a,
    scale_b,
    partial,
    counters,
    M,
    N,
    K,
    STRIDE,
    STRIDE_A_ROW,
    STRIDE_A_STEP,
    STRIDE_B_ROW,
    STRIDE_B_STEP,
    BLOCKS: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    PROMOTE: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One piece of the K of one tile per program; a and b are descriptors.

    BLOCKS: scales per block; ROWS_A, ROWS_B: not for 128 rows, or with other scales not for all.
    """
    tile = tl.program_id(0) // SPLIT
    piece = tl.program_id(0) % SPLIT
    steps = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(steps, SPLIT)
    begin, end = piece * share, tl.minimum(steps, (piece + 1) * share)
    first = tile * BLOCK_N
    if BLOCKS:
        tl.static_assert(BLOCK_K == _BLOCK, "a step has one scale")
        tl.static_assert(ROWS_B or _BLOCK % BLOCK_N == 0, "a tile lies in one square of B")
        scales = (scale_a, scale_b, M, N, STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP)
        sums = _scaled_sums(
            a, b, scales, first, begin, end, not ROWS_A, not ROWS_B, BLOCK_M, BLOCK_N
        )
    else:
        sums = _sums(a, b, first, begin, end, PROMOTE, BLOCK_M, BLOCK_N, BLOCK_K)
    if SPLIT == 1:
        _store_scaled(sums, c, scale_a, scale_b, first, M, N, STRIDE, BLOCKS, ROWS_A, ROWS_B)
    else:
        size: tl.constexpr = BLOCK_M * BLOCK_N
        within = tl.arange(0, BLOCK_N)[:, None] * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
        tl.store(partial + tl.program_id(0) * size + within, sums)
        tl.debug_barrier()  # all threads have written before one of them counts
        if tl.atomic_add(counters + tile, 1, sem="acq_rel") == SPLIT - 1:
            sums = _sum_of_pieces(partial + tile * SPLIT * size + within, size, SPLIT)
            tl.store(counters + tile, 0)  # as they were lent
            _store_scaled(sums, c, scale_a, scale_b, first, M, N, STRIDE, BLOCKS, ROWS_A, ROWS_B)


def launch(product: Product, config: SkinnyConfig = FEW_ROWS, *, promote: int) -> None:
    """Fill C with a scale per tensor or per row; a has at most 64 rows.

    promote: columns of K after which sums go to fp32 registers, 0 for never.
    """
    _launch(product, config, (0, 0, 0, 0), product.has_row_scales, blocks=False, promote=promote)


def launch_blockwise(
    product: Product, config: SkinnyConfig | None = None, *, squares: tuple[bool, bool]
) -> None:
    """Fill C with scales per block; a has at most 64 rows.

    squares: whether a and b have a scale per 128 x 128, not per 1 x 128.
    """
    if config is None:
        config = FEW_ROWS if is_amd_build() else FEW_ROWS_BLOCKS
    strides = (*product.scale_a.stride(), *product.scale_b.stride())
    rows = (not squares[0], not squares[1])
    _launch(product, config, strides, rows, blocks=True, promote=0)


def _launch(
    product: Product,
    config: SkinnyConfig,
    scale_strides: tuple[int, ...],
    rows: tuple[bool, bool],
    *,
    blocks: bool,
    promote: int,
) -> None:
    m, n, k = product.sizes
    device = product.a.device
    block_m = max(16, triton.next_power_of_2(m))
    tiles = triton.cdiv(n, config.n)
    split = int(split_of_k(config, n, k, product.units))
    partial, counters = None, None
    if split > 1:
        sums = tiles * split * config.n * block_m
        partial = torch.empty(sums, dtype=torch.float32, device=device)
        counters = zeroed_counters(tiles, device)
    _skinny_kernel[(tiles * split,)](
        tile_descriptor(product.a, [block_m, config.k]),
        tile_descriptor(product.b, [config.n, config.k]),
        product.c,
        product.scale_a,
        product.scale_b,
        partial,
        counters,
        m,
        n,
        k,
        product.c.stride(0),
        *scale_strides,
        BLOCKS=blocks,
        ROWS_A=rows[0],
        ROWS_B=rows[1],
        PROMOTE=min(promote, config.k),
        SPLIT=split,
        BLOCK_M=block_m,
        BLOCK_N=config.n,
        BLOCK_K=config.k,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
