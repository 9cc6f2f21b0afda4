"""fp8 products whose two warpgroups share a tile, with two-level accumulation: Gluon, Hopper GPUs.

    C[M,N] bf16 = A[M,K] @ B[N,K].T, scaled as in kernels.gemm.axiswise or kernels.gemm.blockwise

One warp fetches (kernels.gemm.hopper.pipeline) and two warpgroups multiply 64 rows of the tile
each, with barriers of their own. So one can scale, add or store while the other keeps the matrix
unit busy, which plain Triton cannot do: all its warps wait together.

    slow       128 x 256   in two parts: the sums of 128 columns of K are added to a total
    blockwise  128 x 128   the sums are scaled and added to a total; in 128 x 256 this spills,
                           because the compiler starts the second part before it has added the first

With fast accumulation kernels.gemm.hopper.pingpong is faster. kernels.gemm.hopper.staged_scales has
larger tiles with scales per block, where these lie transposed.
"""

from dataclasses import dataclass
from typing import Final

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)

from kernels.common.tiles import tile_at
from kernels.gemm import rule
from kernels.gemm.hopper.pipeline import (
    FETCHING_REGISTERS,
    PART_COLUMNS,
    PART_ROWS,
    STEP,
    box_descriptor,
    check_registers,
    fetch,
    init_ring,
    new_ring,
    start_product,
    store,
    wait_until_full,
)
from kernels.gemm.operands import Product


@dataclass(frozen=True, slots=True, kw_only=True)
class CooperativeConfig:
    """Tiles of 128 x n.

    n          columns of a tile: 256 for slow accumulation, 128 with scales per block
    stages     of 128 columns of K in shared memory
    group      tiles walked down before the next column of tiles
    registers  per thread of the second multiplying warpgroup; 232 leave 248 to the first one, the
               default partition, which gets what is left
    rate       of a large product, relative to the best tile in plain Triton
    """

    n: int
    stages: int
    rate: float
    group: int = 8
    registers: int = 232
    m: int = 128

    def __post_init__(self) -> None:
        """Check what the kernel takes for granted."""
        check_registers(2, self.registers)
        assert self.m == 2 * PART_ROWS.value
        assert self.n in (PART_COLUMNS.value, 2 * PART_COLUMNS.value)


SLOW: Final = CooperativeConfig(**rule.COOPERATIVE_SLOW._asdict(), stages=4)
BLOCKWISE: Final = CooperativeConfig(**rule.COOPERATIVE_BLOCKS._asdict(), stages=6)


@gluon.jit
def _sum_slowly(ring, use, steps, LAYOUT: gl.constexpr, WHICH: gl.constexpr):
    """Two parts [64, 128] beside each other; sums of a step are added in fp32 registers."""
    first = gl.zeros((PART_ROWS, PART_COLUMNS), gl.float32, LAYOUT)
    second = gl.zeros((PART_ROWS, PART_COLUMNS), gl.float32, LAYOUT)
    for _ in range(steps):
        stage = use % ring.STAGES
        wait_until_full(ring, stage, use)
        left = ring.a.index(2 * stage + WHICH)
        sums = start_product(left, ring.b.index(2 * stage), LAYOUT)
        first += warpgroup_mma_wait(0, (sums,))
        sums = start_product(left, ring.b.index(2 * stage + 1), LAYOUT)
        sums = warpgroup_mma_wait(0, (sums,))
        mbarrier.arrive(ring.empty.index(stage), count=1)
        second += sums
        use += 1
    return first, second


@gluon.jit
def _sum_blocks(
    ring,
    use,
    steps,
    scale_a,
    scale_b,
    inside,
    STRIDE_A_STEP,
    STRIDE_B_STEP,
    LAYOUT: gl.constexpr,
    WHICH: gl.constexpr,
):
    """[64, 128]; the sums of a step are scaled and added in fp32 registers.

    scale_a points at the first scale of each row, those that are `inside`; scale_b at that of the
    tile's columns.
    """
    total = gl.zeros((PART_ROWS, PART_COLUMNS), gl.float32, LAYOUT)
    by = gl.load(scale_a, mask=inside, other=0.0) * gl.load(scale_b)
    for step in range(steps):
        stage = use % ring.STAGES
        # the scales of the next step: a read takes as long as a step
        later = gl.minimum(step + 1, steps - 1)
        next_a = gl.load(scale_a + later * STRIDE_A_STEP, mask=inside, other=0.0)
        next_b = gl.load(scale_b + later * STRIDE_B_STEP)
        wait_until_full(ring, stage, use)
        sums = start_product(ring.a.index(2 * stage + WHICH), ring.b.index(stage), LAYOUT)
        sums = warpgroup_mma_wait(0, (sums,))
        mbarrier.arrive(ring.empty.index(stage), count=1)
        total += sums * by[:, None]
        by = next_a * next_b
        use += 1
    return total


