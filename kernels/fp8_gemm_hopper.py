"""fp8 products whose warpgroups take turns: Gluon, NVIDIA Hopper GPUs.

    C[M,N] bf16 = A[M,K] @ B[N,K].T, scaled as in kernels.fp8_gemm or kernels.fp8_gemm_blockwise

A tile of 128 x 256 has one warp that fetches (tensor memory unit, through a ring of stages in
shared memory) and two warpgroups that multiply, 64 x 256 each, with barriers of their own. So one
can scale, add or store while the other keeps the matrix unit busy, which plain Triton cannot do:
all its warps wait together.

Two-level accumulation takes the columns in two halves one after the other. Of a half the sums of
128 columns of K (64 registers) are added to the total (128 for both): 64 x 256 at once would spill.

Triton's interpreter knows no Gluon: kernels.fp8_gemm and kernels.fp8_gemm_blockwise have the same
products in plain Triton.
"""

from typing import Any

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels import gemm_configs
from kernels.fp8_operands import described
from kernels.fp8_scales import compute_units
from kernels.gemm_configs import HopperGemmConfig

_HEIGHT: gl.constexpr = gl.constexpr(64)  # rows of a warpgroup
_HALF: gl.constexpr = gl.constexpr(128)  # columns of half a tile
_STEP: gl.constexpr = gl.constexpr(128)  # columns of K in a stage
_TILE_M: gl.constexpr = gl.constexpr(128)
_TILE_N: gl.constexpr = gl.constexpr(256)


@gluon.jit
def _tile_of(tile, TILES_M, TILES_N, GROUP: gl.constexpr):
    """kernels.fp8_operands.tile_of."""
    in_group = GROUP * TILES_N
    first = tile // in_group * GROUP
    height = gl.minimum(TILES_M - first, GROUP)
    return first + tile % in_group % height, tile % in_group // height


