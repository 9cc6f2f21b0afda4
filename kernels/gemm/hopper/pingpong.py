"""fp8 products whose warpgroups have tiles of their own: Gluon, NVIDIA Hopper GPUs.

    C[M,N] bf16 = A[M,K] @ B[N,K].T, scaled as in kernels.gemm.axiswise; fast accumulation

A program has warps that fetch (kernels.gemm.hopper.pipeline) and two warpgroups that take its tiles
of 128 x 128 in turns. So one scales and stores a tile while the other keeps the matrix unit busy.
Warpgroups that share a tile end it together, which costs most where K is short.

The warpgroups sum in turns: one begins when the other has seen the last stage of its own tile. A
barrier tells a phase from the next one only, so a warpgroup that waited for stages further ahead
would take what lies there from earlier steps for its own.

The fetching warps are the default partition: the two multiplying ones then get the same registers.
"""

from dataclasses import dataclass
from typing import Final

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.common.tiles import tile_at
from kernels.gemm import rule
from kernels.gemm.hopper.pipeline import (
    STEP,
    box_descriptor,
    check_registers,
    fetch,
    init_ring,
    new_ring,
    store_halves,
    wait_until_full,
)
from kernels.gemm.operands import Product

TILE: gl.constexpr = gl.constexpr(128)  # rows and columns
STORED_COLUMNS: gl.constexpr = gl.constexpr(64)  # that leave at once: half a tile


@dataclass(frozen=True, slots=True, kw_only=True)
class PingpongConfig:
    """Tiles of 128 x 128, one per warpgroup.

    stages     of 128 columns of K in shared memory
    buffers    per warpgroup, through which halves of tiles leave
    group      tiles walked down before the next column of tiles
    registers  per thread of a multiplying warpgroup; 216 leave 72 to the fetching one
    rate       of a large product, relative to the best tile in plain Triton
    """

    rate: float
    stages: int = 6
    buffers: int = 1
    group: int = 4
    registers: int = 216
    m: int = 128
    n: int = 128

    def __post_init__(self) -> None:
        """Check what the kernel takes for granted."""
        check_registers(2, self.registers)
        assert (self.m, self.n) == (TILE.value, TILE.value)
        assert self.buffers in (1, 2)


# Against torch's product on an H200 in groups of 12 (8 and 16 within 1 %; 4 was not tried),
# geometric means: by axis scales 0.99 over eight shapes, with tensor scales 1.04 over ten;
# warpgroups that shared tiles of 128 x 256 reached 0.94 and 0.94. On an H100 (2026-11-25), from
# groups of 12 to groups of 4:
#
#     m, n, k               by axis scales     with tensor scales
#     8192, 8192, 8192      0.96 to 0.95       1.02 to 0.99
#     16384, 16384, 16384   0.81 to 1.01       0.79 to 0.92
#     16384, 1280, 8192     0.94 to 1.03       0.93 to 1.03
#     16384, 8192, 1024     1.06 to 1.08       1.07 to 1.14
#     16384, 7168, 8192     0.89 to 0.96       0.93 to 0.99
#     8192, 8192, 57344     0.81 to 1.13
#     57344, 8192, 8192     0.81 to 0.89
#
# 2, 3, 6 and 8 were tried there on all but the last two, 8, 16 and 24 on those, and are no better
# on the whole. On another H100 the same day, in turns of 300 ms: 1.00 by axis scales (0.94 to 1.09)
# and 1.00 with tensor scales (0.92 to 1.14), geometric means over eight shapes, these and 2048
# cubed, 4096 cubed and 16384, 8192, 3584. `rate` is that of the H200 in groups of 12.
PINGPONG: Final = PingpongConfig(**rule.PINGPONG._asdict())


