"""Int4 product for more tokens or large weights on sm_90: a ring in shared memory feeds the product.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T      tokens 1 .. 128 a block

The tensor memory unit brings weights and activations slot by slot. A lane reads the words that are
its part of the operand (no exchange between lanes), dequantises them in registers and multiplies
from there; the activations stay in shared memory. Scales of the block's slice of K are read once,
at the start. Weights keep their value q - zero, exact in bf16 and fp16; scales act on fp32 sums.
"""

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
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels import int4_asm as asm
from kernels import int4_layouts as layouts
from kernels.configs import Int4StagedConfig
from kernels.int4_packing import UNIT_COLUMNS, Int4Weights
from kernels.int4_workspace import Workspace

SYNC: gl.constexpr = gl.constexpr(0)
GROUP: gl.constexpr = gl.constexpr(1)
OVERLAPPED: gl.constexpr = gl.constexpr(2)
MATRIX = {"sync": 0, "group": 1, "overlapped": 2}


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
    if PER == 4:
        parts = _split_operand(lo, BM, LA) + _split_operand(hi, BM, LA)
    else:
        parts = (lo, hi)
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
def _products(parts, xbuf, slot, acc, none, PER: gl.constexpr, MATRIX: gl.constexpr, mma: gl.constexpr):
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
    """Store the block's result; of several splits, the last to arrive adds all in their order."""
    row = gl.arange(0, BM, gl.SliceLayout(1, mma))
    lane = gl.arange(0, NT, gl.SliceLayout(0, mma))
    token = gl.program_id(1) * NT + lane
    rows = gl.program_id(0) * BM + row
    target = out + token[None, :] * ROWS + rows[:, None]
    inside = (token < TOKENS)[None, :] & (rows < ROWS)[:, None]
    if SPLIT == 1:
        gl.store(target, acc.to(out.dtype.element_ty), mask=inside)
    else:
        SIZE: gl.constexpr = BM * NT
        block = gl.program_id(0) * gl.num_programs(1) + gl.program_id(1)
        own = partials + block * (SPLIT * SIZE) + row[:, None] * NT + lane[None, :]
        gl.store(own + gl.program_id(2) * SIZE, acc)
        gl.thread_barrier()
        arrived = gl.atomic_add(counters + block, 1, sem="acq_rel", scope="gpu")
        if arrived == SPLIT - 1:
            total = gl.load(own, cache_modifier=".cg")
            for other in gl.static_range(1, SPLIT):
                total += gl.load(own + other * SIZE, cache_modifier=".cg")
            gl.store(target, total.to(out.dtype.element_ty), mask=inside)
            gl.store(counters + block, 0)


