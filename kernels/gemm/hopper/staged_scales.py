"""fp8 products whose scales per block come with their stage: Gluon, NVIDIA Hopper GPUs.

    C[M,N] bf16 as in kernels.gemm.blockwise: A scaled per 1 x 128, B per 128 x 128 or 1 x 128

Warps fetch through a ring of stages (kernels.gemm.hopper.pipeline), and two or three warpgroups
share a tile. Plain Triton waits with all its warps while sums are scaled; here

    one warpgroup scales and adds while the others keep the matrix unit busy

    scales per 1 x 128 come through the tensor memory unit: a warpgroup that reads them from global
    memory waits for them in every step. They have to lie in aligned columns
    (kernels.common.fp8_scales.in_aligned_columns)

    three warpgroups may share a tile (192 x 128), or a warpgroup may have two parts of 64 x 128
    beside each other (128 x 256), so that a fetched byte serves more products. The fetching warps
    are the default partition: all multiplying warpgroups then have the same registers, with which
    none spills

The sums of one part and 128 columns of K leave the matrix unit, are scaled and added to a total.
"""

from dataclasses import dataclass
from typing import Final

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.common.fp8_scales import in_aligned_columns
from kernels.common.tiles import tile_at
from kernels.gemm import rule
from kernels.gemm.hopper.pipeline import (
    PART_COLUMNS,
    PART_ROWS,
    STEP,
    box_descriptor,
    check_registers,
    fetch,
    init_ring,
    new_ring,
    start_product,
    store_halves,
    wait_until_full,
)
from kernels.gemm.operands import Product

