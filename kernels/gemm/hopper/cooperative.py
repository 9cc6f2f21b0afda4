"""fp8 products with two-level accumulation: Gluon, NVIDIA Hopper GPUs.

    C[M,N] bf16 = A[M,K] @ B[N,K].T, scaled as in kernels.gemm.axiswise or kernels.gemm.blockwise

A tile has one warp that fetches (tensor memory unit, through a ring of stages in shared memory) and
two warpgroups that multiply 64 rows each, with barriers of their own. So one can scale, add or
store while the other keeps the matrix unit busy, which plain Triton cannot do: all its warps wait
together.

    slow    128 x 256   in two halves: the sums of 128 columns of K (64) are added to a total (128)
    blocks  128 x 128   the sums are scaled and added to a total; in 128 x 256 this spills, because
                        the compiler starts the second half before it has added the first

With fast accumulation kernels.gemm.hopper.pingpong is faster; kernels.gemm.hopper.staged_scales has
larger tiles with scales per block. Triton's interpreter knows no Gluon: kernels.gemm.axiswise and
kernels.gemm.blockwise have the same products in plain Triton.
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
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.common.architecture import compute_units
from kernels.gemm import configs as gemm_configs
from kernels.gemm.configs import HopperGemmConfig
from kernels.gemm.hopper import sums as hopper_sums
from kernels.gemm.hopper.sums import HALF, HEIGHT
from kernels.gemm.operands import described

_STEP: gl.constexpr = gl.constexpr(128)  # columns of K in a stage
_TILE_M: gl.constexpr = gl.constexpr(128)


@gluon.jit
def tile_of(tile, TILES_M, TILES_N, GROUP: gl.constexpr):
    """kernels.gemm.operands.tile_of."""
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
    TILE_N: gl.constexpr,
    WIDTH: gl.constexpr,
):
    """The fetching warp: every stage of every tile, as soon as it is free; B in boxes of WIDTH."""
    tiles_m = gl.cdiv(M, _TILE_M)
    tiles_n = gl.cdiv(N, TILE_N)
    steps = gl.cdiv(K, _STEP)
    fetched = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for step in range(steps):
            stage = fetched % STAGES
            mbarrier.wait(empty.index(stage), ((fetched // STAGES) & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, (_TILE_M + TILE_N) * _STEP)
            for i in gl.static_range(2):
                at = [tile_m * _TILE_M + i * HEIGHT, step * _STEP]
                tma.async_copy_global_to_shared(a, at, ready, stages_a.index(2 * stage + i))
            for i in gl.static_range(TILE_N // WIDTH):
                at = [tile_n * TILE_N + i * WIDTH, step * _STEP]
                buffer = stages_b.index(TILE_N // WIDTH * stage + i)
                tma.async_copy_global_to_shared(b, at, ready, buffer)
            fetched += 1


@gluon.jit
def store(values, c, row, col, staging, PENDING: gl.constexpr = 0):
    """A part of a tile, when all parts before it but PENDING have left their buffers."""
    tma.store_wait(PENDING)
    staging.store(values.to(gl.bfloat16))
    fence_async_shared()
    tma.async_copy_shared_to_global(c, [row, col], staging)


@gluon.jit
def _scales(scale, first, SIZE, COUNT: gl.constexpr, EACH: gl.constexpr):
    """COUNT scales from `first` on in the fewest registers, or the only one; SIZE are there."""
    if EACH:
        FLAT: gl.constexpr = gl.BlockedLayout([COUNT // 32 // 4 or 1], [32], [4], [0])
        at = first + gl.arange(0, COUNT, FLAT)
        return gl.load(scale + at, mask=at < SIZE, other=0.0)
    else:  # noqa: RET505 (both branches are traced without it)
        return gl.load(scale)


@gluon.jit
def _scaled(values, by_a, by_b, ROWS_A: gl.constexpr, ROWS_B: gl.constexpr, LAYOUT: gl.constexpr):
    """A tile times its scales."""
    if ROWS_A:
        by_a = gl.convert_layout(by_a, gl.SliceLayout(1, LAYOUT))[:, None]
    if ROWS_B:
        by_b = gl.convert_layout(by_b, gl.SliceLayout(0, LAYOUT))[None, :]
        return values * by_a * by_b
    else:  # noqa: RET505 (both branches are traced without it)
        return values * (by_a * by_b)


@gluon.jit
def _consume(
    c, scale_a, scale_b, stages_a, stages_b, staging, full, empty, M, N, K,
    STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
    MODE: gl.constexpr, ROWS_A: gl.constexpr, ROWS_B: gl.constexpr,
    STAGES: gl.constexpr, GROUP: gl.constexpr, TILE_N: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """A multiplying warpgroup: rows WHICH * 64 and on of every tile."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 32])
    tiles_m = gl.cdiv(M, _TILE_M)
    tiles_n = gl.cdiv(N, TILE_N)
    steps = gl.cdiv(K, _STEP)
    used = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row, col = tile_m * _TILE_M + WHICH * HEIGHT, tile_n * TILE_N
        if MODE == "slow":
            # Scales are read before the sums are made, and wait in few registers: read after them,
            # they cost 7 % of a product with K of 1024.
            by_a = _scales(scale_a, row, M, HEIGHT, ROWS_A)
            by_b = _scales(scale_b, col, N, HALF, ROWS_B)
            by_second = _scales(scale_b, col + HALF, N, HALF, ROWS_B)
            first, second = hopper_sums.slow(
                stages_a, stages_b, full, empty, used, steps, STAGES, LAYOUT, WHICH
            )
            first = _scaled(first, by_a, by_b, ROWS_A, ROWS_B, LAYOUT)
            store(first, c, row, col, staging.index(WHICH))
            second = _scaled(second, by_a, by_second, ROWS_A, ROWS_B, LAYOUT)
            store(second, c, row, col + HALF, staging.index(WHICH))
        else:
            m = row + gl.arange(0, HEIGHT, gl.SliceLayout(1, LAYOUT))
            of_a = scale_a + m * STRIDE_A_ROW
            of_b = scale_b + tile_n * STRIDE_B_ROW
            sums = hopper_sums.blocks(
                stages_a, stages_b, full, empty, used, steps, of_a, of_b, m < M,
                STRIDE_A_STEP, STRIDE_B_STEP, STAGES, LAYOUT, WHICH,
            )  # fmt: skip
            store(sums, c, row, col, staging.index(WHICH))
        used += steps
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
    TILE_N: gl.constexpr,
    WIDTH: gl.constexpr,
):
    """Every num_programs-th tile; a, b and c are descriptors."""
    stages_a = gl.allocate_shared_memory(a.dtype, [2 * STAGES, HEIGHT, _STEP], a.layout)
    boxes: gl.constexpr = STAGES * (TILE_N // WIDTH)
    stages_b = gl.allocate_shared_memory(b.dtype, [boxes, WIDTH, _STEP], b.layout)
    staging = gl.allocate_shared_memory(c.dtype, [2, HEIGHT, HALF], c.layout)
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
                        MODE, ROWS_A, ROWS_B, STAGES, GROUP, TILE_N, 0)),
            (_consume, (c, scale_a, scale_b, stages_a, stages_b, staging, full, empty, M, N, K,
                        STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
                        MODE, ROWS_A, ROWS_B, STAGES, GROUP, TILE_N, 1)),
            (_fetch, (a, b, stages_a, stages_b, full, empty, M, N, K,
                     STAGES, GROUP, TILE_N, WIDTH)),
        ],
        [4, 1],
        [REGISTERS, 24],
    )
    # fmt: on


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
    config: HopperGemmConfig | None = None,
) -> None:
    """Fill c with slow accumulation, for inputs that kernels.gemm.axiswise checked."""
    rows = (scale_a.numel() > 1, scale_b.numel() > 1)
    _launch(a, b, c, (scale_a, scale_b), (0, 0, 0, 0), rows, "slow", config)


