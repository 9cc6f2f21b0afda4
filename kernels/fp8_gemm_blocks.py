"""fp8 products with scales per block in larger tiles: Gluon, NVIDIA Hopper GPUs.

    C[M,N] bf16 as in kernels.fp8_gemm_blockwise: A scaled per 1 x 128, B per 128 x 128

As in kernels.fp8_gemm_hopper warps fetch through a ring of stages, and warpgroups share a tile. In
addition

    the scales of A come with their stage, through the tensor memory unit: a warpgroup that reads
    them from global memory waits for them in every step. They have to lie transposed (stride 1
    along the rows), and each column at 16 bytes: a coordinate in between is an illegal instruction

    a warpgroup may have two parts of 64 x 128, one above the other (tiles 256 x 128) or beside it
    (128 x 256), so that a fetched byte serves more products. The fetching warps are the default
    partition: both multiplying warpgroups then have the 216 registers with which it does not spill

The sums of one part and 128 columns of K leave the matrix unit, are scaled and added to a total
while the other warpgroups multiply.
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
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.fp8_gemm_hopper import in_shared_memory, store, tile_of
from kernels.fp8_scales import compute_units
from kernels.gemm_configs import BlocksConfig

HEIGHT: gl.constexpr = gl.constexpr(64)  # rows of a part
WIDTH: gl.constexpr = gl.constexpr(128)  # columns of a part, and of K in a stage
QUARTER: gl.constexpr = gl.constexpr(64)  # columns that leave at once
ALIGNED = 4  # scales in 16 bytes
SCALES = gl.NVMMASharedLayout(0, 32, 1)  # of a part's rows in shared memory: in their order


@gluon.jit
def _fetch(
    a, b, scale_a, stages_a, stages_b, stages_s, full, empty, M, N, K, STRIDE_A_STEP,
    STAGES: gl.constexpr, GROUP: gl.constexpr, TILE_M: gl.constexpr, TILE_N: gl.constexpr,
):  # fmt: skip
    """Every stage of every tile, as soon as it is free: boxes of a part's rows or columns."""
    tiles_m = gl.cdiv(M, TILE_M)
    tiles_n = gl.cdiv(N, TILE_N)
    steps = gl.cdiv(K, WIDTH)
    BOXES_A: gl.constexpr = TILE_M // HEIGHT
    BOXES_B: gl.constexpr = TILE_N // WIDTH
    fetched = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for step in range(steps):
            stage = fetched % STAGES
            mbarrier.wait(empty.index(stage), ((fetched // STAGES) & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, (TILE_M + TILE_N) * WIDTH + 4 * TILE_M)
            for i in gl.static_range(BOXES_A):
                row = tile_m * TILE_M + i * HEIGHT
                box = BOXES_A * stage + i
                at = [row, step * WIDTH]
                tma.async_copy_global_to_shared(a, at, ready, stages_a.index(box))
                at = [step * STRIDE_A_STEP + row]
                tma.async_copy_global_to_shared(scale_a, at, ready, stages_s.index(box))
            for i in gl.static_range(BOXES_B):
                at = [tile_n * TILE_N + i * WIDTH, step * WIDTH]
                buffer = stages_b.index(BOXES_B * stage + i)
                tma.async_copy_global_to_shared(b, at, ready, buffer)
            fetched += 1


@gluon.jit
def _product(left, right, LAYOUT: gl.constexpr):
    """Sums [64, 128] of one step, in registers of their own."""
    sums = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    return warpgroup_mma(left, right.permute((1, 0)), sums, use_acc=False, is_async=True)


@gluon.jit
def _one_part(
    stages_a, stages_b, stages_s, full, empty, used, steps, scale_b, STRIDE_B_STEP,
    STAGES: gl.constexpr, BOXES_A: gl.constexpr, LAYOUT: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """[64, 128]; scale_b points at the first scale of the tile's columns."""
    ROW: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    total = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    by_b = gl.load(scale_b)
    for step in range(steps):
        stage = used % STAGES
        # of the next step: a read takes as long as a step
        next_b = gl.load(scale_b + gl.minimum(step + 1, steps - 1) * STRIDE_B_STEP)
        mbarrier.wait(full.index(stage), (used // STAGES) & 1)
        box = BOXES_A * stage + WHICH
        sums = _product(stages_a.index(box), stages_b.index(stage), LAYOUT)
        by = stages_s.index(box).load(ROW) * by_b
        sums = warpgroup_mma_wait(0, (sums,))
        mbarrier.arrive(empty.index(stage), count=1)
        total += sums * by[:, None]
        by_b = next_b
        used += 1
    return total


@gluon.jit
def _two_parts(
    stages_a, stages_b, stages_s, full, empty, used, steps, scale_b, scale_beside, STRIDE_B_STEP,
    STAGES: gl.constexpr, BESIDE: gl.constexpr, LAYOUT: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """Two of [64, 128]; scale_beside points at the first scale of the second one's columns."""
    ROW: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    # boxes of a stage: two of A and of B where the parts lie beside each other, else four and one
    BOXES_A: gl.constexpr = 2 if BESIDE else 4
    BOXES_B: gl.constexpr = 2 if BESIDE else 1
    BOX: gl.constexpr = WHICH if BESIDE else 2 * WHICH
    SECOND: gl.constexpr = WHICH if BESIDE else 2 * WHICH + 1
    first = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    second = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    for step in range(steps):
        stage = used % STAGES
        by_b = gl.load(scale_b + step * STRIDE_B_STEP)
        by_beside = gl.load(scale_beside + step * STRIDE_B_STEP) if BESIDE else by_b
        mbarrier.wait(full.index(stage), (used // STAGES) & 1)
        left, right = stages_a.index(BOXES_A * stage + BOX), stages_b.index(BOXES_B * stage)
        sums = _product(left, right, LAYOUT)
        by_a = stages_s.index(BOXES_A * stage + BOX).load(ROW)
        by_second = by_a if BESIDE else stages_s.index(BOXES_A * stage + SECOND).load(ROW)
        by_first = by_a * by_b
        by_second = by_second * by_beside
        sums = warpgroup_mma_wait(0, (sums,))
        first += sums * by_first[:, None]
        left = stages_a.index(BOXES_A * stage + SECOND)
        right = stages_b.index(BOXES_B * stage + BOXES_B - 1)
        sums = _product(left, right, LAYOUT)
        sums = warpgroup_mma_wait(0, (sums,))
        mbarrier.arrive(empty.index(stage), count=1)
        second += sums * by_second[:, None]
        used += 1
    return first, second


@gluon.jit
def _store(values, c, row, col, staging, BUFFERS: gl.constexpr, WHICH: gl.constexpr):
    """A part, in two halves; a half waits until its buffer has been left."""
    left, right = gl.split(gl.permute(gl.reshape(values, (HEIGHT, 2, QUARTER)), (0, 2, 1)))
    first: gl.constexpr = WHICH * BUFFERS
    store(left, c, row, col, staging.index(first), BUFFERS - 1)
    store(right, c, row, col + QUARTER, staging.index(first + BUFFERS - 1), BUFFERS - 1)


@gluon.jit
def _multiply(
    c, scale_b, stages_a, stages_b, stages_s, staging, full, empty, M, N, K,
    STRIDE_B_ROW, STRIDE_B_STEP, STAGES: gl.constexpr, GROUP: gl.constexpr,
    TILE_M: gl.constexpr, TILE_N: gl.constexpr, BUFFERS: gl.constexpr,
    GROUPS: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """A multiplying warpgroup: the WHICH-th rows of every tile."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 32])
    ROWS: gl.constexpr = TILE_M // GROUPS
    BESIDE: gl.constexpr = TILE_N > WIDTH
    tiles_m = gl.cdiv(M, TILE_M)
    tiles_n = gl.cdiv(N, TILE_N)
    steps = gl.cdiv(K, WIDTH)
    used = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row, col = tile_m * TILE_M + WHICH * ROWS, tile_n * TILE_N
        of_tile = scale_b + col // WIDTH * STRIDE_B_ROW
        if BESIDE or ROWS > HEIGHT:
            # where the tile ends beyond B: any scale that is there
            beside = gl.minimum(col // WIDTH + 1, (N - 1) // WIDTH)
            first, second = _two_parts(
                stages_a, stages_b, stages_s, full, empty, used, steps, of_tile,
                scale_b + beside * STRIDE_B_ROW, STRIDE_B_STEP, STAGES, BESIDE, LAYOUT, WHICH,
            )  # fmt: skip
            _store(first, c, row, col, staging, BUFFERS, WHICH)
            if BESIDE:
                _store(second, c, row, col + WIDTH, staging, BUFFERS, WHICH)
            else:
                _store(second, c, row + HEIGHT, col, staging, BUFFERS, WHICH)
        else:
            total = _one_part(
                stages_a, stages_b, stages_s, full, empty, used, steps, of_tile, STRIDE_B_STEP,
                STAGES, TILE_M // HEIGHT, LAYOUT, WHICH,
            )  # fmt: skip
            _store(total, c, row, col, staging, BUFFERS, WHICH)
        used += steps
    tma.store_wait(0)


@gluon.jit
def _blocks_kernel(
    a, b, c, scale_a, scale_b, M, N, K, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
    STAGES: gl.constexpr, GROUP: gl.constexpr, REGISTERS: gl.constexpr, TILE_M: gl.constexpr,
    TILE_N: gl.constexpr, BUFFERS: gl.constexpr, GROUPS: gl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile; a, b, c and scale_a (flat, by columns) are descriptors."""
    boxes_a: gl.constexpr = STAGES * (TILE_M // HEIGHT)
    boxes_b: gl.constexpr = STAGES * (TILE_N // WIDTH)
    stages_a = gl.allocate_shared_memory(a.dtype, [boxes_a, HEIGHT, WIDTH], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [boxes_b, WIDTH, WIDTH], b.layout)
    stages_s = gl.allocate_shared_memory(gl.float32, [boxes_a, HEIGHT], scale_a.layout)
    staging = gl.allocate_shared_memory(c.dtype, [GROUPS * BUFFERS, HEIGHT, QUARTER], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=GROUPS)
    fence_async_shared()
    # fmt: off
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_fetch, (a, b, scale_a, stages_a, stages_b, stages_s, full, empty, M, N, K,
                          STRIDE_A_STEP, STAGES, GROUP, TILE_M, TILE_N)),
                (_multiply, (c, scale_b, stages_a, stages_b, stages_s, staging, full, empty,
                             M, N, K, STRIDE_B_ROW, STRIDE_B_STEP,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, GROUPS, 0)),
                (_multiply, (c, scale_b, stages_a, stages_b, stages_s, staging, full, empty,
                             M, N, K, STRIDE_B_ROW, STRIDE_B_STEP,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, GROUPS, 1)),
            ],
            [4, 4], [REGISTERS, REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_fetch, (a, b, scale_a, stages_a, stages_b, stages_s, full, empty, M, N, K,
                          STRIDE_A_STEP, STAGES, GROUP, TILE_M, TILE_N)),
                (_multiply, (c, scale_b, stages_a, stages_b, stages_s, staging, full, empty,
                             M, N, K, STRIDE_B_ROW, STRIDE_B_STEP,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, GROUPS, 0)),
                (_multiply, (c, scale_b, stages_a, stages_b, stages_s, staging, full, empty,
                             M, N, K, STRIDE_B_ROW, STRIDE_B_STEP,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, GROUPS, 1)),
                (_multiply, (c, scale_b, stages_a, stages_b, stages_s, staging, full, empty,
                             M, N, K, STRIDE_B_ROW, STRIDE_B_STEP,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, GROUPS, 2)),
            ],
            [4, 4, 4], [REGISTERS, REGISTERS, REGISTERS],
        )
    # fmt: on


def takes(scale_a: torch.Tensor) -> bool:
    """Whether the tensor memory unit can read these scales [M, steps]: transposed, and aligned.

    The innermost coordinate of a box has to be a multiple of 16 bytes, which no compiler checks:
    triton-lang/triton, issue 7385 and python/tutorials/gluon/04-tma.py.
    """
    columns_are_aligned = scale_a.shape[1] == 1 or scale_a.stride(1) % ALIGNED == 0
    return scale_a.stride(0) == 1 and columns_are_aligned and scale_a.data_ptr() % 16 == 0


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    config: BlocksConfig,
) -> None:
    """Fill c; for inputs that kernels.fp8_gemm_blockwise.gemm checked, and scales it `takes`."""
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    tiles = triton.cdiv(m, config.m) * triton.cdiv(n, config.n)
    _blocks_kernel[(min(tiles, compute_units(a)),)](
        in_shared_memory(a, [HEIGHT.value, WIDTH.value]),
        in_shared_memory(b, [WIDTH.value, WIDTH.value]),
        in_shared_memory(c, [HEIGHT.value, QUARTER.value]),
        _flat(scale_a),
        *(scale_b, m, n, k, scale_a.stride(1), *scale_b.stride()),
        STAGES=config.stages,
        GROUP=config.group,
        REGISTERS=config.registers,
        TILE_M=config.m,
        TILE_N=config.n,
        BUFFERS=config.buffers,
        GROUPS=config.warpgroups,
        num_warps=4,
    )


def _flat(scale_a: torch.Tensor) -> TensorDescriptor:
    """Transposed scales as one row: a box that ends below a column has scales of no row of C."""
    size = (scale_a.shape[1] - 1) * scale_a.stride(1) + scale_a.shape[0]
    flat = scale_a.as_strided((size,), (1,))
    return TensorDescriptor(flat, [size], [1], [HEIGHT.value], SCALES)
