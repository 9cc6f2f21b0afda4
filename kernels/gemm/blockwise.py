"""Products of fp8 matrices with a scale per block of 128 columns of K.

    C[m,n] bf16 = sum_j scale_a[m,j] * scale_b[n,j] * sum_(k in block j) A[m,k] * B[n,k]

Shapes: a [M,K] and b [N,K] fp8 (kernels.gemm.operands says which); each operand's scales fp32, per
1 x 128 ([rows, ceil(K/128)]) or per 128 x 128 ([ceil(rows/128), ceil(K/128)]), as
kernels.cast.blocks makes them; blocks at the edge are cut off.

The sums of a block leave the matrix unit and are scaled and added in fp32 registers: two
accumulators, therefore smaller tiles, and always two-level accumulation. Products of few rows go to
kernels.gemm.skinny, large ones on Hopper to kernels.gemm.hopper.staged_scales, unless A has a
scale per 128 x 128.
"""

import torch
import triton
import triton.language as tl

from kernels.common.architecture import has_large_tiles, is_hopper
from kernels.common.fp8_scales import BLOCK
from kernels.common.operators import operator
from kernels.common.tiles import tile_at, tile_descriptor
from kernels.gemm import skinny
from kernels.gemm.hopper import staged_scales
from kernels.gemm.operands import (
    Product,
    check_operands,
    has_square_blocks,
    like_product,
    load_block_scales,
    new_product,
)
from kernels.gemm.rule import BLOCKS, MOST_FEW_ROWS, SMALL_BLOCKS, GemmConfig, choose

Config = GemmConfig | staged_scales.StagedScalesConfig

_BLOCK: tl.constexpr = tl.constexpr(BLOCK)


@triton.jit
def _blockwise_kernel(
    a,
    b,
    c,
    scale_a,
    scale_b,
    M,
    N,
    K,
    STRIDE_A_ROW,
    STRIDE_A_STEP,
    STRIDE_B_ROW,
    STRIDE_B_STEP,
    SQUARE_A: tl.constexpr,
    SQUARE_B: tl.constexpr,
    PROGRAMS: tl.constexpr,
    CONFIG: tl.constexpr,
):
    """Every PROGRAMS-th tile. a, b and c are descriptors."""
    tl.static_assert(_BLOCK % CONFIG.m == 0, "a tile's rows share one square of A")
    tl.static_assert(_BLOCK % CONFIG.n == 0, "a tile's columns share one square of B")
    SHAPE: tl.constexpr = (CONFIG.m, CONFIG.n)
    tiles_m = tl.cdiv(M, CONFIG.m)
    tiles_n = tl.cdiv(N, CONFIG.n)
    steps = tl.cdiv(K, _BLOCK)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=CONFIG.flat):
        tile_m, tile_n = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
        row = tile_m * CONFIG.m
        col = tile_n * CONFIG.n
        sums = tl.zeros(SHAPE, dtype=tl.float32)
        for step in range(steps):
            block_sums = tl.dot(a.load([row, step * _BLOCK]), b.load([col, step * _BLOCK]).T)
            by_a = load_block_scales(
                scale_a, row, step, M, STRIDE_A_ROW, STRIDE_A_STEP, SQUARE_A, CONFIG.m
            )
            by_b = load_block_scales(
                scale_b, col, step, N, STRIDE_B_ROW, STRIDE_B_STEP, SQUARE_B, CONFIG.n
            )
            # the smaller product first: as few multiplications per element as there can be
            if SQUARE_A and SQUARE_B:
                sums += block_sums * (by_a * by_b)
            elif SQUARE_B:
                sums += block_sums * (by_a * by_b)[:, None]
            elif SQUARE_A:
                sums += block_sums * (by_a * by_b)[None, :]
            else:
                sums += block_sums * by_a[:, None] * by_b[None, :]
        c.store([row, col], sums.to(tl.bfloat16))


@operator(like_product, name="blockwise_gemm")
def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    check_values: bool = False,
    units: int | None = None,
) -> torch.Tensor:
    """C [M, N] bf16 of a [M, K] and b [N, K] and their scales; shapes as the module says.

    It is fastest with scales of 1 x 128 as kernels.cast.blocks makes them: transposed in memory,
    columns at 16 bytes. Large products on Hopper copy others to such memory first. check_values and
    units: as kernels.gemm.axiswise.gemm. Raises ValueError, before anything runs, for operands and
    scales that kernels.gemm.operands refuses.
    """
    check_operands(a, b)
    squares = has_square_blocks("scale_a", scale_a, a), has_square_blocks("scale_b", scale_b, b)
    product = new_product(a, b, scale_a, scale_b, check_values=check_values, units=units)
    m, n, _ = product.sizes
    if product.is_empty:
        return product.c.zero_()
    if m <= MOST_FEW_ROWS:
        skinny.launch_blockwise(product, squares=squares)
        return product.c
    config = choose(candidates(product, squares), m, n, product.units)
    if isinstance(config, GemmConfig):
        launch(product, config, squares=squares)
    else:
        staged_scales.launch(product, config, rows_b=not squares[1])
    return product.c


def candidates(product: Product, squares: tuple[bool, bool]) -> tuple[Config, ...]:
    """The configs that the GPU can run. squares: whether a and b have a scale per 128 x 128."""
    table: tuple[Config, ...] = BLOCKS if has_large_tiles(product.a) else SMALL_BLOCKS
    square_a, square_b = squares
    if square_a or not is_hopper(product.a):
        return table
    return (*table, *(staged_scales.SQUARES if square_b else staged_scales.STRIPS))


def launch(product: Product, config: GemmConfig, *, squares: tuple[bool, bool]) -> None:
    """Fill C in plain Triton."""
    _blockwise_kernel[product.grid(config.m, config.n)](
        tile_descriptor(product.a, [config.m, BLOCK]),
        tile_descriptor(product.b, [config.n, BLOCK]),
        tile_descriptor(product.c, [config.m, config.n]),
        product.scale_a,
        product.scale_b,
        *product.sizes,
        *product.scale_a.stride(),
        *product.scale_b.stride(),
        SQUARE_A=squares[0],
        SQUARE_B=squares[1],
        PROGRAMS=product.units,
        CONFIG=config,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