@gluon.jit
def _load_scales(scale, first, SIZE, COUNT: gl.constexpr, EACH: gl.constexpr):
    """COUNT scales from `first` on in the fewest registers, or the only one; SIZE are there."""
    if EACH:
        FLAT: gl.constexpr = gl.BlockedLayout([COUNT // 32 // 4 or 1], [32], [4], [0])
        at = first + gl.arange(0, COUNT, FLAT)
        return gl.load(scale + at, mask=at < SIZE, other=0.0)
    else:  # noqa: RET505 (both branches are traced without it)
        return gl.load(scale)


@gluon.jit
def _scaled(values, by_a, by_b, ROWS_A: gl.constexpr, ROWS_B: gl.constexpr, LAYOUT: gl.constexpr):
    """A part times its scales."""
    if ROWS_A:
        by_a = gl.convert_layout(by_a, gl.SliceLayout(1, LAYOUT))[:, None]
    if ROWS_B:
        by_b = gl.convert_layout(by_b, gl.SliceLayout(0, LAYOUT))[None, :]
        return values * by_a * by_b
    else:  # noqa: RET505 (both branches are traced without it)
        return values * (by_a * by_b)


@gluon.jit
def _multiply_parts(
    arguments,
    BLOCKS: gl.constexpr,
    ROWS_A: gl.constexpr,
    ROWS_B: gl.constexpr,
    CONFIG: gl.constexpr,
    WHICH: gl.constexpr,
):
    """A multiplying warpgroup: rows WHICH * 64 and on of every tile."""
    c, scale_a, scale_b, ring, staging, M, N, K, strides = arguments
    STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP = strides
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, PART_COLUMNS, 32])
    tiles_m = gl.cdiv(M, CONFIG.m)
    tiles_n = gl.cdiv(N, CONFIG.n)
    steps = gl.cdiv(K, STEP)
    use = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
        row, col = tile_m * CONFIG.m + WHICH * PART_ROWS, tile_n * CONFIG.n
        if BLOCKS:
            m = row + gl.arange(0, PART_ROWS, gl.SliceLayout(1, LAYOUT))
            of_a = scale_a + m * STRIDE_A_ROW
            of_b = scale_b + tile_n * STRIDE_B_ROW
            sums = _sum_blocks(
                ring, use, steps, of_a, of_b, m < M, STRIDE_A_STEP, STRIDE_B_STEP, LAYOUT, WHICH
            )
            store(sums, c, row, col, staging.index(WHICH))
        else:
            # Scales are read before the sums are made, and wait in few registers: read after them,
            # they cost 7 % of a product with K of 1024.
            by_a = _load_scales(scale_a, row, M, PART_ROWS, ROWS_A)
            by_first = _load_scales(scale_b, col, N, PART_COLUMNS, ROWS_B)
            by_second = _load_scales(scale_b, col + PART_COLUMNS, N, PART_COLUMNS, ROWS_B)
            first, second = _sum_slowly(ring, use, steps, LAYOUT, WHICH)
            first = _scaled(first, by_a, by_first, ROWS_A, ROWS_B, LAYOUT)
            store(first, c, row, col, staging.index(WHICH))
            second = _scaled(second, by_a, by_second, ROWS_A, ROWS_B, LAYOUT)
            store(second, c, row, col + PART_COLUMNS, staging.index(WHICH))
        use += steps
    tma.store_wait(0)


@gluon.jit
def _cooperative_kernel(
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
    BLOCKS: gl.constexpr,
    ROWS_A: gl.constexpr,
    ROWS_B: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """Every num_programs-th tile; a, b and c are descriptors. BLOCKS: scales per block of K."""
    gl.static_assert(CONFIG.n == (PART_COLUMNS if BLOCKS else 2 * PART_COLUMNS))
    ring = new_ring(a, b, CONFIG)
    staging = gl.allocate_shared_memory(c.dtype, [2, PART_ROWS, PART_COLUMNS], c.layout)
    init_ring(ring, 2)
    fence_async_shared()
    strides = (STRIDE_A_ROW, STRIDE_A_STEP, STRIDE_B_ROW, STRIDE_B_STEP)
    arguments = (c, scale_a, scale_b, ring, staging, M, N, K, strides)
    gl.warp_specialize(
        [
            (_multiply_parts, (arguments, BLOCKS, ROWS_A, ROWS_B, CONFIG, 0)),
            (_multiply_parts, (arguments, BLOCKS, ROWS_A, ROWS_B, CONFIG, 1)),
            (fetch, (a, b, ring, None, M, N, K, False, False, CONFIG)),
        ],
        [4, 1],
        [CONFIG.registers, FETCHING_REGISTERS],
    )


def launch(product: Product, config: CooperativeConfig = SLOW) -> None:
    """Fill C with slow accumulation and a scale per tensor or per row."""
    _launch(product, config, (0, 0, 0, 0), product.has_row_scales, blocks=False)


def launch_blockwise(product: Product, config: CooperativeConfig = BLOCKWISE) -> None:
    """Fill C with a's scales per 1 x 128 and b's per 128 x 128."""
    strides = (*product.scale_a.stride(), *product.scale_b.stride())
    _launch(product, config, strides, (True, False), blocks=True)


def _launch(
    product: Product,
    config: CooperativeConfig,
    scale_strides: tuple[int, ...],
    rows: tuple[bool, bool],
    *,
    blocks: bool,
) -> None:
    _cooperative_kernel[product.grid(config.m, config.n)](
        box_descriptor(product.a, PART_ROWS.value, STEP.value),
        box_descriptor(product.b, PART_COLUMNS.value, STEP.value),
        box_descriptor(product.c, PART_ROWS.value, PART_COLUMNS.value),
        product.scale_a,
        product.scale_b,
        *product.sizes,
        *scale_strides,
        BLOCKS=blocks,
        ROWS_A=rows[0],
        ROWS_B=rows[1],
        CONFIG=config,
        num_warps=4,
    )