@gluon.jit
def _fetch(
    a,
    b,
    stages_a,
    stages_b,
    full,
    empty,
    M,
    N,
    K,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    WIDTH: gl.constexpr,
):
    """The fetching warp: every stage of every tile, as soon as it is free; B in boxes of WIDTH."""
    tiles_m = gl.cdiv(M, _TILE_M)
    tiles_n = gl.cdiv(N, _TILE_N)
    steps = gl.cdiv(K, _STEP)
    fetched = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _tile_of(tile, tiles_m, tiles_n, GROUP)
        for step in range(steps):
            stage = fetched % STAGES
            mbarrier.wait(empty.index(stage), ((fetched // STAGES) & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, (_TILE_M + _TILE_N) * _STEP)
            for i in gl.static_range(2):
                at = [tile_m * _TILE_M + i * _HEIGHT, step * _STEP]
                tma.async_copy_global_to_shared(a, at, ready, stages_a.index(2 * stage + i))
            for i in gl.static_range(_TILE_N // WIDTH):
                at = [tile_n * _TILE_N + i * WIDTH, step * _STEP]
                buffer = stages_b.index(_TILE_N // WIDTH * stage + i)
                tma.async_copy_global_to_shared(b, at, ready, buffer)
            fetched += 1


@gluon.jit
def _store(values, c, row, col, staging):
    """One half of a warpgroup's tile, when the half before it has left its buffer."""
    tma.store_wait(0)
    staging.store(values.to(gl.bfloat16))
    fence_async_shared()
    tma.async_copy_shared_to_global(c, [row, col], staging)


@gluon.jit
def _scaled(
    values,
    scale_a,
    scale_b,
    row,
    col,
    M,
    N,
    ROWS_A: gl.constexpr,
    ROWS_B: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """A tile at (row, col) times its scales."""
    if ROWS_A:
        m = row + gl.arange(0, values.shape[0], gl.SliceLayout(1, LAYOUT))
        by = gl.load(scale_a + m, mask=m < M, other=0.0)[:, None]
    else:
        by = gl.load(scale_a)
    if ROWS_B:
        n = col + gl.arange(0, values.shape[1], gl.SliceLayout(0, LAYOUT))
        return values * by * gl.load(scale_b + n, mask=n < N, other=0.0)[None, :]
    else:  # noqa: RET505 (both branches are traced without it)
        return values * (by * gl.load(scale_b))


@gluon.jit
def _multiply(left, right, LAYOUT: gl.constexpr):
    """Sums of one stage and half, for their own accumulator."""
    sums = gl.zeros((_HEIGHT, _HALF), gl.float32, LAYOUT)
    sums = warpgroup_mma(left, right.permute((1, 0)), sums, use_acc=False, is_async=True)
    return warpgroup_mma_wait(0, (sums,))


@gluon.jit
def _scales_of_rows(scale_a, row, step, steps, M, STRIDE_ROW, STRIDE_STEP, LAYOUT: gl.constexpr):
    m = row + gl.arange(0, _HEIGHT, gl.SliceLayout(1, LAYOUT))
    place = scale_a + m * STRIDE_ROW + step * STRIDE_STEP
    return gl.load(place, mask=(m < M) & (step < steps), other=0.0)


@gluon.jit
def _scale_of_square(scale_b, col, step, steps, N, STRIDE_ROW, STRIDE_STEP):
    place = scale_b + col // _HALF * STRIDE_ROW + step * STRIDE_STEP
    return gl.load(place, mask=(col < N) & (step < steps), other=0.0)


@gluon.jit
def _consume(
    c,
    scale_a,
    scale_b,
    stages_a,
    stages_b,
    staging,
    full,
    empty,
    M,
    N,
    K,
    STRIDE_A_ROW,
    STRIDE_A_STEP,
    STRIDE_B_ROW,
    STRIDE_B_STEP,
    MODE: gl.constexpr,
    ROWS_A: gl.constexpr,
    ROWS_B: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    WHICH: gl.constexpr,
):
    """A multiplying warpgroup: rows WHICH * 64 and on of every tile."""
    WIDE: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _TILE_N, 32])
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _HALF, 32])
    tiles_m = gl.cdiv(M, _TILE_M)
    tiles_n = gl.cdiv(N, _TILE_N)
    steps = gl.cdiv(K, _STEP)
    used = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _tile_of(tile, tiles_m, tiles_n, GROUP)
        row, col = tile_m * _TILE_M + WHICH * _HEIGHT, tile_n * _TILE_N
        if MODE == "fast":
            sums = gl.zeros((_HEIGHT, _TILE_N), gl.float32, WIDE)
            for step in range(steps):
                stage = used % STAGES
                mbarrier.wait(full.index(stage), (used // STAGES) & 1)
                left = stages_a.index(2 * stage + WHICH)
                right = stages_b.index(stage).permute((1, 0))
                sums = warpgroup_mma(left, right, sums, is_async=True)
                sums = warpgroup_mma_wait(1, (sums,))  # the stage before has been read
                mbarrier.arrive(empty.index((used + STAGES - 1) % STAGES), count=1, pred=step > 0)
                used += 1
            sums = warpgroup_mma_wait(0, (sums,))
            mbarrier.arrive(empty.index((used + STAGES - 1) % STAGES), count=1)
            sums = _scaled(sums, scale_a, scale_b, row, col, M, N, ROWS_A, ROWS_B, WIDE)
            halves = gl.permute(gl.reshape(sums, (_HEIGHT, 2, _HALF)), (0, 2, 1))
            first, second = gl.split(halves)
        else:
            first = gl.zeros((_HEIGHT, _HALF), gl.float32, LAYOUT)
            second = gl.zeros((_HEIGHT, _HALF), gl.float32, LAYOUT)
            if MODE == "slow":
                for _ in range(steps):
                    stage = used % STAGES
                    mbarrier.wait(full.index(stage), (used // STAGES) & 1)
                    left = stages_a.index(2 * stage + WHICH)
                    first += _multiply(left, stages_b.index(2 * stage), LAYOUT)
                    sums = _multiply(left, stages_b.index(2 * stage + 1), LAYOUT)
                    mbarrier.arrive(empty.index(stage), count=1)
                    second += sums
                    used += 1
                first = _scaled(first, scale_a, scale_b, row, col, M, N, ROWS_A, ROWS_B, LAYOUT)
                second = _scaled(
                    second, scale_a, scale_b, row, col + _HALF, M, N, ROWS_A, ROWS_B, LAYOUT
                )
            else:
                by_rows = _scales_of_rows(
                    scale_a, row, 0, steps, M, STRIDE_A_ROW, STRIDE_A_STEP, LAYOUT
                )
                by_first = _scale_of_square(
                    scale_b, col, 0, steps, N, STRIDE_B_ROW, STRIDE_B_STEP
                )
                by_second = _scale_of_square(
                    scale_b, col + _HALF, 0, steps, N, STRIDE_B_ROW, STRIDE_B_STEP
                )
                for step in range(steps):
                    stage = used % STAGES
                    # those of the next step: a read takes as long as a step
                    next_rows = _scales_of_rows(
                        scale_a, row, step + 1, steps, M, STRIDE_A_ROW, STRIDE_A_STEP, LAYOUT
                    )
                    next_first = _scale_of_square(
                        scale_b, col, step + 1, steps, N, STRIDE_B_ROW, STRIDE_B_STEP
                    )
                    next_second = _scale_of_square(
                        scale_b, col + _HALF, step + 1, steps, N, STRIDE_B_ROW, STRIDE_B_STEP
                    )
                    mbarrier.wait(full.index(stage), (used // STAGES) & 1)
                    left = stages_a.index(2 * stage + WHICH)
                    sums = _multiply(left, stages_b.index(2 * stage), LAYOUT)
                    first += sums * (by_rows * by_first)[:, None]
                    sums = _multiply(left, stages_b.index(2 * stage + 1), LAYOUT)
                    mbarrier.arrive(empty.index(stage), count=1)
                    second += sums * (by_rows * by_second)[:, None]
                    by_rows, by_first, by_second = next_rows, next_first, next_second
                    used += 1
        _store(first, c, row, col, staging.index(WHICH))
        _store(second, c, row, col + _HALF, staging.index(WHICH))
    tma.store_wait(0)


@gluon.jit
def _hopper_kernel(
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
    MODE: gl.constexpr,
    ROWS_A: gl.constexpr,
    ROWS_B: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    REGISTERS: gl.constexpr,
):
    """Every num_programs-th tile; a, b and c are descriptors."""
    stages_a = gl.allocate_shared_memory(a.dtype, [2 * STAGES, _HEIGHT, _STEP], a.layout)
    WIDTH: gl.constexpr = _TILE_N if MODE == "fast" else _HALF
    boxes: gl.constexpr = STAGES * (_TILE_N // WIDTH)
    stages_b = gl.allocate_shared_memory(b.dtype, [boxes, WIDTH, _STEP], b.layout)
    staging = gl.allocate_shared_memory(c.dtype, [2, _HEIGHT, _HALF], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    fence_async_shared()
    # fmt: off
    gl.warp_specialize(
        [
            (_consume, (c, scale_a, scale_b, stages_a, stages_b, staging, full, empty, M, N, K,
                        STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
                        MODE, ROWS_A, ROWS_B, STAGES, GROUP, 0)),
            (_consume, (c, scale_a, scale_b, stages_a, stages_b, staging, full, empty, M, N, K,
                        STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
                        MODE, ROWS_A, ROWS_B, STAGES, GROUP, 1)),
            (_fetch, (a, b, stages_a, stages_b, full, empty, M, N, K, STAGES, GROUP, WIDTH)),
        ],
        [4, 1],
        [REGISTERS, 24],
    )
    # fmt: on


def width_of(mode: str) -> int:
    """Rows of B in a box: all of a tile at once, or its halves for two accumulators."""
    return int(_TILE_N.value if mode == "fast" else _HALF.value)


def fits(x: torch.Tensor) -> bool:
    """Whether x's GPU is a Hopper."""
    if not x.is_cuda or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(x.device)[0] == 9


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    accumulation: str,
    config: HopperGemmConfig = gemm_configs.HOPPER,
) -> None:
    """Fill c as kernels.fp8_gemm.gemm does; for inputs that it checked."""
    rows = (scale_a.numel() > 1, scale_b.numel() > 1)
    _launch(a, b, c, (scale_a, scale_b), (0, 0, 0, 0), accumulation, rows, config)


def launch_blockwise(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    config: HopperGemmConfig = gemm_configs.HOPPER,
) -> None:
    """Fill c, scale_a per 1 x 128 and scale_b per 128 x 128; for checked inputs."""
    strides = (*scale_a.stride(), *scale_b.stride())
    _launch(a, b, c, (scale_a, scale_b), strides, "blocks", (True, False), config)


def _launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor],
    strides: tuple[int, ...],
    mode: str,
    rows: tuple[bool, bool],
    config: HopperGemmConfig,
) -> None:
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    tiles = triton.cdiv(m, _TILE_M.value) * triton.cdiv(n, _TILE_N.value)
    _hopper_kernel[(min(tiles, compute_units(a)),)](
        _described(a, [_HEIGHT.value, _STEP.value]),
        _described(b, [width_of(mode), _STEP.value]),
        _described(c, [_HEIGHT.value, _HALF.value]),
        *(*scales, m, n, k, *strides),
        MODE=mode,
        ROWS_A=rows[0],
        ROWS_B=rows[1],
        STAGES=config.stages,
        GROUP=config.group,
        REGISTERS=config.registers,
        num_warps=4,
    )


_GLUON = {
    torch.float8_e4m3fn: gl.float8e4nv,
    torch.float8_e5m2: gl.float8e5,
    torch.bfloat16: gl.bfloat16,
}


def layout_of(block: list[int], dtype: Any) -> Any:
    """Layout in shared memory of a block of a Gluon type."""
    return gl.NVMMASharedLayout.get_default_for(block, dtype)


def _described(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    plain = described(x, block)
    layout = layout_of(block, _GLUON[x.dtype])
    return TensorDescriptor(x, plain.shape, plain.strides, block, layout)
