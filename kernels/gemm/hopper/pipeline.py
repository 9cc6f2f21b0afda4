"""How Hopper's fp8 products in Gluon move data: a ring of stages that is fetched ahead, and stores.

A program has warps that fetch and warpgroups that multiply. A stage of the ring holds STEP columns
of K of a tile's rows of A and of B, in shared memory. Two barriers per stage keep the two sides
apart: `full` completes when the bytes of a stage have come, `empty` when all warpgroups have read
it. A barrier tells a phase from the next one only, (use // stages) & 1.

Triton's interpreter knows no Gluon: kernels.gemm.axiswise and kernels.gemm.blockwise have the same
products in plain Triton.
"""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.core import _aggregate as aggregate

from kernels.common.tiles import tile_at, tile_descriptor

STEP: gl.constexpr = gl.constexpr(128)  # columns of K in a stage: swizzled rows of 128 bytes
# Rows of A that a warpgroup multiplies at once, wgmma's M.
PART_ROWS: gl.constexpr = gl.constexpr(64)
# Columns of C that it sums at once: with 128 x 64 fp32 sums per warpgroup nothing spills.
PART_COLUMNS: gl.constexpr = gl.constexpr(128)
# Registers that setmaxnreg gives out, per thread of one of a program's warpgroups: 65,536 shared
# by three warpgroups of 128 threads (168 each, in multiples of 8) or by four.
_REGISTERS_OF_WARPGROUPS = {3: 504, 4: 512}
# What setmaxnreg takes at least: enough for warps that do nothing but fetch.
FETCHING_REGISTERS: gl.constexpr = gl.constexpr(24)


def check_registers(multiplying: int, registers: int) -> None:
    """Assert that a fetching warpgroup has registers left beside so many multiplying ones."""
    left = _REGISTERS_OF_WARPGROUPS[multiplying + 1] - multiplying * registers
    assert registers % 8 == 0
    assert left >= FETCHING_REGISTERS.value


@aggregate
class Ring:
    """The boxes of all stages in shared memory, and the two barriers of each stage."""

    a: gl.shared_memory_descriptor
    b: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    STAGES: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, a, b, full, empty, STAGES) -> None:
        """Triton makes aggregates of what the device holds; STAGES is known to the compiler."""
        self.a = a
        self.b = b
        self.full = full
        self.empty = empty
        self.STAGES = gl.constexpr(STAGES)


