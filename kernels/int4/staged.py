"""Int4 product for more tokens or large weights on sm_90, fed by a ring in shared memory.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T      tokens 1 .. 128 a block

The tensor memory unit brings weights and activations slot by slot. A lane reads the words that are
its part of the operand (no exchange between lanes), dequantises them in registers and multiplies
from there; the activations stay in shared memory. Scales of the block's slice of K are read once,
at the start. Weights keep their value q - zero, exact in bf16 and fp16; scales act on fp32 sums.

What the kernel is compiled for is C, a StagedConstants.
"""
# mypy: disable-error-code="assignment,misc,has-type,no-redef,var-annotated,index"

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.core import _aggregate as aggregate
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.int4 import layouts
from kernels.int4.constants import StagedConstants
from kernels.int4.hopper import (
    activations_descriptor,
    dequantised,
    finish,
    in_rows,
    less_zeros,
    operand,
    words_descriptor,
)
from kernels.int4.packing import Int4Weights
from kernels.int4.rule import MATRIX, Int4StagedConfig

SYNC: gl.constexpr = gl.constexpr(MATRIX.index("sync"))
GROUP: gl.constexpr = gl.constexpr(MATRIX.index("group"))
OVERLAPPED: gl.constexpr = gl.constexpr(MATRIX.index("overlapped"))


@aggregate
class Buffers:
    """What the units of a block are multiplied from, in shared memory.

    words, activations  of all slots of the ring, a unit or a slice after the other
    scales, zeros       of the block's part of K, a group after the other; zeros may be scales
    """

    words: gl.shared_memory_descriptor
    activations: gl.shared_memory_descriptor
    scales: gl.shared_memory_descriptor
    zeros: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, words, activations, scales, zeros) -> None:
        """Triton makes aggregates of what the device holds."""
        self.words = words
        self.activations = activations
        self.scales = scales
        self.zeros = zeros


@triton.constexpr_function
def sums_layout(C):
    """Who holds the sums [rows, token] of a block."""
    return layouts.staged_sums(C.warps, C.token_tile, C.matrix != SYNC.value)


@gluon.jit
def _split_operand(v, LEFT: gl.constexpr, C: gl.constexpr):
    """[rows, 64] -> two of [rows, 32], for groups of 32."""
    a, b = gl.split(gl.permute(gl.reshape(v, (C.rows, 2, 32)), (0, 2, 1)))
    a = gl.convert_layout(a, LEFT, assert_trivial=True)
    return a, gl.convert_layout(b, LEFT, assert_trivial=True)


@gluon.jit
def _parts(words, zeros, group, T: gl.constexpr, C: gl.constexpr):
    """Packed words of a unit -> its operands, two of 64 columns, or four of 32 of small groups."""
    LEFT: gl.constexpr = gl.DotOperandLayout(0, sums_layout(C), 2)
    lo, hi = dequantised(words, C.has_zeros, T)
    lo = operand(lo, LEFT, C.rows)
    hi = operand(hi, LEFT, C.rows)
    parts = (lo, hi)
    if C.groups_per_unit == 4:
        parts = _split_operand(lo, LEFT, C) + _split_operand(hi, LEFT, C)
    if C.has_zeros:
        S: gl.constexpr = layouts.staged_scales(C.rows, C.warps)
        COUNT: gl.constexpr = C.slices
        less = ()
        for j in gl.static_range(COUNT):
            packed = zeros.index(group + (j if C.groups_per_unit > 1 else 0)).load(S)
            less = less + (
                less_zeros(parts[j], in_rows(packed, LEFT, C.rows).to(gl.float32), 1, T),
            )
        parts = less
    return parts


@gluon.jit
def _products(parts, activations, slot, acc, none, C: gl.constexpr):
    """Sums per group of a unit, as a tuple; wgmma runs on until `warpgroup_mma_wait`."""
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, sums_layout(C), 2)
    COUNT: gl.constexpr = C.slices
    PER: gl.constexpr = C.groups_per_unit
    sums = ()
    running = acc if PER == 0 else none
    for j in gl.static_range(COUNT):
        x = activations.index(slot * COUNT + j).permute((1, 0))
        if PER > 1 or (PER == 1 and j == 0):
            running = none
        if C.matrix == SYNC:
            running = mma_v2(parts[j], x.load(RIGHT), running)
        elif PER > 1 or (PER == 1 and j == 0):
            running = warpgroup_mma(parts[j], x, running, use_acc=False, is_async=True)
        else:
            running = warpgroup_mma(parts[j], x, running, is_async=True)
        if PER > 1:
            sums = sums + (running,)
    if PER <= 1:
        sums = (running,)
    return sums


