"""fp8 products whose warpgroups have tiles of their own: Gluon, NVIDIA Hopper GPUs.

    C[M,N] bf16 = A[M,K] @ B[N,K].T, scaled as in kernels.gemm.axiswise; fast accumulation

A program has warps that fetch (tensor memory unit, through a ring of stages in shared memory) and
two warpgroups that take its tiles of 128 x 128 in turns. So one scales and stores a tile while the
other keeps the matrix unit busy: in kernels.gemm.hopper.cooperative both share a tile and end it
together, which costs most where K is short.

The warpgroups sum in turns: one begins when the other has seen the last stage of its own tile. A
barrier tells a phase from the next one only, so a warpgroup that waited for stages further ahead
would take what lies there from earlier steps for its own.

The fetching warps are the default partition: the two multiplying ones then get the same registers.
Triton's interpreter knows no Gluon: kernels.gemm.axiswise has the same product in plain Triton.
"""

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

from kernels.common.architecture import compute_units
from kernels.gemm import configs as gemm_configs
from kernels.gemm.configs import PingpongConfig
from kernels.gemm.hopper.cooperative import in_shared_memory, store, tile_of

TILE: gl.constexpr = gl.constexpr(128)  # rows and columns of a tile, columns of K in a stage
WIDTH: gl.constexpr = gl.constexpr(64)  # columns that leave at once