STORED_COLUMNS: gl.constexpr = gl.constexpr(64)  # that leave at once: half a part
SCALES_LAYOUT = gl.NVMMASharedLayout(0, 32, 1)  # of a part's scales in shared memory: in order


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedScalesConfig:
    """A product with scales per block in tiles m x n.

    m, n       a warpgroup per 64 rows, two or three; n 128 or, of two warpgroups, 256
    stages     of 128 columns of K in shared memory
    buffers    per warpgroup, through which tiles leave
    group      tiles walked down before the next column of tiles
    registers  per thread of a multiplying warpgroup: 216 of two leave 72 to the fetching one, 152
               of three leave 56
    rate       of a large product, relative to the best tile in plain Triton
    """

    m: int
    n: int
    rate: float
    stages: int
    buffers: int = 2
    group: int = 8
    registers: int = 216

    def __post_init__(self) -> None:
        """Check what the kernel takes for granted."""
        assert (self.m, self.n) in {(128, 128), (192, 128), (128, 256)}
        assert self.buffers in (1, 2)
        check_registers(self.m // PART_ROWS.value, self.registers)


# B scaled per 128 x 128. Of torch's product over six shapes 0.86 and 0.94, the better one of each
# shape 0.96; 128 x 128 with scales that a warpgroup reads itself 0.84, of two parts one above the
# other (256 x 128) 0.92.
SQUARES: Final = (
    StagedScalesConfig(**rule.STAGED_SQUARES[0]._asdict(), stages=4, registers=152, group=6),
    StagedScalesConfig(**rule.STAGED_SQUARES[1]._asdict(), stages=4),
)
# B scaled per 1 x 128, too: 128 more scales in every step, for which 128 x 256 has no registers.
# 970 and 895 TFLOP/s at 8192, plain Triton 519.
STRIPS: Final = (
    StagedScalesConfig(**rule.STAGED_STRIPS[0]._asdict(), stages=4, registers=152, group=6),
    StagedScalesConfig(**rule.STAGED_STRIPS[1]._asdict(), stages=6, buffers=1),
)


@gluon.jit
def _scaled(sums, by_a, by_b, scales_b, ROWS_B: gl.constexpr, LAYOUT: gl.constexpr):
    """A part's sums times its scales: those of B lie in scales_b, or are all by_b."""
    if ROWS_B:
        return sums * by_a[:, None] * scales_b.load(gl.SliceLayout(0, LAYOUT))[None, :]
    else:  # noqa: RET505 (both branches are traced without it)
        return sums * (by_a * by_b)[:, None]


@gluon.jit
def _load_square_scale(squares, col, step, steps, N, ROWS_B: gl.constexpr):
    """The scale that a part's columns share in a step, a step that there is; 1 with ROWS_B."""
    if ROWS_B:
        return 1.0
    else:  # noqa: RET505 (both branches are traced without it)
        scale_b, STRIDE_ROW, STRIDE_STEP = squares
        block = gl.minimum(col, N - 1) // STEP
        return gl.load(scale_b + block * STRIDE_ROW + gl.minimum(step, steps - 1) * STRIDE_STEP)


@gluon.jit
def _sum_one_part(
    ring,
    staged_a,
    staged_b,
    squares,
    use,
    col,
    N,
    steps,
    ROWS_B: gl.constexpr,
    BOXES_A: gl.constexpr,
    LAYOUT: gl.constexpr,
    WHICH: gl.constexpr,
):
    """[64, 128] from column `col` of C on."""
    SLICE: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    total = gl.zeros((PART_ROWS, PART_COLUMNS), gl.float32, LAYOUT)
    by_b = _load_square_scale(squares, col, 0, steps, N, ROWS_B)
    for step in range(steps):
        stage = use % ring.STAGES
        # of the next step: a read takes as long as a step
        next_b = _load_square_scale(squares, col, step + 1, steps, N, ROWS_B)
        wait_until_full(ring, stage, use)
        box = BOXES_A * stage + WHICH
        sums = start_product(ring.a.index(box), ring.b.index(stage), LAYOUT)
        by_a = staged_a.index(box).load(SLICE)
        sums = warpgroup_mma_wait(0, (sums,))
        sums = _scaled(sums, by_a, by_b, staged_b.index(stage), ROWS_B, LAYOUT)
        mbarrier.arrive(ring.empty.index(stage), count=1)
        total += sums
        by_b = next_b
        use += 1
    return total


@gluon.jit
def _sum_two_parts(
    ring,
    staged_a,
    staged_b,
    squares,
    use,
    col,
    N,
    steps,
    ROWS_B: gl.constexpr,
    LAYOUT: gl.constexpr,
    WHICH: gl.constexpr,
):
    """Two of [64, 128], beside each other, from column `col` of C on."""
    SLICE: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    first = gl.zeros((PART_ROWS, PART_COLUMNS), gl.float32, LAYOUT)
    second = gl.zeros((PART_ROWS, PART_COLUMNS), gl.float32, LAYOUT)
    for step in range(steps):
        stage = use % ring.STAGES
        by_first = _load_square_scale(squares, col, step, steps, N, ROWS_B)
        by_second = _load_square_scale(squares, col + PART_COLUMNS, step, steps, N, ROWS_B)
        wait_until_full(ring, stage, use)
        left = ring.a.index(2 * stage + WHICH)
        sums = start_product(left, ring.b.index(2 * stage), LAYOUT)
        by_a = staged_a.index(2 * stage + WHICH).load(SLICE)
        sums = warpgroup_mma_wait(0, (sums,))
        first += _scaled(sums, by_a, by_first, staged_b.index(2 * stage), ROWS_B, LAYOUT)
        sums = start_product(left, ring.b.index(2 * stage + 1), LAYOUT)
        sums = warpgroup_mma_wait(0, (sums,))
        sums = _scaled(sums, by_a, by_second, staged_b.index(2 * stage + 1), ROWS_B, LAYOUT)
        mbarrier.arrive(ring.empty.index(stage), count=1)
        second += sums
        use += 1
    return first, second


@gluon.jit
def _multiply_parts(arguments, ROWS_B: gl.constexpr, CONFIG: gl.constexpr, WHICH: gl.constexpr):
    """A multiplying warpgroup: the WHICH-th 64 rows of every tile."""
    c, ring, staged_a, staged_b, squares, staging, M, N, K = arguments
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, PART_COLUMNS, 32])
    BOXES_A: gl.constexpr = CONFIG.m // PART_ROWS
    BUFFERS: gl.constexpr = CONFIG.buffers
    tiles_m = gl.cdiv(M, CONFIG.m)
    tiles_n = gl.cdiv(N, CONFIG.n)
    steps = gl.cdiv(K, STEP)
    use = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
        row, col = tile_m * CONFIG.m + WHICH * PART_ROWS, tile_n * CONFIG.n
        if CONFIG.n > PART_COLUMNS:
            first, second = _sum_two_parts(
                ring, staged_a, staged_b, squares, use, col, N, steps, ROWS_B, LAYOUT, WHICH
            )
            store_halves(first, c, row, col, staging, WHICH, BUFFERS)
            store_halves(second, c, row, col + PART_COLUMNS, staging, WHICH, BUFFERS)
        else:
            total = _sum_one_part(
                ring,
                staged_a,
                staged_b,
                squares,
                use,
                col,
                N,
                steps,
                ROWS_B,
                BOXES_A,
                LAYOUT,
                WHICH,
            )
            store_halves(total, c, row, col, staging, WHICH, BUFFERS)
        use += steps
    tma.store_wait(0)