@gluon.jit
def _added(acc, sums, scales, C: gl.constexpr):
    """acc + scaled sums of a unit's groups; the sum itself where the scale comes at the end."""
    PER: gl.constexpr = C.groups_per_unit
    if PER == 0:
        acc = sums[0]
    for j in gl.static_range(PER):
        acc += sums[j] * scales[j][:, None]
    return acc


@gluon.jit
def _load_scales(scales, group, COUNT: gl.constexpr, C: gl.constexpr):
    """Scales of COUNT groups from `group` on, fp32 [rows] each."""
    S: gl.constexpr = layouts.staged_scales(C.rows, C.warps)
    loaded = ()
    for j in gl.static_range(COUNT):
        packed = scales.index(group + j).load(S)
        loaded = loaded + (in_rows(packed, sums_layout(C), C.rows).to(gl.float32),)
    return loaded


@gluon.jit
def _fetch_scales(source, target, first, GROUPS, LIMIT, C: gl.constexpr):
    """LIMIT groups of the block's row tiles, from group `first`, to shared memory."""
    L: gl.constexpr = layouts.staged_scale_rows(C.rows, C.warps)
    MOST: gl.constexpr = target.shape[0]
    TILES: gl.constexpr = C.rows // 16
    group = gl.arange(0, MOST, gl.SliceLayout(1, gl.SliceLayout(2, L)))
    tile = gl.arange(0, TILES, gl.SliceLayout(0, gl.SliceLayout(2, L)))
    entry = gl.arange(0, 16, gl.SliceLayout(0, gl.SliceLayout(1, L)))
    rows = (gl.program_id(0) * TILES + tile) * GROUPS
    place = (rows[None, :, None] + (first + group)[:, None, None]) * 16 + entry[None, None, :]
    inside = (group < LIMIT)[:, None, None] & (place >= 0)
    wide = target._reinterpret(
        target.dtype, [MOST, TILES, 16], gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
    )
    wide.store(gl.load(source + place, mask=inside, other=0.0))


