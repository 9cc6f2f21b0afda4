"""How a multiplying warpgroup of kernels.gemm.hopper.cooperative goes through the K of a tile.

Arguments: stages_a and stages_b, the ring of operands in shared memory; full and empty, its
barriers; used, the stages that this warpgroup has been through in all tiles before; steps of 128
columns of K; STAGES of the ring; LAYOUT of the sums; WHICH of the two warpgroups.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

HEIGHT: gl.constexpr = gl.constexpr(64)  # rows of a warpgroup
HALF: gl.constexpr = gl.constexpr(128)  # columns of half a tile


@gluon.jit
def slow(
    stages_a,
    stages_b,
    full,
    empty,
    used,
    steps,
    STAGES: gl.constexpr,
    LAYOUT: gl.constexpr,
    WHICH: gl.constexpr,
):
    """Two halves [64, 128]; the sums of a step are added to them in fp32 registers."""
    first = gl.zeros((HEIGHT, HALF), gl.float32, LAYOUT)
    second = gl.zeros((HEIGHT, HALF), gl.float32, LAYOUT)
    for _ in range(steps):
        stage = used % STAGES
        mbarrier.wait(full.index(stage), (used // STAGES) & 1)
        left = stages_a.index(2 * stage + WHICH)
        first += _multiply(left, stages_b.index(2 * stage), LAYOUT)
        sums = _multiply(left, stages_b.index(2 * stage + 1), LAYOUT)
        mbarrier.arrive(empty.index(stage), count=1)
        second += sums
        used += 1
    return first, second


@gluon.jit
def blocks(
    stages_a,
    stages_b,
    full,
    empty,
    used,
    steps,
    scale_a,
    scale_b,
    inside,
    STRIDE_A_STEP,
    STRIDE_B_STEP,
    STAGES: gl.constexpr,
    LAYOUT: gl.constexpr,
    WHICH: gl.constexpr,
):
    """[64, 128]; the sums of a step are scaled and added in fp32 registers.

    scale_a points at the first scale of each row, those that are `inside`; scale_b at that of the
    tile's columns.
    """
    total = gl.zeros((HEIGHT, HALF), gl.float32, LAYOUT)
    by = gl.load(scale_a, mask=inside, other=0.0) * gl.load(scale_b)
    for step in range(steps):
        stage = used % STAGES
        # the scales of the next step: a read takes as long as a step
        later = gl.minimum(step + 1, steps - 1)
        next_a = gl.load(scale_a + later * STRIDE_A_STEP, mask=inside, other=0.0)
        next_b = gl.load(scale_b + later * STRIDE_B_STEP)
        mbarrier.wait(full.index(stage), (used // STAGES) & 1)
        sums = _multiply(stages_a.index(2 * stage + WHICH), stages_b.index(stage), LAYOUT)
        mbarrier.arrive(empty.index(stage), count=1)
        total += sums * by[:, None]
        by = next_a * next_b
        used += 1
    return total


@gluon.jit
def _multiply(left, right, LAYOUT: gl.constexpr):
    """Sums [64, 128] of one step, in registers of their own."""
    sums = gl.zeros((HEIGHT, HALF), gl.float32, LAYOUT)
    sums = warpgroup_mma(left, right.permute((1, 0)), sums, use_acc=False, is_async=True)
    return warpgroup_mma_wait(0, (sums,))