@gluon.jit
def new_ring(a, b, CONFIG: gl.constexpr):
    """A ring for boxes of the descriptors a and b."""
    STAGES: gl.constexpr = CONFIG.stages
    ROWS_A: gl.constexpr = a.block_type.shape[0]
    ROWS_B: gl.constexpr = b.block_type.shape[0]
    gl.static_assert(CONFIG.m % ROWS_A == 0 and CONFIG.n % ROWS_B == 0, "a tile has whole boxes")
    BOXES_A: gl.constexpr = STAGES * (CONFIG.m // ROWS_A)
    BOXES_B: gl.constexpr = STAGES * (CONFIG.n // ROWS_B)
    stages_a = gl.allocate_shared_memory(a.dtype, [BOXES_A, ROWS_A, STEP], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [BOXES_B, ROWS_B, STEP], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    return Ring(stages_a, stages_b, full, empty, STAGES)


@gluon.jit
def init_ring(ring, READERS: gl.constexpr):
    """Let the barriers wait for bytes, and for so many warpgroups that read them."""
    for stage in gl.static_range(ring.STAGES):
        mbarrier.init(ring.full.index(stage), count=1)
        mbarrier.init(ring.empty.index(stage), count=READERS)


@gluon.jit
def wait_until_full(ring, stage, use):
    """Wait for the bytes of the use-th step of K, which come to `stage`: use % stages."""
    mbarrier.wait(ring.full.index(stage), (use // ring.STAGES) & 1)


@gluon.jit
def fetch(
    a,
    b,
    ring,
    scales,
    M,
    N,
    K,
    SCALES_A: gl.constexpr,
    SCALES_B: gl.constexpr,
    CONFIG: gl.constexpr,
):
    """The fetching warps: every stage of every tile, box by box, as soon as it is free.

    a and b are descriptors. scales: of rows that come with their stage, if SCALES_A or SCALES_B:
    (descriptor of a's, of b's, boxes in shared memory of a's, of b's, offset from a step to the
    next of a's, of b's).
    """
    ROWS_A: gl.constexpr = a.block_type.shape[0]
    ROWS_B: gl.constexpr = b.block_type.shape[0]
    BOXES_A: gl.constexpr = CONFIG.m // ROWS_A
    BOXES_B: gl.constexpr = CONFIG.n // ROWS_B
    SCALED: gl.constexpr = (CONFIG.m if SCALES_A else 0) + (CONFIG.n if SCALES_B else 0)
    tiles_m = gl.cdiv(M, CONFIG.m)
    tiles_n = gl.cdiv(N, CONFIG.n)
    steps = gl.cdiv(K, STEP)
    use = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = tile_at(tile, tiles_m, tiles_n, CONFIG.group)
        for step in range(steps):
            stage = use % ring.STAGES
            mbarrier.wait(ring.empty.index(stage), ((use // ring.STAGES) & 1) ^ 1)
            ready = ring.full.index(stage)
            mbarrier.expect(ready, (CONFIG.m + CONFIG.n) * STEP + 4 * SCALED)
            for i in gl.static_range(BOXES_A):
                row = tile_m * CONFIG.m + i * ROWS_A
                box = BOXES_A * stage + i
                tma.async_copy_global_to_shared(a, [row, step * STEP], ready, ring.a.index(box))
                if SCALES_A:
                    at = [step * scales[4] + row]
                    tma.async_copy_global_to_shared(scales[0], at, ready, scales[2].index(box))
            for i in gl.static_range(BOXES_B):
                col = tile_n * CONFIG.n + i * ROWS_B
                box = BOXES_B * stage + i
                tma.async_copy_global_to_shared(b, [col, step * STEP], ready, ring.b.index(box))
                if SCALES_B:
                    at = [step * scales[5] + col]
                    tma.async_copy_global_to_shared(scales[1], at, ready, scales[3].index(box))
            use += 1


@gluon.jit
def start_product(left, right, LAYOUT: gl.constexpr):
    """Start the sums [PART_ROWS, PART_COLUMNS] of one step, in registers of their own."""
    sums = gl.zeros((PART_ROWS, PART_COLUMNS), gl.float32, LAYOUT)
    return warpgroup_mma(left, right.permute((1, 0)), sums, use_acc=False, is_async=True)


@gluon.jit
def store(values, c, row, col, staging, PENDING: gl.constexpr = 0):
    """A part of a tile, when all parts before it but PENDING have left their buffers."""
    tma.store_wait(PENDING)
    staging.store(values.to(gl.bfloat16))
    fence_async_shared()
    tma.async_copy_shared_to_global(c, [row, col], staging)


@gluon.jit
def store_halves(values, c, row, col, staging, WHICH: gl.constexpr, BUFFERS: gl.constexpr):
    """A part in two halves of its columns, through the WHICH-th warpgroup's buffers (1 or 2)."""
    FIRST: gl.constexpr = WHICH * BUFFERS
    rows: gl.constexpr = values.shape[0]
    half: gl.constexpr = values.shape[1] // 2
    left, right = gl.split(gl.permute(gl.reshape(values, (rows, 2, half)), (0, 2, 1)))
    store(left, c, row, col, staging.index(FIRST), BUFFERS - 1)
    store(right, c, row, col + half, staging.index(FIRST + BUFFERS - 1), BUFFERS - 1)


_GLUON_TYPES = {
    torch.float8_e4m3fn: gl.float8e4nv,
    torch.float8_e5m2: gl.float8e5,
    torch.bfloat16: gl.bfloat16,
}


def box_layout(block: list[int], dtype: Any) -> gl.NVMMASharedLayout:
    """Layout in shared memory of a box of a Gluon type."""
    return gl.NVMMASharedLayout.get_default_for(block, dtype)


def box_descriptor(x: torch.Tensor, rows: int, cols: int) -> TensorDescriptor:
    """The descriptor of a matrix whose boxes lie in shared memory as Gluon's kernels want."""
    block = [rows, cols]
    plain = tile_descriptor(x, block)
    layout = box_layout(block, _GLUON_TYPES[x.dtype])
    return TensorDescriptor(x, plain.shape, plain.strides, block, layout)