@gluon.jit
def _slot(
    acc, none, wbuf, xbuf, sbuf, zbuf, slot, unit, BM: gl.constexpr, PER: gl.constexpr,
    HAS_ZEROS: gl.constexpr, BF16: gl.constexpr, MATRIX: gl.constexpr, U: gl.constexpr,
    W: gl.constexpr, mma: gl.constexpr,
):  # fmt: skip
    """acc + the products of the U units of a ring slot; `unit` counts from the block's first."""
    LA: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    WORDS: gl.constexpr = layouts.staged_words(BM, W)
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
def _int4_staged_kernel(
    wd, xd, scales, zeros, out, partials, counters, ROWS, TOKENS,
    UNITS: gl.constexpr, PER: gl.constexpr, HAS_ZEROS: gl.constexpr, BM: gl.constexpr,
    NT: gl.constexpr, SPLIT: gl.constexpr, STAGES: gl.constexpr, U: gl.constexpr,
    MATRIX: gl.constexpr, CHAINED: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """Block (BM rows, NT tokens, split of K); UNITS of 128 columns per split, U per ring slot."""
    W: gl.constexpr = num_warps
    T: gl.constexpr = xd.dtype
    BF16: gl.constexpr = T == gl.bfloat16
    KS: gl.constexpr = 32 if PER == 4 else 64  # columns of a slice of the activations
    SLICES: gl.constexpr = U * (128 // KS)
    SLOTS: gl.constexpr = UNITS // U
    VERSION: gl.constexpr = 2 if MATRIX == SYNC else 3
    SHAPE: gl.constexpr = [16, 8] if MATRIX == SYNC else [16, NT, 16]
    mma: gl.constexpr = gl.NVMMADistributedLayout([VERSION, 0], [W, 1], SHAPE)
    ring = gl.allocate_shared_memory(gl.uint8, [STAGES, U, BM // 16, 8, 128], wd.layout)
    wbuf = ring._reinterpret(gl.uint8, [STAGES * U, BM // 2, 128], gl.NVMMASharedLayout(128, 8, 2))
    xring = gl.allocate_shared_memory(T, [STAGES, SLICES, NT, KS], xd.layout)
    xbuf = xring._reinterpret(T, [STAGES * SLICES, NT, KS], gl.NVMMASharedLayout(2 * KS, 16, 2))
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    BYTES: gl.constexpr = U * (BM * 64 + NT * 256)
    first = gl.program_id(2) * UNITS
    tile = gl.program_id(0) * (BM // 16)
    token = gl.program_id(1) * NT
    for i in gl.static_range(STAGES):
        mbarrier.expect(full.index(i), BYTES)
        tma.async_copy_global_to_shared(
            wd, [first + i * U, tile, 0, 0], full.index(i), ring.index(i)
        )
    MOST: gl.constexpr = layouts.power_of_two(UNITS * PER)
    LINE: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    sbuf = gl.allocate_shared_memory(T, [MOST, BM], LINE)
    zbuf = sbuf
    GROUPS: gl.constexpr = UNITS * SPLIT * PER if PER > 0 else 1
    if PER > 0:
        _fetch_scales(scales, sbuf, first * PER, GROUPS, UNITS * PER, BM, MOST, W)
    else:
        _fetch_scales(scales, sbuf, 0, 1, 1, BM, MOST, W)
    if HAS_ZEROS:
        zbuf = gl.allocate_shared_memory(T, [MOST, BM], LINE)
        _fetch_scales(zeros, zbuf, first * PER, GROUPS, MOST if PER == 0 else UNITS * PER, BM, MOST, W)
    if CHAINED:  # weights do not depend on the kernel before, activations do
        gdc_launch_dependents()
        gdc_wait()
    for i in gl.static_range(STAGES):
        place = (first + i * U) * (128 // KS)
        tma.async_copy_global_to_shared(xd, [place, token, 0], full.index(i), xring.index(i))
    gl.thread_barrier()
    acc = gl.zeros((BM, NT), gl.float32, mma)
    none = gl.zeros((BM, NT), gl.float32, mma)
    for i in range(SLOTS):
        slot = i % STAGES
        mbarrier.wait(full.index(slot), (i // STAGES) & 1)
        acc = _slot(
            acc, none, wbuf, xbuf, sbuf, zbuf, slot, i * U, BM, PER, HAS_ZEROS, BF16, MATRIX, U, W, mma
        )
        if STAGES < SLOTS:  # refill the slot just consumed
            gl.thread_barrier()
            coming = first + (i + STAGES) * U
            more = i + STAGES < SLOTS
            mbarrier.expect(full.index(slot), BYTES, pred=more)
            tma.async_copy_global_to_shared(
                wd, [coming, tile, 0, 0], full.index(slot), ring.index(slot), pred=more
            )
            place = coming * (128 // KS)
            tma.async_copy_global_to_shared(
                xd, [place, token, 0], full.index(slot), xring.index(slot), pred=more
            )
    if PER == 0:
        acc = _added(gl.zeros_like(acc), (acc,), _scales(sbuf, 0, BM, 1, W, mma), 1)
    _finish(acc, out, partials, counters, ROWS, TOKENS, BM, NT, SPLIT, mma)