@gluon.jit
def _load_scales(scale, first, SIZE, EACH: gl.constexpr, LAYOUT: gl.constexpr):
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
def _sum_tile(ring, others_turn, use, steps, LAYOUT: gl.constexpr):
    """A tile, summed in the matrix unit; `use` steps of the ring are behind it.

    The other warpgroup's turn begins as soon as all stages are there and their products issued.
    """
    sums = gl.zeros((TILE, TILE), gl.float32, LAYOUT)
    for step in range(steps):
        stage = use % ring.STAGES
        wait_until_full(ring, stage, use)
        right = ring.b.index(stage).permute((1, 0))
        sums = warpgroup_mma(ring.a.index(stage), right, sums, is_async=True)
        sums = warpgroup_mma_wait(1, (sums,))  # the stage before has been read
        before = (use + ring.STAGES - 1) % ring.STAGES
        mbarrier.arrive(ring.empty.index(before), count=1, pred=step > 0)
        use += 1
    mbarrier.arrive(others_turn, count=1)
    sums = warpgroup_mma_wait(0, (sums,))
    mbarrier.arrive(ring.empty.index((use + ring.STAGES - 1) % ring.STAGES), count=1)
    return sums


@gluon.jit
def _multiply_tiles(
    arguments, ROWS_A: gl.constexpr, ROWS_B: gl.constexpr, CONFIG: gl.constexpr, WHICH: gl.constexpr
):
    """A multiplying warpgroup: every other tile of the program, from tile WHICH on."""
    c, scale_a, scale_b, ring, staging, turns, M, N, K = arguments
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 32])
    tiles_m = gl.cdiv(M, TILE)
    tiles_n = gl.cdiv(N, TILE)
    steps = gl.cdiv(K, STEP)
    use = WHICH * steps
    phase = 1 - WHICH  # of a barrier that nobody has arrived at: the first turn is number 0's
    first_tile = gl.program_id(0) + WHICH * gl.num_programs(0)
    for tile in range(first_tile, tiles_m * tiles_n, 2 * gl.num_programs(0)):
        tile_m, tile_n = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
        row, col = tile_m * TILE, tile_n * TILE
        # read before the sums are made: afterwards the warpgroup would wait for them
        by_a = _load_scales(scale_a, row, M, ROWS_A, gl.SliceLayout(1, LAYOUT))
        by_b = _load_scales(scale_b, col, N, ROWS_B, gl.SliceLayout(0, LAYOUT))
        mbarrier.wait(turns.index(WHICH), phase)
        sums = _sum_tile(ring, turns.index(1 - WHICH), use, steps, LAYOUT)
        sums = _scaled(sums, by_a, by_b, ROWS_A, ROWS_B)
        store_halves(sums, c, row, col, staging, WHICH, CONFIG.buffers)
        use += 2 * steps  # its own and those of the other's next tile
        phase ^= 1
    tma.store_wait(0)


@gluon.jit
def _pingpong_kernel(
    a,
    b,
    c,
    scale_a,
    scale_b,
    M,
    N,
    K,
    ROWS_A: gl.constexpr,
    ROWS_B: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """Every num_programs-th tile; a, b and c are descriptors."""
    BUFFERS: gl.constexpr = 2 * CONFIG.buffers
    ring = new_ring(a, b, CONFIG)
    staging = gl.allocate_shared_memory(c.dtype, [BUFFERS, TILE, STORED_COLUMNS], c.layout)
    init_ring(ring, 1)
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for which in gl.static_range(2):
        mbarrier.init(turns.index(which), count=1)
    fence_async_shared()
    arguments = (c, scale_a, scale_b, ring, staging, turns, M, N, K)
    gl.warp_specialize(
        [
            (fetch, (a, b, ring, None, M, N, K, False, False, CONFIG)),
            (_multiply_tiles, (arguments, ROWS_A, ROWS_B, CONFIG, 0)),
            (_multiply_tiles, (arguments, ROWS_A, ROWS_B, CONFIG, 1)),
        ],
        [4, 4],
        [CONFIG.registers, CONFIG.registers],
    )


def launch(product: Product, config: PingpongConfig = PINGPONG) -> None:
    """Fill C with fast accumulation and a scale per tensor or per row."""
    row_scales_a, row_scales_b = product.has_row_scales
    _pingpong_kernel[product.grid(config.m, config.n)](
        box_descriptor(product.a, TILE.value, STEP.value),
        box_descriptor(product.b, TILE.value, STEP.value),
        box_descriptor(product.c, TILE.value, STORED_COLUMNS.value),
        product.scale_a,
        product.scale_b,
        *product.sizes,
        ROWS_A=row_scales_a,
        ROWS_B=row_scales_b,
        CONFIG=config,
        num_warps=4,
    )