@gluon.jit
def _scale_buffer(source, T: gl.constexpr, C: gl.constexpr):
    """Scales or zeros of the block's slice of K in shared memory, [groups, rows]."""
    GROUPS: gl.constexpr = C.units * C.groups_per_unit
    MOST: gl.constexpr = layouts.power_of_two(GROUPS)
    buffer = gl.allocate_shared_memory(T, [MOST, C.rows], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    if GROUPS > 0:
        _fetch_scales(source, buffer, gl.program_id(2) * GROUPS, GROUPS * C.split, GROUPS, C)
    else:
        _fetch_scales(source, buffer, 0, 1, 1, C)
    return buffer


@gluon.jit
def _store(acc, out, partials, counters, ROWS, TOKENS, C: gl.constexpr):
    """Store the block's sums [rows, token]."""
    row = gl.arange(0, C.rows, gl.SliceLayout(1, sums_layout(C)))
    lane = gl.arange(0, C.token_tile, gl.SliceLayout(0, sums_layout(C)))
    token = gl.program_id(1) * C.token_tile + lane
    rows = gl.program_id(0) * C.rows + row
    target = out + token[None, :] * ROWS + rows[:, None]
    inside = (token < TOKENS)[None, :] & (rows < ROWS)[:, None]
    place = row[:, None] * C.token_tile + lane[None, :]
    finish(acc, place, target, inside, partials, counters, C.rows * C.token_tile, C.split)


@gluon.jit
def _add_slot(acc, buffers, slot, unit, T: gl.constexpr, C: gl.constexpr):
    """acc + the products of the units of a ring slot; `unit` counts from the block's first."""
    WORDS: gl.constexpr = layouts.staged_words(C.rows, C.warps)
    MATRIX: gl.constexpr = C.matrix
    UNROLL: gl.constexpr = C.unroll
    SHAPE: gl.constexpr = (C.rows, C.token_tile)
    none = gl.zeros(SHAPE, gl.float32, sums_layout(C))
    sums = ()
    used = ()
    scales = ()
    for u in gl.static_range(UNROLL):
        words = buffers.words.index(slot * UNROLL + u).load(WORDS)
        group = (unit + u) * C.groups_per_unit
        parts = _parts(words, buffers.zeros, group, T, C)
        if MATRIX == OVERLAPPED and u > 0:
            before = warpgroup_mma_wait(0, sums + used)
            acc = _added(acc, before, scales, C)
        sums = _products(parts, buffers.activations, slot * UNROLL + u, acc, none, C)
        scales = _load_scales(buffers.scales, group, C.groups_per_unit, C)
        used = parts
        if MATRIX == GROUP or (MATRIX == OVERLAPPED and u == UNROLL - 1):
            sums = warpgroup_mma_wait(0, sums + used)
        if MATRIX != OVERLAPPED or u == UNROLL - 1:
            acc = _added(acc, sums, scales, C)
    return acc


@gluon.jit
def _fetch_words(wd, ring, full, slot, unit, more, C: gl.constexpr):
    """Expect a slot's weights and activations, and start the weights; nothing unless `more`."""
    mbarrier.expect(full.index(slot), C.slot_bytes, pred=more)
    place = [unit, gl.program_id(0) * (C.rows // 16), 0, 0]
    tma.async_copy_global_to_shared(wd, place, full.index(slot), ring.index(slot), pred=more)


@gluon.jit
def _fetch_activations(xd, xring, full, slot, unit, more, C: gl.constexpr):
    """Start a slot's activations; nothing unless `more`."""
    place = [unit * C.slices, gl.program_id(1) * C.token_tile, 0]
    tma.async_copy_global_to_shared(xd, place, full.index(slot), xring.index(slot), pred=more)


@gluon.jit
def _int4_staged_kernel(
    wd,
    xd,
    scales,
    zeros,
    out,
    partials,
    counters,
    ROWS,
    TOKENS,
    C: gl.constexpr,
    CHAINED: gl.constexpr,
):
    """Block (rows, tokens, split of K)."""
    T: gl.constexpr = xd.dtype
    STAGES: gl.constexpr = C.stages
    UNROLL: gl.constexpr = C.unroll
    SLOTS: gl.constexpr = C.units // UNROLL
    SLICES: gl.constexpr = UNROLL * C.slices
    WIDTH: gl.constexpr = C.slice_columns
    TILES: gl.constexpr = C.rows // 16
    ring = gl.allocate_shared_memory(gl.uint8, [STAGES, UNROLL, TILES, 8, 128], wd.layout)
    words = ring._reinterpret(
        gl.uint8, [STAGES * UNROLL, C.rows // 2, 128], gl.NVMMASharedLayout(128, 8, 2)
    )
    xring = gl.allocate_shared_memory(T, [STAGES, SLICES, C.token_tile, WIDTH], xd.layout)
    activations = xring._reinterpret(
        T, [STAGES * SLICES, C.token_tile, WIDTH], gl.NVMMASharedLayout(2 * WIDTH, 16, 2)
    )
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    first = gl.program_id(2) * C.units
    for i in gl.static_range(STAGES):
        _fetch_words(wd, ring, full, i, first + i * UNROLL, True, C)
    staged_scales = _scale_buffer(scales, T, C)
    staged_zeros = staged_scales
    if C.has_zeros:
        staged_zeros = _scale_buffer(zeros, T, C)
    buffers = Buffers(words, activations, staged_scales, staged_zeros)
    if CHAINED:  # weights do not depend on the kernel before, activations do
        gdc_wait()
        gdc_launch_dependents()  # behind the wait: see kernels.int4.gemm
    for i in gl.static_range(STAGES):
        _fetch_activations(xd, xring, full, i, first + i * UNROLL, True, C)
    gl.thread_barrier()
    SHAPE: gl.constexpr = (C.rows, C.token_tile)
    acc = gl.zeros(SHAPE, gl.float32, sums_layout(C))
    for i in range(SLOTS):
        slot = i % STAGES
        mbarrier.wait(full.index(slot), (i // STAGES) & 1)
        acc = _add_slot(acc, buffers, slot, i * UNROLL, T, C)
        if STAGES < SLOTS:  # refill the slot just consumed
            gl.thread_barrier()
            coming = first + (i + STAGES) * UNROLL
            _fetch_words(wd, ring, full, slot, coming, i + STAGES < SLOTS, C)
            _fetch_activations(xd, xring, full, slot, coming, i + STAGES < SLOTS, C)
    if C.groups_per_unit == 0:
        acc = acc * _load_scales(staged_scales, 0, 1, C)[0][:, None]
    _store(acc, out, partials, counters, ROWS, TOKENS, C)


def launch(
    config: Int4StagedConfig,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    partials: torch.Tensor,
    counters: torch.Tensor,
    chained: bool,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    zeros = weights.zeros
    constants = StagedConstants.of(config, weights)
    _int4_staged_kernel[config.grid(weights, x.shape[0])](
        words_descriptor(weights.packed, constants.unroll, constants.rows),
        activations_descriptor(
            x, constants.unroll * constants.slices, constants.token_tile, constants.slice_columns
        ),
        weights.scales,
        weights.scales if zeros is None else zeros,
        out,
        partials,
        counters,
        weights.rows,
        x.shape[0],
        C=constants,
        CHAINED=chained,
        num_warps=config.num_warps,
        launch_pdl=chained,
    )
