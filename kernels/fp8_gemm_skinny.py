"""Products of fp8 matrices whose A has few rows: B's rows on the matrix unit's M side, K split.

    C[M,N] bf16 = (A[M,K] @ B[N,K].T) * scale_a * scale_b        M <= 128

Shapes as in kernels.fp8_gemm, which sends such products here. The matrix unit of Hopper multiplies
64 rows by any number of columns: with B's rows as its rows, one row of A costs 16 of them, not 64.

The time is that of reading B, so all SMs have to read: programs share the K of a tile. Each writes
its sums; the last of a tile to finish (an atomic counter) adds them all in the order of K, so that
results are the same in every run.
"""

import torch
import triton
import triton.language as tl

from kernels import gemm_configs
from kernels.fp8_operands import described
from kernels.fp8_scales import compute_units
from kernels.gemm_configs import SkinnyConfig
from kernels.split_counters import zeroed_counters


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
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """Store a tile [BLOCK_N, BLOCK_M], times its scales, as columns of C from `first` on."""
    n = first + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
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
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    PROMOTE: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One piece of the K of one tile per program; a and b are descriptors."""
    tile = tl.program_id(0) // SPLIT
    piece = tl.program_id(0) % SPLIT
    steps = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(steps, SPLIT)
    sums = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for step in range(piece * share, tl.minimum(steps, (piece + 1) * share)):
        weights = b.load([tile * BLOCK_N, step * BLOCK_K])
        rows = a.load([0, step * BLOCK_K]).T
        if PROMOTE:
            sums = tl.dot(weights, rows, sums, max_num_imprecise_acc=PROMOTE)
        else:
            sums = tl.dot(weights, rows, sums)
    if SPLIT == 1:
        _store_scaled(
            *(sums, c, scale_a, scale_b, tile * BLOCK_N, M, N, STRIDE),
            *(ROWS_A, ROWS_B, BLOCK_N, BLOCK_M),
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
                *(ROWS_A, ROWS_B, BLOCK_N, BLOCK_M),
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
    """Fill c; for inputs that kernels.fp8_gemm checked, a of at most 128 rows."""
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
        *(c, scale_a, scale_b, partial, counters, m, n, k, c.stride(0)),
        ROWS_A=scale_a.numel() > 1,
        ROWS_B=scale_b.numel() > 1,
        PROMOTE=min(128, config.k) if slow else 0,
        SPLIT=split,
        BLOCK_M=block_m,
        BLOCK_N=config.n,
        BLOCK_K=config.k,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
