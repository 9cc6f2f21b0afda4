"""Int4 product for more tokens or large weights on sm_90, fed by a ring in shared memory.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T      tokens 1 .. 128 a block

The tensor memory unit brings weights and activations slot by slot. A lane reads the words that are
its part of the operand (no exchange between lanes), dequantises them in registers and multiplies
from there; the activations stay in shared memory. Scales of the block's slice of K are read once,
at the start. Weights keep their value q - zero, exact in bf16 and fp16; scales act on fp32 sums.
"""
# mypy: disable-error-code="assignment,misc,has-type,no-redef,var-annotated,index"

import torch
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
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.int4 import asm, layouts, plans
from kernels.int4.configs import Int4StagedConfig
from kernels.int4.finish import finish
from kernels.int4.packing import UNIT_COLUMNS, UNIT_ROWS, Int4Weights
from kernels.int4.workspace import Workspace

SYNC: gl.constexpr = gl.constexpr(plans.MATRIX["sync"])
GROUP: gl.constexpr = gl.constexpr(plans.MATRIX["group"])
OVERLAPPED: gl.constexpr = gl.constexpr(plans.MATRIX["overlapped"])


@gluon.jit
def _operand(v, BM: gl.constexpr, LA: gl.constexpr):
    """Blob order [BM / 2, 128] -> [BM rows, 64 columns] in their natural order."""
    v = gl.reshape(v, (BM // 16, 2, 8, 4, 4, 2, 2))  # row tile, half, g, s, w, b, i
    v = gl.permute(v, (0, 5, 2, 3, 1, 4, 6))  # row tile, b, g | s, half, w, i
    return gl.convert_layout(gl.reshape(v, (BM, 64)), LA, assert_trivial=True)


@gluon.jit
def _split_operand(v, BM: gl.constexpr, LA: gl.constexpr):
    """[BM, 64] -> two of [BM, 32], for groups of 32."""
    a, b = gl.split(gl.permute(gl.reshape(v, (BM, 2, 32)), (0, 2, 1)))
    a = gl.convert_layout(a, LA, assert_trivial=True)
    return a, gl.convert_layout(b, LA, assert_trivial=True)


@gluon.jit
def _in_rows(v, BM: gl.constexpr, LAYOUT: gl.constexpr):
    """Scales or zeros in packed order [BM] -> [BM rows]."""
    v = gl.reshape(gl.permute(gl.reshape(v, (BM // 16, 8, 2)), (0, 2, 1)), (BM,))
    return gl.convert_layout(v, LAYOUT, assert_trivial=True)


@gluon.jit
def _less_zeros(v, zeros, BM: gl.constexpr, LA: gl.constexpr, BF16: gl.constexpr):
    """base + q -> q - zero of the row, exactly; zeros in packed order [BM]."""
    BASE: gl.constexpr = asm.BF16_BASE if BF16 else asm.FP16_BASE
    TEXT: gl.constexpr = asm.BF16_SUBTRACT if BF16 else asm.FP16_SUBTRACT
    raised = _in_rows(zeros, BM, gl.SliceLayout(1, LA)).to(gl.float32) + BASE
    zero = gl.expand_dims(raised.to(v.dtype), 1)
    return gl.inline_asm_elementwise(TEXT, "=r,r,r", [v, zero], dtype=v.dtype, is_pure=True, pack=2)


@gluon.jit
def _parts(
    words, zbuf, group, BM: gl.constexpr, PER: gl.constexpr, HAS_ZEROS: gl.constexpr,
    BF16: gl.constexpr, W: gl.constexpr, LA: gl.constexpr,
):  # fmt: skip
    """Packed words of a unit -> its operands, two of 64 columns, or four of 32 where PER is 4."""
    if BF16:
        TEXT: gl.constexpr = asm.BF16_RAISED if HAS_ZEROS else asm.BF16_CENTRED
        lo, hi = gl.inline_asm_elementwise(
            TEXT, asm.CONSTRAINTS, [words], dtype=asm.BF16_PAIR, is_pure=True, pack=4
        )
    else:
        TEXT: gl.constexpr = asm.FP16_RAISED if HAS_ZEROS else asm.FP16_CENTRED
        lo, hi = gl.inline_asm_elementwise(
            TEXT, asm.CONSTRAINTS, [words], dtype=asm.FP16_PAIR, is_pure=True, pack=4
        )
    lo = _operand(lo, BM, LA)
    hi = _operand(hi, BM, LA)
    parts = (lo, hi)
    if PER == 4:
        parts = _split_operand(lo, BM, LA) + _split_operand(hi, BM, LA)
    if HAS_ZEROS:
        S: gl.constexpr = layouts.staged_scales(BM, W)
        COUNT: gl.constexpr = 4 if PER == 4 else 2
        less = ()
        for j in gl.static_range(COUNT):
            zeros = zbuf.index(group + (j if PER > 1 else 0)).load(S)
            less = less + (_less_zeros(parts[j], zeros, BM, LA, BF16),)
        parts = less
    return parts


@gluon.jit
def _products(
    parts, xbuf, slot, acc, none, PER: gl.constexpr, MATRIX: gl.constexpr, mma: gl.constexpr
):
    """Sums per group of a unit, as a tuple; wgmma runs on until `warpgroup_mma_wait`."""
    LB: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    COUNT: gl.constexpr = 4 if PER == 4 else 2
    sums = ()
    running = acc if PER == 0 else none
    for j in gl.static_range(COUNT):
        x = xbuf.index(slot * COUNT + j).permute((1, 0))
        if PER > 1 or (PER == 1 and j == 0):
            running = none
        if MATRIX == SYNC:
            running = mma_v2(parts[j], x.load(LB), running)
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
def _added(acc, sums, scales, PER: gl.constexpr):
    """acc + scaled sums of a unit's groups; the sum itself where the scale comes at the end."""
    if PER == 0:
        acc = sums[0]
    for j in gl.static_range(PER):
        acc += sums[j] * scales[j][:, None]
    return acc


@gluon.jit
def _scales(sbuf, group, BM: gl.constexpr, PER: gl.constexpr, W: gl.constexpr, mma: gl.constexpr):
    """Scales of a unit's PER groups, fp32 [BM rows] each."""
    S: gl.constexpr = layouts.staged_scales(BM, W)
    found = ()
    for j in gl.static_range(PER):
        packed = sbuf.index(group + j).load(S)
        found = found + (_in_rows(packed, BM, gl.SliceLayout(1, mma)).to(gl.float32),)
    return found


@gluon.jit
def _fetch_scales(
    source, target, first, GROUPS, LIMIT, BM: gl.constexpr, MOST: gl.constexpr, W: gl.constexpr
):
    """LIMIT (up to MOST) groups of the block's row tiles, from group `first`, to shared memory."""
    L: gl.constexpr = layouts.staged_scale_rows(BM, W)
    group = gl.arange(0, MOST, gl.SliceLayout(1, gl.SliceLayout(2, L)))
    tile = gl.arange(0, BM // 16, gl.SliceLayout(0, gl.SliceLayout(2, L)))
    entry = gl.arange(0, 16, gl.SliceLayout(0, gl.SliceLayout(1, L)))
    rows = (gl.program_id(0) * (BM // 16) + tile) * GROUPS
    place = (rows[None, :, None] + (first + group)[:, None, None]) * 16 + entry[None, None, :]
    inside = (group < LIMIT)[:, None, None] & (place >= 0)
    wide = target._reinterpret(
        target.dtype, [MOST, BM // 16, 16], gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
    )
    wide.store(gl.load(source + place, mask=inside, other=0.0))


@gluon.jit
def _finish(
    acc, out, partials, counters, ROWS, TOKENS, BM: gl.constexpr, NT: gl.constexpr,
    SPLIT: gl.constexpr, mma: gl.constexpr,
):  # fmt: skip
    """Store the block's sums [BM, token]."""
    row = gl.arange(0, BM, gl.SliceLayout(1, mma))
    lane = gl.arange(0, NT, gl.SliceLayout(0, mma))
    token = gl.program_id(1) * NT + lane
    rows = gl.program_id(0) * BM + row
    target = out + token[None, :] * ROWS + rows[:, None]
    inside = (token < TOKENS)[None, :] & (rows < ROWS)[:, None]
    place = row[:, None] * NT + lane[None, :]
    finish(acc, place, target, inside, partials, counters, BM * NT, SPLIT)


@gluon.jit
def _slot(
    acc, wbuf, xbuf, sbuf, zbuf, slot, unit, BM: gl.constexpr, NT: gl.constexpr,
    PER: gl.constexpr, HAS_ZEROS: gl.constexpr, BF16: gl.constexpr, MATRIX: gl.constexpr,
    U: gl.constexpr, W: gl.constexpr, mma: gl.constexpr,
):  # fmt: skip
    """acc + the products of the U units of a ring slot; `unit` counts from the block's first."""
    LA: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    WORDS: gl.constexpr = layouts.staged_words(BM, W)
    none = gl.zeros((BM, NT), gl.float32, mma)
    sums = ()
    used = ()
    scales = ()
    for u in gl.static_range(U):
        words = wbuf.index(slot * U + u).load(WORDS)
        group = (unit + u) * PER
        parts = _parts(words, zbuf, group, BM, PER, HAS_ZEROS, BF16, W, LA)
        if MATRIX == OVERLAPPED and u > 0:
            before = warpgroup_mma_wait(0, sums + used)
            acc = _added(acc, before, scales, PER)
        sums = _products(parts, xbuf, slot * U + u, acc, none, PER, MATRIX, mma)
        scales = _scales(sbuf, group, BM, PER, W, mma)
        used = parts
        if MATRIX == GROUP or (MATRIX == OVERLAPPED and u == U - 1):
            sums = warpgroup_mma_wait(0, sums + used)
        if MATRIX != OVERLAPPED or u == U - 1:
            acc = _added(acc, sums, scales, PER)
    return acc


@gluon.jit
def _scale_buffer(
    source, T: gl.constexpr, PER: gl.constexpr, UNITS: gl.constexpr, SPLIT: gl.constexpr,
    BM: gl.constexpr, W: gl.constexpr,
):  # fmt: skip
    """Scales or zeros of the block's slice of K in shared memory, [groups, BM rows]."""
    MOST: gl.constexpr = layouts.power_of_two(UNITS * PER)
    buffer = gl.allocate_shared_memory(T, [MOST, BM], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    if PER > 0:
        first = gl.program_id(2) * (UNITS * PER)
        _fetch_scales(source, buffer, first, UNITS * SPLIT * PER, UNITS * PER, BM, MOST, W)
    else:
        _fetch_scales(source, buffer, 0, 1, 1, BM, MOST, W)
    return buffer


@gluon.jit
def _fetch_words(wd, ring, full, slot, unit, BM: gl.constexpr, BYTES: gl.constexpr, more):
    """Expect a slot's weights and activations, and start the weights; nothing unless `more`."""
    mbarrier.expect(full.index(slot), BYTES, pred=more)
    place = [unit, gl.program_id(0) * (BM // 16), 0, 0]
    tma.async_copy_global_to_shared(wd, place, full.index(slot), ring.index(slot), pred=more)


@gluon.jit
def _fetch_activations(xd, xring, full, slot, unit, NT: gl.constexpr, KS: gl.constexpr, more):
    """Start a slot's activations; nothing unless `more`."""
    place = [unit * (128 // KS), gl.program_id(1) * NT, 0]
    tma.async_copy_global_to_shared(xd, place, full.index(slot), xring.index(slot), pred=more)


@gluon.jit
def _barriers(STAGES: gl.constexpr):
    """One barrier per slot, that its bytes complete."""
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    return full


@gluon.jit
def _int4_staged_kernel(
    wd, xd, scales, zeros, out, partials, counters, ROWS, TOKENS,
    UNITS: gl.constexpr, PER: gl.constexpr, HAS_ZEROS: gl.constexpr, BM: gl.constexpr,
    NT: gl.constexpr, SPLIT: gl.constexpr, STAGES: gl.constexpr, U: gl.constexpr,
    MATRIX: gl.constexpr, CHAINED: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """Block (BM rows, NT tokens, split of K); UNITS of 128 columns per split, U per ring slot."""
    W: gl.constexpr = num_warps
    T: gl.constexpr = xd.dtype
    BF16: gl.constexpr = T == gl.bfloat16  # noqa: SIM300 (a constant of the device)
    KS: gl.constexpr = 32 if PER == 4 else 64  # columns of a slice of the activations
    SLICES: gl.constexpr = U * (128 // KS)
    SLOTS: gl.constexpr = UNITS // U
    BYTES: gl.constexpr = U * (BM * 64 + NT * 256)
    VERSION: gl.constexpr = 2 if MATRIX == SYNC else 3
    SHAPE: gl.constexpr = [16, 8] if MATRIX == SYNC else [16, NT, 16]
    mma: gl.constexpr = gl.NVMMADistributedLayout([VERSION, 0], [W, 1], SHAPE)
    ring = gl.allocate_shared_memory(gl.uint8, [STAGES, U, BM // 16, 8, 128], wd.layout)
    wbuf = ring._reinterpret(gl.uint8, [STAGES * U, BM // 2, 128], gl.NVMMASharedLayout(128, 8, 2))
    xring = gl.allocate_shared_memory(T, [STAGES, SLICES, NT, KS], xd.layout)
    xbuf = xring._reinterpret(T, [STAGES * SLICES, NT, KS], gl.NVMMASharedLayout(2 * KS, 16, 2))
    full = _barriers(STAGES)
    first = gl.program_id(2) * UNITS
    for i in gl.static_range(STAGES):
        _fetch_words(wd, ring, full, i, first + i * U, BM, BYTES, True)
    sbuf = _scale_buffer(scales, T, PER, UNITS, SPLIT, BM, W)
    zbuf = sbuf
    if HAS_ZEROS:
        zbuf = _scale_buffer(zeros, T, PER, UNITS, SPLIT, BM, W)
    if CHAINED:  # weights do not depend on the kernel before, activations do
        gdc_launch_dependents()
        gdc_wait()
    for i in gl.static_range(STAGES):
        _fetch_activations(xd, xring, full, i, first + i * U, NT, KS, True)
    gl.thread_barrier()
    acc = gl.zeros((BM, NT), gl.float32, mma)
    for i in range(SLOTS):
        slot = i % STAGES
        mbarrier.wait(full.index(slot), (i // STAGES) & 1)
        acc = _slot(
            acc, wbuf, xbuf, sbuf, zbuf, slot, i * U, BM, NT, PER, HAS_ZEROS, BF16, MATRIX,
            U, W, mma,
        )  # fmt: skip
        if STAGES < SLOTS:  # refill the slot just consumed
            gl.thread_barrier()
            coming = first + (i + STAGES) * U
            _fetch_words(wd, ring, full, slot, coming, BM, BYTES, i + STAGES < SLOTS)
            _fetch_activations(xd, xring, full, slot, coming, NT, KS, i + STAGES < SLOTS)
    if PER == 0:
        acc = acc * _scales(sbuf, 0, BM, 1, W, mma)[0][:, None]
    _finish(acc, out, partials, counters, ROWS, TOKENS, BM, NT, SPLIT, mma)


def launch(
    config: Int4StagedConfig,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    workspace: Workspace,
    chained: bool,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    compiled_for = plans.staged_constants(
        config, weights.k, weights.group, weights.zeros is not None
    )
    _int4_staged_kernel[plans.grid(config, weights, x.shape[0])](
        words_descriptor(weights.packed, config),
        activations_descriptor(x, config, compiled_for["PER"]),
        weights.scales,
        weights.scales if weights.zeros is None else weights.zeros,
        out,
        workspace.partials,
        workspace.counters,
        weights.rows,
        x.shape[0],
        **compiled_for,
        CHAINED=chained,
        num_warps=config.num_warps,
        launch_pdl=chained,
    )


def words_descriptor(packed: torch.Tensor, config: Int4StagedConfig) -> TensorDescriptor:
    """Packed weights as [unit, row tile, 8, 128 bytes], a ring slot at a time."""
    tiles, units = packed.shape[:2]
    block = [config.unroll, config.rows // UNIT_ROWS, 8, 128]
    strides = [1024, units * 1024, 128, 1]
    return TensorDescriptor(packed, [units, tiles, 8, 128], strides, block, WORDS_LAYOUT)


def activations_descriptor(x: torch.Tensor, config: Int4StagedConfig, per: int) -> TensorDescriptor:
    """Activations as [slice of columns, token, columns of a slice], a ring slot at a time."""
    tokens, k = x.shape
    columns = slice_columns(per)
    block = [config.unroll * (UNIT_COLUMNS // columns), config.token_tile, columns]
    shape = [k // columns, tokens, columns]
    return TensorDescriptor(x, shape, [columns, k, 1], block, activations_layout(per))


def slice_columns(per: int) -> int:
    """Columns of a slice of the activations: those of one product at least."""
    return 32 if per == 4 else 64


def activations_layout(per: int) -> gl.NVMMASharedLayout:
    """Rows of a slice in shared memory, swizzled over their width."""
    return gl.NVMMASharedLayout(2 * slice_columns(per), 16, 3)


WORDS_LAYOUT = gl.NVMMASharedLayout(128, 8, 4)