@gluon.jit
def _staged_scales_kernel(
    a,
    b,
    c,
    scale_a,
    scale_b,
    M,
    N,
    K,
    STRIDE_A_STEP,
    STRIDE_B_ROW,
    STRIDE_B_STEP,
    ROWS_B: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """Every num_programs-th tile; a, b, c and scales per row (flat, by columns) are descriptors."""
    GROUPS: gl.constexpr = CONFIG.m // PART_ROWS
    BOXES_A: gl.constexpr = CONFIG.stages * GROUPS
    BOXES_B: gl.constexpr = CONFIG.stages * (CONFIG.n // PART_COLUMNS)
    BUFFERS: gl.constexpr = GROUPS * CONFIG.buffers
    # one box where nothing is read from there
    SCALE_BOXES_B: gl.constexpr = BOXES_B if ROWS_B else 1
    LAYOUT: gl.constexpr = scale_a.layout
    ring = new_ring(a, b, CONFIG)
    staged_a = gl.allocate_shared_memory(gl.float32, [BOXES_A, PART_ROWS], LAYOUT)
    staged_b = gl.allocate_shared_memory(gl.float32, [SCALE_BOXES_B, PART_COLUMNS], LAYOUT)
    staging = gl.allocate_shared_memory(c.dtype, [BUFFERS, PART_ROWS, STORED_COLUMNS], c.layout)
    init_ring(ring, GROUPS)
    fence_async_shared()
    scales = (scale_a, scale_b, staged_a, staged_b, STRIDE_A_STEP, STRIDE_B_STEP)
    squares = (scale_b, STRIDE_B_ROW, STRIDE_B_STEP)
    arguments = (c, ring, staged_a, staged_b, squares, staging, M, N, K)
    # A tuple that grows by `+`, or has a name, would lose what the compiler knows of its numbers.
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (fetch, (a, b, ring, scales, M, N, K, True, ROWS_B, CONFIG)),
                (_multiply_parts, (arguments, ROWS_B, CONFIG, 0)),
                (_multiply_parts, (arguments, ROWS_B, CONFIG, 1)),
            ],
            [4, 4],
            [CONFIG.registers, CONFIG.registers],
        )
    else:
        gl.warp_specialize(
            [
                (fetch, (a, b, ring, scales, M, N, K, True, ROWS_B, CONFIG)),
                (_multiply_parts, (arguments, ROWS_B, CONFIG, 0)),
                (_multiply_parts, (arguments, ROWS_B, CONFIG, 1)),
                (_multiply_parts, (arguments, ROWS_B, CONFIG, 2)),
            ],
            [4, 4, 4],
            [CONFIG.registers, CONFIG.registers, CONFIG.registers],
        )


def launch(product: Product, config: StagedScalesConfig, *, rows_b: bool) -> None:
    """Fill C. Scales per 1 x 128 that do not lie in aligned columns are copied there first.

    rows_b: scale_b is per 1 x 128, too.
    """
    scale_a = in_aligned_columns(product.scale_a)
    scale_b = in_aligned_columns(product.scale_b) if rows_b else product.scale_b
    _staged_scales_kernel[product.grid(config.m, config.n)](
        box_descriptor(product.a, PART_ROWS.value, STEP.value),
        box_descriptor(product.b, PART_COLUMNS.value, STEP.value),
        box_descriptor(product.c, PART_ROWS.value, STORED_COLUMNS.value),
        flat_descriptor(scale_a, PART_ROWS.value),
        flat_descriptor(scale_b, PART_COLUMNS.value) if rows_b else scale_b,
        *product.sizes,
        scale_a.stride(1),
        *scale_b.stride(),
        ROWS_B=rows_b,
        CONFIG=config,
        num_warps=4,
    )


def flat_descriptor(scales: torch.Tensor, box: int) -> TensorDescriptor:
    """Transposed scales as one row, in boxes of so many.

    A box that ends below a column has scales of no row of C, and nobody reads these.
    """
    size = (scales.shape[1] - 1) * scales.stride(1) + scales.shape[0]
    flat = scales.as_strided((size,), (1,))
    return TensorDescriptor(flat, [size], [1], [box], SCALES_LAYOUT)
