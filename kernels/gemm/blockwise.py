"""Products of fp8 matrices with a scale per block of 128 columns of K.

    C[m,n] bf16 = sum_j scale_a[m,j] * scale_b[n,j] * sum_(k in block j) A[m,k] * B[n,k]

Shapes: a [M,K] and b [N,K] fp8 (kernels.gemm.operands says which); each operand's scales fp32, per
1 x 128 ([rows, ceil(K/128)]) or per 128 x 128 ([ceil(rows/128), ceil(K/128)]), as
kernels.cast.blocks makes them; blocks at the edge are cut off.

The sums of a block leave the matrix unit and are scaled and added in fp32 registers: two
accumulators, therefore smaller tiles, and always two-level accumulation. Products of few rows go to
kernels.gemm.few_rows, large ones on Hopper to kernels.gemm.hopper.staged_scales or
kernels.gemm.hopper.cooperative.
"""

import torch
import triton
import triton.language as tl

from kernels.common.architecture import compute_units
from kernels.common.checks import check_scale_values
from kernels.gemm import configs as gemm_configs
from kernels.gemm import few_rows as fp8_gemm_skinny
from kernels.gemm.axiswise import Candidates, has_large_tiles
from kernels.gemm.configs import BlocksConfig, GemmConfig, HopperGemmConfig
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper
from kernels.gemm.hopper import staged_scales as fp8_gemm_blocks
from kernels.gemm.operands import (
    BLOCK,
    block_scales,
    check_operands,
    described,
    is_square_scaled,
    new_output,
    tile_of,
)


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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
    FLAT: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Every PROGRAMS-th tile, of at most 128 rows and columns: a square has one scale for it."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLAT):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row = tile_m * BLOCK_M
        col = tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            of_block = tl.dot(a.load([row, step * BLOCK]), b.load([col, step * BLOCK]).T)
            by_a = block_scales(
                scale_a, row, step, M, STRIDE_A_ROW, STRIDE_A_STEP, SQUARE_A, BLOCK_M
            )
            by_b = block_scales(
                scale_b, col, step, N, STRIDE_B_ROW, STRIDE_B_STEP, SQUARE_B, BLOCK_N
            )
            # the smaller product first: as few multiplications per element as there can be
            if SQUARE_A and SQUARE_B:
                sums += of_block * (by_a * by_b)
            elif SQUARE_B:
                sums += of_block * (by_a * by_b)[:, None]
            elif SQUARE_A:
                sums += of_block * (by_a * by_b)[None, :]
            else:
                sums += of_block * by_a[:, None] * by_b[None, :]
        c.store([row, col], sums.to(tl.bfloat16))


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    check_values: bool = False,
) -> torch.Tensor:
    """C [M, N] bf16 of a [M, K] and b [N, K] and their scales; shapes as the module says.

    Fastest with scales of 1 x 128 as kernels.cast.blocks makes them: transposed in memory, columns
    at 16 bytes. check_values: as kernels.gemm.axiswise.gemm. Raises ValueError, before anything
    runs, for operands and scales that fp8_operands refuses.
    """
    m, n, k = check_operands(a, b)
    square_a = is_square_scaled("scale_a", scale_a, a, BLOCK.value)
    square_b = is_square_scaled("scale_b", scale_b, b, BLOCK.value)
    check_scale_values("scale_a", scale_a, wait=check_values)
    check_scale_values("scale_b", scale_b, wait=check_values)
    c = new_output(a, b)
    if not c.numel() or not k:
        return c.zero_()
    if m <= gemm_configs.SKINNY_ROWS:
        squares = (square_a, square_b)
        fp8_gemm_skinny.launch_blockwise(a, b, c, scale_a, scale_b, squares=squares)
        return c
    candidates: Candidates = gemm_configs.SMALL_BLOCKWISE
    if has_large_tiles(a):
        candidates = gemm_configs.BLOCKWISE
    if not square_a and fp8_gemm_hopper.fits(a):
        candidates = (*candidates, *_on_hopper(scale_a, None if square_b else scale_b))
    config = gemm_configs.choose(candidates, m, n, compute_units(a))
    if isinstance(config, HopperGemmConfig):
        fp8_gemm_hopper.launch_blockwise(a, b, c, scale_a, scale_b, config=config)
    elif isinstance(config, BlocksConfig):
        rows_b = not square_b
        fp8_gemm_blocks.launch(a, b, c, scale_a, scale_b, rows_b=rows_b, config=config)
    elif isinstance(config, GemmConfig):
        launch(a, b, c, scale_a, scale_b, config, squares=(square_a, square_b))
    return c


def _on_hopper(scale_a: torch.Tensor, rows_b: torch.Tensor | None) -> Candidates:
    """What else there is for A per 1 x 128, and B too (its scales) or per 128 x 128 (None)."""
    if rows_b is not None:
        both = fp8_gemm_blocks.takes(scale_a) and fp8_gemm_blocks.takes(rows_b)
        return gemm_configs.BLOCKS_ROWS if both else ()
    large = gemm_configs.BLOCKS if fp8_gemm_blocks.takes(scale_a) else ()
    return (*large, gemm_configs.HOPPER["blocks"])


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    config: GemmConfig,
    *,
    squares: tuple[bool, bool],
) -> None:
    """Fill c with one config; for inputs that `gemm` checked."""
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    units = compute_units(a)
    _blockwise_kernel[(min(triton.cdiv(m, config.m) * triton.cdiv(n, config.n), units),)](
        described(a, [config.m, BLOCK.value]),
        described(b, [config.n, BLOCK.value]),
        described(c, [config.m, config.n]),
        *(scale_a, scale_b, m, n, k, *scale_a.stride(), *scale_b.stride()),
        SQUARE_A=squares[0],
        SQUARE_B=squares[1],
        BLOCK_M=config.m,
        BLOCK_N=config.n,
        GROUP=config.group,
        FLAT=config.flat,
        PROGRAMS=units,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
