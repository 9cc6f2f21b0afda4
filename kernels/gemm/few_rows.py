"""Products of fp8 matrices whose A has few rows: B's rows on the matrix unit's M side, K split.

    C[M,N] bf16 = (A[M,K] @ B[N,K].T) * scale_a * scale_b        M <= 128
    C[M,N] bf16 as in kernels.gemm.blockwise                 the same

Shapes as in these two, which send such products here. The matrix unit of Hopper multiplies
64 rows by any number of columns: with B's rows as its rows, one row of A costs 16 of them, not 64.

The time is that of reading B, so all SMs have to read: programs share the K of a tile. Each writes
its sums; the last of a tile to finish (an atomic counter) adds them all in the order of K, so that
results are the same in every run.
"""

import torch
import triton
import triton.language as tl

from kernels.common.architecture import compute_units
from kernels.common.counters import zeroed_counters
from kernels.gemm import configs as gemm_configs
from kernels.gemm.configs import SkinnyConfig
from kernels.gemm.operands import BLOCK, block_scales, described


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
def _both_scales(
    scale_a, scale_b, first, step, M, N, STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
    SQUARE_A: tl.constexpr, SQUARE_B: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """(of A [1, BLOCK_M], of B [BLOCK_N, 1]) in a step; one number where all share it."""
    by_a = block_scales(scale_a, 0, step, M, STRIDE_A_ROW, STRIDE_A_STEP, SQUARE_A, BLOCK_M)
    by_b = block_scales(scale_b, first, step, N, STRIDE_B_ROW, STRIDE_B_STEP, SQUARE_B, BLOCK_N)
    if not SQUARE_A:
        by_a = by_a[None, :]
    if SQUARE_B:
        return by_a * by_b, 1.0
    else:  # noqa: RET505 (both branches are traced without it)
        return by_a, by_b[:, None]


@triton.jit
def _sums_of_blocks(
    a, b, scale_a, scale_b, first, begin, end, M, N,
    STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
    SQUARE_A: tl.constexpr, SQUARE_B: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """As _sums, each block of 128 columns times its scales."""
    sums = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    by_a, by_b = _both_scales(
        scale_a, scale_b, first, begin, M, N, STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW,
        STRIDE_B_STEP, SQUARE_A, SQUARE_B, BLOCK_M, BLOCK_N,
    )  # fmt: skip
    for step in range(begin, end):
        # of the next step: a read takes as long as a step
        next_a, next_b = _both_scales(
            scale_a, scale_b, first, tl.minimum(step + 1, end - 1), M, N, STRIDE_A_ROW,
            STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP, SQUARE_A, SQUARE_B, BLOCK_M, BLOCK_N,
        )  # fmt: skip
        of_block = tl.dot(b.load([first, step * BLOCK]), a.load([0, step * BLOCK]).T)
        sums += of_block * by_a * by_b
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
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """Store a tile [BLOCK_N, BLOCK_M] as columns of C from `first` on, scaled unless BLOCKS are."""
    n = first + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
    if not BLOCKS:
        if ROWS_A:
            sums = sums * tl.load(scale_a + m, mask=m < M, other=0.0)[None, :]
        else:
            sums = sums * tl.load(scale_a)
        if ROWS_B:
            sums = sums * tl.load(scale_b + n, mask=n < N, other=0.0)[:, None]
        else:
            sums = sums * tl.load(scale_b)
    target = c + m[None, :] * STRIDE + n[:, None]
    inside = (m < M)[None, :] & (n < N)[:, None]
    tl.store(target, sums.to(tl.bfloat16), mask=inside)


@triton.jit
def _sum_of_pieces(piece, size: tl.constexpr, SPLIT: tl.constexpr):
    """What SPLIT programs wrote, added in the order of K; past the cache of this unit."""
    sums = tl.load(piece, cache_modifier=".cg")
    for other in tl.static_range(1, SPLIT):
        sums += tl.load(piece + other * size, cache_modifier=".cg")
    return sums


@triton.jit
def _skinny_kernel(
    a, b, c, scale_a, scale_b, partial, counters, M, N, K, STRIDE,
    STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
    BLOCKS: tl.constexpr, ROWS_A: tl.constexpr, ROWS_B: tl.constexpr, PROMOTE: tl.constexpr,
    SPLIT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One piece of the K of one tile per program; a and b are descriptors.

    BLOCKS: scales per block; ROWS_A, ROWS_B: not for 128 rows, or with other scales not for all.
    """
    tile = tl.program_id(0) // SPLIT
    piece = tl.program_id(0) % SPLIT
    steps = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(steps, SPLIT)
    begin, end = piece * share, tl.minimum(steps, (piece + 1) * share)
    if BLOCKS:
        sums = _sums_of_blocks(
            *(a, b, scale_a, scale_b, tile * BLOCK_N, begin, end, M, N),
            *(STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP),
            *(not ROWS_A, not ROWS_B, BLOCK_M, BLOCK_N),
        )
    else:
        sums = _sums(a, b, tile * BLOCK_N, begin, end, PROMOTE, BLOCK_M, BLOCK_N, BLOCK_K)
    if SPLIT == 1:
        _store_scaled(
            *(sums, c, scale_a, scale_b, tile * BLOCK_N, M, N, STRIDE),
            *(BLOCKS, ROWS_A, ROWS_B, BLOCK_N, BLOCK_M),
        )
    else:
        size: tl.constexpr = BLOCK_M * BLOCK_N
        within = tl.arange(0, BLOCK_N)[:, None] * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
        tl.store(partial + tl.program_id(0) * size + within, sums)
        tl.debug_barrier()  # all threads have written before one of them counts
        if tl.atomic_add(counters + tile, 1, sem="acq_rel") == SPLIT - 1:
            sums = _sum_of_pieces(partial + tile * SPLIT * size + within, size, SPLIT)
            tl.store(counters + tile, 0)  # as they were lent
            _store_scaled(
                *(sums, c, scale_a, scale_b, tile * BLOCK_N, M, N, STRIDE),
                *(BLOCKS, ROWS_A, ROWS_B, BLOCK_N, BLOCK_M),
            )


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    slow: bool,
    config: SkinnyConfig = gemm_configs.SKINNY,
) -> None:
    """Fill c; for inputs that kernels.gemm.axiswise checked, a of at most 128 rows."""
    rows = (scale_a.numel() > 1, scale_b.numel() > 1)
    promote = min(128, config.k) if slow else 0
    _launch(a, b, c, (scale_a, scale_b), (0, 0, 0, 0), rows, config, blocks=False, promote=promote)


def launch_blockwise(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    squares: tuple[bool, bool],
    config: SkinnyConfig | None = None,
) -> None:
    """Fill c; for inputs that kernels.gemm.blockwise checked, a of at most 128 rows."""
    if config is None:
        on_amd = torch.version.hip is not None
        config = gemm_configs.SKINNY if on_amd else gemm_configs.SKINNY_BLOCKS
    strides = (*scale_a.stride(), *scale_b.stride())
    rows = (not squares[0], not squares[1])
    _launch(a, b, c, (scale_a, scale_b), strides, rows, config, blocks=True, promote=0)


def _launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor],
    strides: tuple[int, ...],
    rows: tuple[bool, bool],
    config: SkinnyConfig,
    *,
    blocks: bool,
    promote: int,
) -> None:
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    block_m = max(16, triton.next_power_of_2(m))
    tiles = triton.cdiv(n, config.n)
    split = gemm_configs.split_of(config, n, k, compute_units(a))
    partial, counters = None, None
    if split > 1:
        sums = tiles * split * config.n * block_m
        partial = torch.empty(sums, dtype=torch.float32, device=a.device)
        counters = zeroed_counters(tiles, a.device)
    _skinny_kernel[(tiles * split,)](
        described(a, [block_m, config.k]),
        described(b, [config.n, config.k]),
        *(c, *scales, partial, counters, m, n, k, c.stride(0), *strides),
        BLOCKS=blocks,
        ROWS_A=rows[0],
        ROWS_B=rows[1],
        PROMOTE=promote,
        SPLIT=split,
        BLOCK_M=block_m,
        BLOCK_N=config.n,
        BLOCK_K=config.k,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