def launch_blockwise(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    config: HopperGemmConfig | None = None,
) -> None:
    """Fill c, scale_a per 1 x 128 and scale_b per 128 x 128; for checked inputs."""
    strides = (*scale_a.stride(), *scale_b.stride())
    _launch(a, b, c, (scale_a, scale_b), strides, (True, False), "blocks", config)


def _launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor],
    strides: tuple[int, ...],
    rows: tuple[bool, bool],
    mode: str,
    config: HopperGemmConfig | None,
) -> None:
    config = gemm_configs.HOPPER[mode] if config is None else config
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    tiles = triton.cdiv(m, _TILE_M.value) * triton.cdiv(n, config.n)
    _hopper_kernel[(min(tiles, compute_units(a)),)](
        in_shared_memory(a, [HEIGHT.value, _STEP.value]),
        in_shared_memory(b, [config.box, _STEP.value]),
        in_shared_memory(c, [HEIGHT.value, HALF.value]),
        *(*scales, m, n, k, *strides),
        MODE=mode,
        ROWS_A=rows[0],
        ROWS_B=rows[1],
        STAGES=config.stages,
        GROUP=config.group,
        REGISTERS=config.registers,
        TILE_N=config.n,
        WIDTH=config.box,
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


def in_shared_memory(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    """The descriptor of a matrix whose blocks lie in shared memory as Gluon's kernels want."""
    plain = described(x, block)
    layout = layout_of(block, _GLUON[x.dtype])
    return TensorDescriptor(x, plain.shape, plain.strides, block, layout)
