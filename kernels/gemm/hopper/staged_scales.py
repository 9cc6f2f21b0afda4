"""fp8 products with scales per block in larger tiles: Gluon, NVIDIA Hopper GPUs.

    C[M,N] bf16 as in kernels.gemm.blockwise: A scaled per 1 x 128, B per 128 x 128 or 1 x 128

As in kernels.gemm.hopper.cooperative warps fetch through a ring of stages, and warpgroups share a
tile. In addition

    scales per 1 x 128 come with their stage, through the tensor memory unit: a warpgroup that reads
    them from global memory waits for them in every step. They have to lie transposed (stride 1
    along the rows), and each column at 16 bytes: a coordinate in between is an illegal instruction

    three warpgroups may share a tile (192 x 128), or a warpgroup may have two parts of 64 x 128
    beside each other (128 x 256), so that a fetched byte serves more products. The fetching warps
    are the default partition: all multiplying warpgroups then have the same registers, with which
    none spills

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

from kernels.common.architecture import compute_units
from kernels.common.fp8_scales import SCALES_IN_16_BYTES as ALIGNED
from kernels.gemm.configs import BlocksConfig
from kernels.gemm.hopper.cooperative import in_shared_memory, store, tile_of

HEIGHT: gl.constexpr = gl.constexpr(64)  # rows of a part
WIDTH: gl.constexpr = gl.constexpr(128)  # columns of a part, and of K in a stage
QUARTER: gl.constexpr = gl.constexpr(64)  # columns that leave at once
SCALES = gl.NVMMASharedLayout(0, 32, 1)  # of a part's rows in shared memory: in their order


@gluon.jit
def _fetch(
    a, b, scale_a, scale_b, memory, STRIDE_A_STEP, STRIDE_B_STEP, ROWS_B: gl.constexpr,
    STAGES: gl.constexpr, GROUP: gl.constexpr, TILE_M: gl.constexpr, TILE_N: gl.constexpr,
):  # fmt: skip
    """Every stage of every tile, as soon as it is free: boxes of a part's rows or columns."""
    stages_a, stages_b, stages_s, stages_t, full, empty, M, N, K = memory
    tiles_m = gl.cdiv(M, TILE_M)
    tiles_n = gl.cdiv(N, TILE_N)
    steps = gl.cdiv(K, WIDTH)
    BOXES_A: gl.constexpr = TILE_M // HEIGHT
    BOXES_B: gl.constexpr = TILE_N // WIDTH
    SCALED: gl.constexpr = TILE_M + (TILE_N if ROWS_B else 0)
    fetched = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        for step in range(steps):
            stage = fetched % STAGES
            mbarrier.wait(empty.index(stage), ((fetched // STAGES) & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, (TILE_M + TILE_N) * WIDTH + 4 * SCALED)
            for i in gl.static_range(BOXES_A):
                row = tile_m * TILE_M + i * HEIGHT
                box = BOXES_A * stage + i
                at = [row, step * WIDTH]
                tma.async_copy_global_to_shared(a, at, ready, stages_a.index(box))
                at = [step * STRIDE_A_STEP + row]
                tma.async_copy_global_to_shared(scale_a, at, ready, stages_s.index(box))
            for i in gl.static_range(BOXES_B):
                col = tile_n * TILE_N + i * WIDTH
                box = BOXES_B * stage + i
                at = [col, step * WIDTH]
                tma.async_copy_global_to_shared(b, at, ready, stages_b.index(box))
                if ROWS_B:
                    at = [step * STRIDE_B_STEP + col]
                    tma.async_copy_global_to_shared(scale_b, at, ready, stages_t.index(box))
            fetched += 1


@gluon.jit
def _product(left, right, LAYOUT: gl.constexpr):
    """Sums [64, 128] of one step, in registers of their own."""
    sums = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    return warpgroup_mma(left, right.permute((1, 0)), sums, use_acc=False, is_async=True)


@gluon.jit
def _scaled(sums, by_a, by_b, scales_b, ROWS_B: gl.constexpr, LAYOUT: gl.constexpr):
    """A part's sums times its scales: those of B lie in scales_b, or are all by_b."""
    if ROWS_B:
        return sums * by_a[:, None] * scales_b.load(gl.SliceLayout(0, LAYOUT))[None, :]
    else:  # noqa: RET505 (both branches are traced without it)
        return sums * (by_a * by_b)[:, None]


@gluon.jit
def _of_columns(scale_b, col, step, steps, N, ROW, STEP, ROWS_B: gl.constexpr):
    """The scale of a part's columns in a step, where they share one, or any that is there."""
    if ROWS_B:
        return 1.0
    else:  # noqa: RET505 (both branches are traced without it)
        block = gl.minimum(col, N - 1) // WIDTH
        return gl.load(scale_b + block * ROW + gl.minimum(step, steps - 1) * STEP)


@gluon.jit
def _one_part(
    stages_a, stages_b, stages_s, stages_t, full, empty, used, scale_b, col, N, steps, ROW, STEP,
    ROWS_B: gl.constexpr, STAGES: gl.constexpr, BOXES_A: gl.constexpr, LAYOUT: gl.constexpr,
    WHICH: gl.constexpr,
):  # fmt: skip
    """[64, 128] from column `col` of C on."""
    SLICE: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    total = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    by_b = _of_columns(scale_b, col, 0, steps, N, ROW, STEP, ROWS_B)
    for step in range(steps):
        stage = used % STAGES
        # of the next step: a read takes as long as a step
        next_b = _of_columns(scale_b, col, step + 1, steps, N, ROW, STEP, ROWS_B)
        mbarrier.wait(full.index(stage), (used // STAGES) & 1)
        box = BOXES_A * stage + WHICH
        sums = _product(stages_a.index(box), stages_b.index(stage), LAYOUT)
        by_a = stages_s.index(box).load(SLICE)
        sums = warpgroup_mma_wait(0, (sums,))
        sums = _scaled(sums, by_a, by_b, stages_t.index(stage), ROWS_B, LAYOUT)
        mbarrier.arrive(empty.index(stage), count=1)
        total += sums
        by_b = next_b
        used += 1
    return total


@gluon.jit
def _two_parts(
    stages_a, stages_b, stages_s, stages_t, full, empty, used, scale_b, col, N, steps, ROW, STEP,
    ROWS_B: gl.constexpr, STAGES: gl.constexpr, LAYOUT: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """Two of [64, 128], beside each other, from column `col` of C on."""
    SLICE: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    first = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    second = gl.zeros((HEIGHT, WIDTH), gl.float32, LAYOUT)
    for step in range(steps):
        stage = used % STAGES
        by_first = _of_columns(scale_b, col, step, steps, N, ROW, STEP, ROWS_B)
        by_second = _of_columns(scale_b, col + WIDTH, step, steps, N, ROW, STEP, ROWS_B)
        mbarrier.wait(full.index(stage), (used // STAGES) & 1)
        left = stages_a.index(2 * stage + WHICH)
        sums = _product(left, stages_b.index(2 * stage), LAYOUT)
        by_a = stages_s.index(2 * stage + WHICH).load(SLICE)
        sums = warpgroup_mma_wait(0, (sums,))
        first += _scaled(sums, by_a, by_first, stages_t.index(2 * stage), ROWS_B, LAYOUT)
        sums = _product(left, stages_b.index(2 * stage + 1), LAYOUT)
        sums = warpgroup_mma_wait(0, (sums,))
        sums = _scaled(sums, by_a, by_second, stages_t.index(2 * stage + 1), ROWS_B, LAYOUT)
        mbarrier.arrive(empty.index(stage), count=1)
        second += sums
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
    c, scale_b, memory, staging, STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B: gl.constexpr,
    STAGES: gl.constexpr, GROUP: gl.constexpr, TILE_M: gl.constexpr, TILE_N: gl.constexpr,
    BUFFERS: gl.constexpr, WHICH: gl.constexpr,
):  # fmt: skip
    """A multiplying warpgroup: the WHICH-th 64 rows of every tile."""
    stages_a, stages_b, stages_s, stages_t, full, empty, M, N, K = memory
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 32])
    tiles_m = gl.cdiv(M, TILE_M)
    tiles_n = gl.cdiv(N, TILE_N)
    steps = gl.cdiv(K, WIDTH)
    used = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        row, col = tile_m * TILE_M + WHICH * HEIGHT, tile_n * TILE_N
        if TILE_N > WIDTH:
            first, second = _two_parts(
                stages_a, stages_b, stages_s, stages_t, full, empty, used, scale_b, col, N, steps,
                STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B, STAGES, LAYOUT, WHICH,
            )  # fmt: skip
            _store(first, c, row, col, staging, BUFFERS, WHICH)
            _store(second, c, row, col + WIDTH, staging, BUFFERS, WHICH)
        else:
            total = _one_part(
                stages_a, stages_b, stages_s, stages_t, full, empty, used, scale_b, col, N, steps,
                STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B, STAGES, TILE_M // HEIGHT, LAYOUT, WHICH,
            )  # fmt: skip
            _store(total, c, row, col, staging, BUFFERS, WHICH)
        used += steps
    tma.store_wait(0)


@gluon.jit
def _blocks_kernel(
    a, b, c, scale_a, scale_b, M, N, K, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP,
    ROWS_B: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr, REGISTERS: gl.constexpr,
    TILE_M: gl.constexpr, TILE_N: gl.constexpr, BUFFERS: gl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile; a, b, c and scales per row (flat, by columns) are descriptors."""
    GROUPS: gl.constexpr = TILE_M // HEIGHT
    boxes_a: gl.constexpr = STAGES * GROUPS
    boxes_b: gl.constexpr = STAGES * (TILE_N // WIDTH)
    stages_a = gl.allocate_shared_memory(a.dtype, [boxes_a, HEIGHT, WIDTH], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [boxes_b, WIDTH, WIDTH], b.layout)
    stages_s = gl.allocate_shared_memory(gl.float32, [boxes_a, HEIGHT], scale_a.layout)
    # one box where nothing is read from there
    boxes_t: gl.constexpr = boxes_b if ROWS_B else 1
    stages_t = gl.allocate_shared_memory(gl.float32, [boxes_t, WIDTH], scale_a.layout)
    staging = gl.allocate_shared_memory(c.dtype, [GROUPS * BUFFERS, HEIGHT, QUARTER], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=GROUPS)
    fence_async_shared()
    # fmt: off
    memory = (stages_a, stages_b, stages_s, stages_t, full, empty, M, N, K)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_fetch, (a, b, scale_a, scale_b, memory, STRIDE_A_STEP, STRIDE_B_STEP, ROWS_B,
                          STAGES, GROUP, TILE_M, TILE_N)),
                (_multiply, (c, scale_b, memory, staging, STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, 0)),
                (_multiply, (c, scale_b, memory, staging, STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, 1)),
            ],
            [4, 4], [REGISTERS, REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_fetch, (a, b, scale_a, scale_b, memory, STRIDE_A_STEP, STRIDE_B_STEP, ROWS_B,
                          STAGES, GROUP, TILE_M, TILE_N)),
                (_multiply, (c, scale_b, memory, staging, STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, 0)),
                (_multiply, (c, scale_b, memory, staging, STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, 1)),
                (_multiply, (c, scale_b, memory, staging, STRIDE_B_ROW, STRIDE_B_STEP, ROWS_B,
                             STAGES, GROUP, TILE_M, TILE_N, BUFFERS, 2)),
            ],
            [4, 4, 4], [REGISTERS, REGISTERS, REGISTERS],
        )
    # fmt: on


def takes(scales: torch.Tensor) -> bool:
    """Whether the tensor memory unit can read these scales [rows, steps]: transposed, and aligned.

    The innermost coordinate of a box has to be a multiple of 16 bytes, which no compiler checks:
    triton-lang/triton, issue 7385 and python/tutorials/gluon/04-tma.py.
    """
    columns_are_aligned = scales.shape[1] == 1 or scales.stride(1) % ALIGNED == 0
    return scales.stride(0) == 1 and columns_are_aligned and scales.data_ptr() % 16 == 0


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    rows_b: bool,
    config: BlocksConfig,
) -> None:
    """Fill c; for inputs that kernels.gemm.blockwise.gemm checked, and scales it `takes`.

    rows_b: scale_b is per 1 x 128, too.
    """
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    tiles = triton.cdiv(m, config.m) * triton.cdiv(n, config.n)
    _blocks_kernel[(min(tiles, compute_units(a)),)](
        in_shared_memory(a, [HEIGHT.value, WIDTH.value]),
        in_shared_memory(b, [WIDTH.value, WIDTH.value]),
        in_shared_memory(c, [HEIGHT.value, QUARTER.value]),
        _flat(scale_a, HEIGHT.value),
        _flat(scale_b, WIDTH.value) if rows_b else scale_b,
        *(m, n, k, scale_a.stride(1), *scale_b.stride()),
        ROWS_B=rows_b,
        STAGES=config.stages,
        GROUP=config.group,
        REGISTERS=config.registers,
        TILE_M=config.m,
        TILE_N=config.n,
        BUFFERS=config.buffers,
        num_warps=4,
    )


def _flat(scales: torch.Tensor, box: int) -> TensorDescriptor:
    """Transposed scales as one row: a box that ends below a column has scales of no row of C."""
    size = (scales.shape[1] - 1) * scales.stride(1) + scales.shape[0]
    flat = scales.as_strided((size,), (1,))
    return TensorDescriptor(flat, [size], [1], [box], SCALES)
