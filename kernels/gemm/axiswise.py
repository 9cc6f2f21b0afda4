"""Products of fp8 matrices with a scale per tensor or per row, on the tensor memory unit.

    C[M,N] bf16 = (A[M,K] @ B[N,K].T) * scale_a * scale_b

Shapes: a [M,K] and b [N,K] fp8 (kernels.gemm.operands says which); scale_a one element (tensorwise)
or one per row of a (axiswise), scale_b likewise of b, fp32, in any mixture.

Accumulation `fast` leaves sums in the matrix unit, which on Hopper keeps about 14 bits of them
(DeepGEMM issue 37); `slow` adds them to fp32 registers every 128 columns of K, as cuBLAS does with
use_fast_accum=False.

Persistent: each program walks over tiles, so that a tile's last stores overlap the next one's
loads. Scales are applied once, at the end. Products of few rows go to kernels.gemm.few_rows, large
ones on Hopper to kernels.gemm.hopper.pingpong (fast) or kernels.gemm.hopper.cooperative (slow);
kernels.gemm.blockwise has scales per block.
"""

from typing import Literal, get_args

import torch
import triton
import triton.language as tl

from kernels.common.architecture import compute_units
from kernels.common.checks import check_scale_values
from kernels.gemm import configs as gemm_configs
from kernels.gemm import few_rows as fp8_gemm_skinny
from kernels.gemm.configs import AnyConfig, GemmConfig, HopperGemmConfig, PingpongConfig
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper
from kernels.gemm.hopper import pingpong as fp8_gemm_pingpong
from kernels.gemm.operands import (
    check_operands,
    check_scale,
    described,
    new_output,
    tile_of,
)

Accumulation = Literal["fast", "slow"]
Candidates = tuple[AnyConfig, ...]


@triton.jit
def _scaled(values, scale_b, by_rows, col, N, ROWS_B: tl.constexpr):
    """Tile times its scales: those of rows are there, those of columns are read."""
    if ROWS_B:
        n = col + tl.arange(0, values.shape[1])
        return values * by_rows * tl.load(scale_b + n, mask=n < N, other=0.0)[None, :]
    else:  # noqa: RET505 (both branches are traced without it)
        return values * by_rows


@triton.jit
def _by_rows(
    scale_a, scale_b, row, M, ROWS_A: tl.constexpr, ROWS_B: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Scales of the rows of a tile [BLOCK_M, 1], or one; times that of B where it has one."""
    if ROWS_A:
        m = row + tl.arange(0, BLOCK_M)
        by_rows = tl.load(scale_a + m, mask=m < M, other=0.0)[:, None]
    else:
        by_rows = tl.load(scale_a)
    if not ROWS_B:
        by_rows = by_rows * tl.load(scale_b)
    return by_rows


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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PARTS: tl.constexpr,
    GROUP: tl.constexpr,
    FLAT: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Every PROGRAMS-th tile. a, b and c are descriptors."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLAT):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row = tile_m * BLOCK_M
        col = tile_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            left = a.load([row, step * BLOCK_K])
            right = b.load([col, step * BLOCK_K]).T
            if PROMOTE:
                sums = tl.dot(left, right, sums, max_num_imprecise_acc=PROMOTE)
            else:
                sums = tl.dot(left, right, sums)
        by_rows = _by_rows(scale_a, scale_b, row, M, ROWS_A, ROWS_B, BLOCK_M)
        if PARTS == 2:
            halves = tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            first, second = tl.split(halves)
            first = _scaled(first, scale_b, by_rows, col, N, ROWS_B)
            c.store([row, col], first.to(tl.bfloat16))
            col += BLOCK_N // 2
            second = _scaled(second, scale_b, by_rows, col, N, ROWS_B)
            c.store([row, col], second.to(tl.bfloat16))
        else:
            sums = _scaled(sums, scale_b, by_rows, col, N, ROWS_B)
            c.store([row, col], sums.to(tl.bfloat16))


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    accumulation: Accumulation = "fast",
    check_values: bool = False,
) -> torch.Tensor:
    """C [M, N] bf16 of a [M, K] and b [N, K]; shapes and accumulation as the module says.

    check_values   refuse scales that are NaN, infinite, zero or negative, too. It waits for the
                   GPU, and cannot be captured in a CUDA graph; on a CPU they always are refused.
    Raises ValueError, before anything runs, for operands and scales that fp8_operands refuses or an
    unknown accumulation.
    """
    m, n, k = check_operands(a, b)
    check_scale("scale_a", scale_a, a)
    check_scale("scale_b", scale_b, b)
    check_scale_values("scale_a", scale_a, wait=check_values)
    check_scale_values("scale_b", scale_b, wait=check_values)
    if accumulation not in get_args(Accumulation):
        raise ValueError(f"accumulation: wanted fast or slow, got {accumulation}")
    c = new_output(a, b)
    if not c.numel() or not k:
        return c.zero_()
    if m <= gemm_configs.SKINNY_ROWS:
        fp8_gemm_skinny.launch(a, b, c, scale_a, scale_b, slow=accumulation == "slow")
        return c
    promote = 128 if accumulation == "slow" else 0
    config = gemm_configs.choose(_candidates(accumulation, a), m, n, compute_units(a))
    if isinstance(config, HopperGemmConfig):
        fp8_gemm_hopper.launch(a, b, c, scale_a, scale_b, config=config)
    elif isinstance(config, PingpongConfig):
        fp8_gemm_pingpong.launch(a, b, c, scale_a, scale_b, config=config)
    elif isinstance(config, GemmConfig):
        launch(a, b, c, scale_a, scale_b, config, promote=promote)
    return c


def _candidates(accumulation: Accumulation, x: torch.Tensor) -> Candidates:
    """The configs that x's GPU can run."""
    if not has_large_tiles(x):
        return gemm_configs.SMALL
    table = gemm_configs.SLOW if accumulation == "slow" else gemm_configs.FAST
    if not fp8_gemm_hopper.fits(x):
        return table
    slow = accumulation == "slow"
    return (*table, gemm_configs.HOPPER["slow"] if slow else gemm_configs.PINGPONG)


def has_large_tiles(x: torch.Tensor) -> bool:
    """Whether x's GPU has the shared memory of large tiles; the interpreter has."""
    if not x.is_cuda or torch.version.hip is not None:
        return not x.is_cuda
    major, minor = torch.cuda.get_device_capability(x.device)
    return 10 * major + minor in gemm_configs.WITH_LARGE_TILES


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    config: GemmConfig,
    *,
    promote: int,
) -> None:
    """Fill c with one config; for inputs that `gemm` checked. promote: columns, 0 for never."""
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    tiles = triton.cdiv(m, config.m) * triton.cdiv(n, config.n)
    units = compute_units(a)
    _gemm_kernel[(min(tiles, units),)](
        described(a, [config.m, config.k]),
        described(b, [config.n, config.k]),
        described(c, [config.m, config.n // config.parts]),
        *(scale_a, scale_b, m, n, k),
        ROWS_A=scale_a.numel() > 1,
        ROWS_B=scale_b.numel() > 1,
        PROMOTE=min(promote, config.k),
        BLOCK_M=config.m,
        BLOCK_N=config.n,
        BLOCK_K=config.k,
        PARTS=config.parts,
        GROUP=config.group,
        FLAT=config.flat,
        PROGRAMS=units,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