@gluon.jit
def _fetch(
    a, b, stages_a, stages_b, full, empty, M, N, K, STAGES: gl.constexpr, GROUP: gl.constexpr
):
    """Every stage of every tile, as soon as it is free."""
    tiles_m = gl.cdiv(M, TILE)
    tiles_n = gl.cdiv(N, TILE)
    steps = gl.cdiv(K, TILE)
    fetched = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for step in range(steps):
            stage = fetched % STAGES
            mbarrier.wait(empty.index(stage), ((fetched // STAGES) & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, 2 * TILE * TILE)
            at = step * TILE
            tma.async_copy_global_to_shared(a, [tile_m * TILE, at], ready, stages_a.index(stage))
            tma.async_copy_global_to_shared(b, [tile_n * TILE, at], ready, stages_b.index(stage))
            fetched += 1


@gluon.jit
def _scales(scale, first, SIZE, EACH: gl.constexpr, LAYOUT: gl.constexpr):
    """The scales of a tile's rows or columns, of which SIZE are there, or the only one."""
    if EACH:
        at = first + gl.arange(0, TILE, LAYOUT)
        return gl.load(scale + at, mask=at < SIZE, other=0.0)
    else:  # noqa: RET505 (both branches are traced without it)
        return gl.load(scale)


@gluon.jit
def _scaled(values, by_a, by_b, ROWS_A: gl.constexpr, ROWS_B: gl.constexpr):
    """A tile times its scales."""
    if ROWS_A:
        by_a = by_a[:, None]
    if ROWS_B:
        return values * by_a * by_b[None, :]
    else:  # noqa: RET505 (both branches are traced without it)
        return values * (by_a * by_b)


@gluon.jit
def _sums(
    stages_a, stages_b, full, empty, other, used, steps,
    STAGES: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """A tile, summed in the matrix unit; `used` stages of the ring are behind it.

    The `other` warpgroup's turn begins as soon as all stages are there and their products issued.
    """
    sums = gl.zeros((TILE, TILE), gl.float32, LAYOUT)
    for step in range(steps):
        stage = used % STAGES
        mbarrier.wait(full.index(stage), (used // STAGES) & 1)
        right = stages_b.index(stage).permute((1, 0))
        sums = warpgroup_mma(stages_a.index(stage), right, sums, is_async=True)
        sums = warpgroup_mma_wait(1, (sums,))  # the stage before has been read
        mbarrier.arrive(empty.index((used + STAGES - 1) % STAGES), count=1, pred=step > 0)
        used += 1
    mbarrier.arrive(other, count=1)
    sums = warpgroup_mma_wait(0, (sums,))
    mbarrier.arrive(empty.index((used + STAGES - 1) % STAGES), count=1)
    return sums


@gluon.jit
def _multiply(
    c, scale_a, scale_b, stages_a, stages_b, staging, full, empty, turns, M, N, K,
    ROWS_A: gl.constexpr, ROWS_B: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
    BUFFERS: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """A multiplying warpgroup: every other tile of the program, from tile WHICH on."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 32])
    BUFFER: gl.constexpr = WHICH * BUFFERS
    tiles_m = gl.cdiv(M, TILE)
    tiles_n = gl.cdiv(N, TILE)
    steps = gl.cdiv(K, TILE)
    used = WHICH * steps
    phase = 1 - WHICH  # of a barrier that nobody has arrived at: the first turn is number 0's
    first_tile = gl.program_id(0) + WHICH * gl.num_programs(0)
    for tile in range(first_tile, tiles_m * tiles_n, 2 * gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row, col = tile_m * TILE, tile_n * TILE
        # read before the sums are made: afterwards the warpgroup would wait for them
        by_a = _scales(scale_a, row, M, ROWS_A, gl.SliceLayout(1, LAYOUT))
        by_b = _scales(scale_b, col, N, ROWS_B, gl.SliceLayout(0, LAYOUT))
        mbarrier.wait(turns.index(WHICH), phase)
        sums = _sums(
            stages_a, stages_b, full, empty, turns.index(1 - WHICH), used, steps, STAGES, LAYOUT
        )
        sums = _scaled(sums, by_a, by_b, ROWS_A, ROWS_B)
        left, right = gl.split(gl.permute(gl.reshape(sums, (TILE, 2, WIDTH)), (0, 2, 1)))
        store(left, c, row, col, staging.index(BUFFER), BUFFERS - 1)
        store(right, c, row, col + WIDTH, staging.index(BUFFER + BUFFERS - 1), BUFFERS - 1)
        used += 2 * steps  # its own and those of the other's next tile
        phase ^= 1
    tma.store_wait(0)


@gluon.jit
def _pingpong_kernel(
    a, b, c, scale_a, scale_b, M, N, K,
    ROWS_A: gl.constexpr, ROWS_B: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
    BUFFERS: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile; a, b and c are descriptors."""
    stages_a = gl.allocate_shared_memory(a.dtype, [STAGES, TILE, TILE], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [STAGES, TILE, TILE], b.layout)
    staging = gl.allocate_shared_memory(c.dtype, [2 * BUFFERS, TILE, WIDTH], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    for which in gl.static_range(2):
        mbarrier.init(turns.index(which), count=1)
    fence_async_shared()
    # fmt: off
    gl.warp_specialize(
        [
            (_fetch, (a, b, stages_a, stages_b, full, empty, M, N, K, STAGES, GROUP)),
            (_multiply, (c, scale_a, scale_b, stages_a, stages_b, staging, full, empty, turns,
                         M, N, K, ROWS_A, ROWS_B, STAGES, GROUP, BUFFERS, 0)),
            (_multiply, (c, scale_a, scale_b, stages_a, stages_b, staging, full, empty, turns,
                         M, N, K, ROWS_A, ROWS_B, STAGES, GROUP, BUFFERS, 1)),
        ],
        [4, 4],
        [REGISTERS, REGISTERS],
    )
    # fmt: on


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    config: PingpongConfig | None = None,
) -> None:
    """Fill c with fast accumulation, for inputs that kernels.gemm.axiswise checked."""
    config = gemm_configs.PINGPONG if config is None else config
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    tiles = triton.cdiv(m, TILE.value) * triton.cdiv(n, TILE.value)
    _pingpong_kernel[(min(tiles, compute_units(a)),)](
        in_shared_memory(a, [TILE.value, TILE.value]),
        in_shared_memory(b, [TILE.value, TILE.value]),
        in_shared_memory(c, [TILE.value, WIDTH.value]),
        *(scale_a, scale_b, m, n, k),
        ROWS_A=scale_a.numel() > 1,
        ROWS_B=scale_b.numel() > 1,
        STAGES=config.stages,
        GROUP=config.group,
        BUFFERS=config.buffers,
        REGISTERS=config.registers,
        num_warps=4,
    )
