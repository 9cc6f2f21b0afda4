"""Products of fp8 matrices with a scale per tensor or per row, on the tensor memory unit.

    C[M,N] bf16 = (A[M,K] @ B[N,K].T) * scale_a * scale_b

Shapes: a [M,K] and b [N,K] fp8 (kernels.gemm.operands says which); scale_a one element (tensorwise)
or one per row of a (axiswise), scale_b likewise of b, fp32, in any mixture.

Accumulation `fast` leaves sums in the matrix unit, which on Hopper keeps about 14 bits of them
(DeepGEMM issue 37); `slow` adds them to fp32 registers every 128 columns of K, as cuBLAS does with
use_fast_accum=False.

Persistent: each program walks over tiles, so that a tile's last stores overlap the next one's
loads. Scales are applied once, at the end. Products of few rows go to kernels.gemm.skinny, large
ones with fast accumulation on Hopper to kernels.gemm.hopper.pingpong.
"""

from typing import Final, Literal, get_args

import torch
import triton
import triton.language as tl

from kernels.common.architecture import has_large_tiles, is_hopper
from kernels.common.operators import operator
from kernels.common.tiles import tile_at, tile_descriptor
from kernels.gemm import skinny
from kernels.gemm.hopper import pingpong
from kernels.gemm.operands import (
    Product,
    check_axis_scale,
    check_operands,
    like_product,
    new_product,
)
from kernels.gemm.rule import FAST, MOST_FEW_ROWS, SLOW, SMALL, GemmConfig, choose

Accumulation = Literal["fast", "slow"]
Config = GemmConfig | pingpong.PingpongConfig

# Columns of K after which slow accumulation adds to fp32 registers.
PROMOTION: Final = 128


@triton.jit
def _load_row_scales(
    scale_a, scale_b, row, M, ROWS_A: tl.constexpr, ROWS_B: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Scales of the rows of a tile [BLOCK_M, 1], or one; times that of B where B has one."""
    if ROWS_A:
        m = row + tl.arange(0, BLOCK_M)
        by_rows = tl.load(scale_a + m, mask=m < M, other=0.0)[:, None]
    else:
        by_rows = tl.load(scale_a)
    if not ROWS_B:
        by_rows = by_rows * tl.load(scale_b)
    return by_rows


@triton.jit
def _finished(sums, scale_b, by_rows, col, N, ROWS_B: tl.constexpr):
    """Columns of a tile from `col` on in bf16, times their scales, if there are any."""
    if ROWS_B:
        n = col + tl.arange(0, sums.shape[1])
        sums = sums * by_rows * tl.load(scale_b + n, mask=n < N, other=0.0)[None, :]
    elif by_rows is not None:
        sums = sums * by_rows
    return sums.to(tl.bfloat16)


@triton.jit
def store_tile(c, sums, scale_b, by_rows, row, col, N, ROWS_B: tl.constexpr, PARTS: tl.constexpr):
    """Store a tile through the descriptor c, in one part or in two, which need half the buffer."""
    if PARTS == 2:
        rows: tl.constexpr = sums.shape[0]
        half: tl.constexpr = sums.shape[1] // 2
        first, second = tl.split(tl.permute(tl.reshape(sums, (rows, 2, half)), (0, 2, 1)))
        c.store([row, col], _finished(first, scale_b, by_rows, col, N, ROWS_B))
        col += half
        c.store([row, col], _finished(second, scale_b, by_rows, col, N, ROWS_B))
    else:
        c.store([row, col], _finished(sums, scale_b, by_rows, col, N, ROWS_B))


@triton.jit
def _gemm_kernel(
    a,
    b,
    c,
    scale_a,
    scale_b,
    M,
    N,
    K,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    PROMOTE: tl.constexpr,
    PROGRAMS: tl.constexpr,
    CONFIG: tl.constexpr,
):
    """Every PROGRAMS-th tile. a, b and c are descriptors. PROMOTE: columns of K, 0 for never."""
    tl.static_assert(CONFIG.k >= PROMOTE, "sums are promoted within a step")
    SHAPE: tl.constexpr = (CONFIG.m, CONFIG.n)
    tiles_m = tl.cdiv(M, CONFIG.m)
    tiles_n = tl.cdiv(N, CONFIG.n)
    steps = tl.cdiv(K, CONFIG.k)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=CONFIG.flat):
        tile_m, tile_n = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
        row = tile_m * CONFIG.m
        col = tile_n * CONFIG.n
        sums = tl.zeros(SHAPE, dtype=tl.float32)
        for step in range(steps):
            left = a.load([row, step * CONFIG.k])
            right = b.load([col, step * CONFIG.k]).T
            if PROMOTE:
                sums = tl.dot(left, right, sums, max_num_imprecise_acc=PROMOTE)
            else:
                sums = tl.dot(left, right, sums)
        by_rows = _load_row_scales(scale_a, scale_b, row, M, ROWS_A, ROWS_B, CONFIG.m)
        store_tile(c, sums, scale_b, by_rows, row, col, N, ROWS_B, CONFIG.parts)


@operator(like_product, name="axiswise_gemm")
def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    accumulation: Accumulation = "fast",
    check_values: bool = False,
    units: int | None = None,
) -> torch.Tensor:
    """C [M, N] bf16 of a [M, K] and b [N, K]; shapes and accumulation as the module says.

    check_values   refuse scales that are NaN, infinite, zero or negative, too. It waits for the
                   GPU, and cannot be captured in a CUDA graph; on a CPU they always are refused.
    units          as of kernels.common.architecture.compute_units
    Raises ValueError, before anything runs, for operands and scales that kernels.gemm.operands
    refuses or an unknown accumulation.
    """
    check_operands(a, b)
    check_axis_scale("scale_a", scale_a, a)
    check_axis_scale("scale_b", scale_b, b)
    if accumulation not in get_args(Accumulation):
        raise ValueError(f"accumulation: wanted fast or slow, got {accumulation}")
    product = new_product(a, b, scale_a, scale_b, check_values=check_values, units=units)
    m, n, _ = product.sizes
    if product.is_empty:
        return product.c.zero_()
    slow = accumulation == "slow"
    if m <= MOST_FEW_ROWS:
        skinny.launch(product, promote=PROMOTION if slow else 0)
        return product.c
    config = choose(candidates(accumulation, a), m, n, product.units)
    if isinstance(config, GemmConfig):
        launch(product, config, promote=PROMOTION if slow else 0)
    else:
        pingpong.launch(product, config)
    return product.c


def candidates(accumulation: Accumulation, x: torch.Tensor) -> tuple[Config, ...]:
    """The configs that x's GPU can run."""
    if not has_large_tiles(x):
        return SMALL
    if accumulation == "slow":
        return SLOW
    return (*FAST, pingpong.PINGPONG) if is_hopper(x) else FAST


def launch(product: Product, config: GemmConfig, *, promote: int) -> None:
    """Fill C in plain Triton. promote: columns of K after which sums go to fp32, 0 for never."""
    row_scales_a, row_scales_b = product.has_row_scales
    _gemm_kernel[product.grid(config.m, config.n)](
        tile_descriptor(product.a, [config.m, config.k]),
        tile_descriptor(product.b, [config.n, config.k]),
        tile_descriptor(product.c, [config.m, config.n // config.parts]),
        product.scale_a,
        product.scale_b,
        *product.sizes,
        ROWS_A=row_scales_a,
        ROWS_B=row_scales_b,
        PROMOTE=min(promote, config.k),
        PROGRAMS=product.units,
        CONFIG=config,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
