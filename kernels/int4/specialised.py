"""Int4 product for many tokens on sm_90: one warp fetches, warpgroups dequantise and multiply.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T      tokens 16 to 128 a block

A block has two to four parts of rows, one for each multiplying warpgroup. While one of them
dequantises, another keeps the matrix unit busy; in kernels.int4.staged all warps of a block
dequantise together and then multiply together, so that the matrix unit waits. A ring in shared
memory is filled ahead by the tensor memory unit. A slot holds a unit of 128 columns: packed weights
of all parts, their scales, activations.

Scales come with the weights. Loaded by the warpgroups themselves, even a unit ahead, they held
every unit back by the latency of memory: 64 tokens of 28672 x 8192 took 77 us on an H100, of which
the matrix unit needs 37.

Weights are scaled before they are multiplied, (q - zero) * scale rounded to bf16 or fp16, because
sums of a group beside the sums of all need more registers than there are. That is the rounding a
layer in bf16 would have; kernels.int4.staged scales fp32 sums. A scale per row acts on sums here,
too.

Where K is split, the parts of K of a tile exchange their sums, so that each part adds up some
strips of the tile (`_finish`). Sums are added in the order of K, whoever adds them, so equal inputs
give equal bits. No part has to wait for another one: products end on any number of multiprocessors.

What the kernel is compiled for is C, a SpecialisedConstants.
"""
# mypy: disable-error-code="assignment,misc,has-type,no-redef,var-annotated,index"

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
from triton.language.core import _aggregate as aggregate
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.int4 import layouts
from kernels.int4.constants import SpecialisedConstants
from kernels.int4.hopper import (
    activations_descriptor,
    dequantised,
    in_rows,
    less_zeros,
    operand,
    scaled,
    scales_descriptor,
    words_descriptor,
)
from kernels.int4.packing import Int4Weights
from kernels.int4.rule import Int4SpecialisedConfig

# What setmaxnreg takes at least: enough for a warp that does nothing but fetch.
_FETCHING_REGISTERS: gl.constexpr = gl.constexpr(24)

# How often a part of K looks whether the others have written their sums, before it leaves its
# strips to another one. A look takes about 0.7 us on an H100.
_MOST_LOOKS: gl.constexpr = gl.constexpr(16)
# The word by which the parts of K of a tile meet: bits 0 to 3 count those that have written their
# sums, bits 4 to 7 those that look at the word no more, and bit 8 + p says that part p has left its
# strips to another one, which it can until all have written.
_COUNT: gl.constexpr = gl.constexpr(15)
_GONE: gl.constexpr = gl.constexpr(4)
_LEFT: gl.constexpr = gl.constexpr(8)


@aggregate
class Ring:
    """Shared memory that is filled ahead, a slot for each unit, and the barriers of the slots.

    word_boxes, slice_boxes, scale_boxes, zero_boxes   as they are fetched: for each slot boxes of
              weights and one of activations, for each of its groups boxes of scales and of zeros;
              a box holds all parts, or one where there are three (sides are powers of two)
    words, slices, scales, zeros   the same memory, as it is read: of each part of a slot the
              weights and, of each group, the scales; of each half of a slot the activations
    full      complete when all that a slot holds has come. Weights, scales and zeros arrive on it
              with one announcement of bytes, activations with another, since a chained launch
              fetches these later: so its count is 2
    empty     complete when all parts have read a slot: its count is the number of parts
    """

    word_boxes: gl.shared_memory_descriptor
    slice_boxes: gl.shared_memory_descriptor
    scale_boxes: gl.shared_memory_descriptor
    zero_boxes: gl.shared_memory_descriptor
    words: gl.shared_memory_descriptor
    slices: gl.shared_memory_descriptor
    scales: gl.shared_memory_descriptor
    zeros: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(
        self,
        word_boxes,
        slice_boxes,
        scale_boxes,
        zero_boxes,
        words,
        slices,
        scales,
        zeros,
        full,
        empty,
    ) -> None:
        """Triton makes aggregates of what the device holds."""
        self.word_boxes = word_boxes
        self.slice_boxes = slice_boxes
        self.scale_boxes = scale_boxes
        self.zero_boxes = zero_boxes
        self.words = words
        self.slices = slices
        self.scales = scales
        self.zeros = zeros
        self.full = full
        self.empty = empty


@gluon.jit
def _barriers(SLOTS: gl.constexpr, COUNT: gl.constexpr):
    """A barrier for each slot, which so many arrivals complete."""
    barriers = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(barriers.index(slot), count=COUNT)
    return barriers


@gluon.jit
def _scale_boxes(descriptor, C: gl.constexpr):
    """For scales or zeros: (boxes [row tiles of a box, 16], the same as [rows of a part])."""
    COUNT: gl.constexpr = C.slots * C.boxes_per_unit
    FLAT: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    boxes = gl.allocate_shared_memory(
        descriptor.dtype, [COUNT * C.boxes, C.box_rows // 16, 16], descriptor.layout
    )
    return boxes, boxes._reinterpret(descriptor.dtype, [COUNT * C.parts, C.rows], FLAT)


@gluon.jit
def _make_ring(wd, xd, sd, zd, C: gl.constexpr):
    T: gl.constexpr = xd.dtype
    SLOTS: gl.constexpr = C.slots
    TILES: gl.constexpr = C.box_rows // 16
    BOXES: gl.constexpr = SLOTS * C.boxes
    word_boxes = gl.allocate_shared_memory(gl.uint8, [BOXES, 1, TILES, 8, 128], wd.layout)
    slice_boxes = gl.allocate_shared_memory(T, [SLOTS, 2, C.token_tile, 64], xd.layout)
    scale_boxes, scales = _scale_boxes(sd, C)
    zero_boxes, zeros = scale_boxes, scales
    if C.has_zeros:
        zero_boxes, zeros = _scale_boxes(zd, C)
    WORDS: gl.constexpr = gl.NVMMASharedLayout(128, 8, 2)
    SLICES: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    words = word_boxes._reinterpret(gl.uint8, [C.parts * SLOTS, C.rows // 2, 128], WORDS)
    slices = slice_boxes._reinterpret(T, [2 * SLOTS, C.token_tile, 64], SLICES)
    full = _barriers(SLOTS, 2)
    empty = _barriers(SLOTS, C.parts)
    return Ring(
        word_boxes,
        slice_boxes,
        scale_boxes,
        zero_boxes,
        words,
        slices,
        scales,
        zeros,
        full,
        empty,
    )


@triton.constexpr_function
def _sums_layout(C):
    """Who holds the sums [rows, token] of a part."""
    return layouts.staged_sums(4, C.token_tile, True)


@gluon.jit
def _units_of_block(C: gl.constexpr):
    """(first unit of 128 columns of the block's part of K, the one behind its last)."""
    first = gl.program_id(0) * C.units
    return first, gl.minimum(first + C.units, C.all_units)


@gluon.jit
def _after(slot, phase, SLOTS: gl.constexpr):
    """The next slot, and the parity of its barrier, which turns with every round of the ring."""
    is_last = slot == SLOTS - 1
    return gl.where(is_last, 0, slot + 1), gl.where(is_last, phase ^ 1, phase)


@gluon.jit
def _fetch(arguments, C: gl.constexpr, CHAINED: gl.constexpr):
    """The fetching warp: what a unit needs, as slots get free."""
    xd, ring = arguments[1], arguments[4]
    SLOTS: gl.constexpr = C.slots
    unit, last = _units_of_block(C)
    token = gl.program_id(2) * C.token_tile
    if CHAINED:  # weights do not depend on the kernel before, activations do
        for i in gl.static_range(SLOTS):
            _fetch_weights(arguments, i, unit + i, unit + i < last, C)
        gdc_wait()
        gdc_launch_dependents()  # behind the wait: see kernels.int4.gemm
    slot, phase = 0, 1  # nobody has to free a slot that was never filled
    for i in range(last - unit):
        mbarrier.wait(ring.empty.index(slot), phase)
        _fetch_weights(arguments, slot, unit + i, (i >= SLOTS) | (not CHAINED), C)
        full = ring.full.index(slot)
        mbarrier.expect(full, C.slice_bytes)
        place = [2 * (unit + i), token, 0]
        tma.async_copy_global_to_shared(xd, place, full, ring.slice_boxes.index(slot))
        slot, phase = _after(slot, phase, SLOTS)


@gluon.jit
def _fetch_weights(arguments, slot, unit, wanted, C: gl.constexpr):
    """The weights, scales and zeros of all parts for a unit of K; nothing unless `wanted`."""
    wd, sd, zd, ring = arguments[0], arguments[2], arguments[3], arguments[4]
    GROUPS: gl.constexpr = C.boxes_per_unit
    BOXES: gl.constexpr = C.boxes
    full = ring.full.index(slot)
    mbarrier.expect(full, C.weight_bytes, pred=wanted)
    for part in gl.static_range(BOXES):
        tile = (gl.program_id(1) * BOXES + part) * (C.box_rows // 16)
        to = ring.word_boxes.index(slot * BOXES + part)
        tma.async_copy_global_to_shared(wd, [unit, tile, 0, 0], full, to, pred=wanted)
        for j in gl.static_range(GROUPS):
            box = (slot * GROUPS + j) * BOXES + part
            place = [tile, 16 * (unit * C.groups_per_unit + j)]
            to = ring.scale_boxes.index(box)
            tma.async_copy_global_to_shared(sd, place, full, to, pred=wanted)
            if C.has_zeros:
                to = ring.zero_boxes.index(box)
                tma.async_copy_global_to_shared(zd, place, full, to, pred=wanted)


@gluon.jit
def _scales_of(source, slot, WHICH: gl.constexpr, C: gl.constexpr):
    """Scales or zeros of a part's rows in packed order, for each group of a slot's unit."""
    S: gl.constexpr = layouts.staged_scales(C.rows, 4)
    GROUPS: gl.constexpr = C.boxes_per_unit
    loaded = ()
    for j in gl.static_range(GROUPS):
        loaded = loaded + (source.index(C.parts * (slot * GROUPS + j) + WHICH).load(S),)
    return loaded


@gluon.jit
def _unit(ring, slot, phase, WHICH: gl.constexpr, C: gl.constexpr):
    """(packed words, scales, zeros) of a part in a slot, once they have come."""
    WORDS: gl.constexpr = layouts.staged_words(C.rows, 4)
    mbarrier.wait(ring.full.index(slot), phase)
    packed = ring.words.index(C.parts * slot + WHICH).load(WORDS)
    scales = _scales_of(ring.scales, slot, WHICH, C)
    zeros = scales
    if C.has_zeros:
        zeros = _scales_of(ring.zeros, slot, WHICH, C)
    return packed, scales, zeros


@gluon.jit
def _operand(packed, scales, zeros, HALF: gl.constexpr, T: gl.constexpr, C: gl.constexpr):
    """A half of a unit's words, 64 columns -> the left operand [rows, 64], scaled."""
    LEFT: gl.constexpr = gl.DotOperandLayout(0, _sums_layout(C), 2)
    GROUP: gl.constexpr = HALF * (C.boxes_per_unit - 1)
    half = operand(dequantised(packed, C.has_zeros, T)[HALF], LEFT, C.rows)
    if C.has_zeros:
        half = less_zeros(half, in_rows(zeros[GROUP], LEFT, C.rows).to(gl.float32), 1, T)
    if C.groups_per_unit > 0:
        half = scaled(half, in_rows(scales[GROUP], LEFT, C.rows), T)
    return half


@gluon.jit
def _multiply(arguments, C: gl.constexpr, CHAINED: gl.constexpr, WHICH: gl.constexpr):
    """A multiplying warpgroup: the WHICH-th part of the block's rows.

    While the first half of a unit is multiplied, the operand of the second is made. That of the
    next unit is not made ahead: values of two bytes that live across turns of the loop are packed
    and unpacked one by one, 115 instructions beside 310.
    """
    unit, last = _units_of_block(C)
    acc = _sums(arguments, last - unit, WHICH, C)
    if CHAINED:  # the kernel before may still read `out`, or its sums
        gdc_wait()
    _finish(acc, arguments, WHICH, C)


@gluon.jit
def _sums(arguments, COUNT, WHICH: gl.constexpr, C: gl.constexpr):
    """The sums [rows, token] of a part over COUNT units of K."""
    xd, ring = arguments[1], arguments[4]
    T: gl.constexpr = xd.dtype
    ROWS: gl.constexpr = C.rows
    SLOTS: gl.constexpr = C.slots
    SUMS: gl.constexpr = _sums_layout(C)
    SHAPE: gl.constexpr = (ROWS, C.token_tile)
    acc = gl.zeros(SHAPE, gl.float32, SUMS)
    slot, phase = 0, 0
    for _ in range(COUNT):
        packed, scales, zeros = _unit(ring, slot, phase, WHICH, C)
        lo = _operand(packed, scales, zeros, 0, T, C)
        acc = warpgroup_mma(lo, ring.slices.index(2 * slot).permute((1, 0)), acc, is_async=True)
        hi = _operand(packed, scales, zeros, 1, T, C)
        right = ring.slices.index(2 * slot + 1).permute((1, 0))
        acc = warpgroup_mma(hi, right, acc, is_async=True)
        acc = warpgroup_mma_wait(0, (acc, lo, hi))[0]
        # The product needed all warps, so all of them have loaded their words.
        mbarrier.arrive(ring.empty.index(slot), count=1)
        slot, phase = _after(slot, phase, SLOTS)
    if C.groups_per_unit == 0:
        row_scales = _scales_of(ring.scales, 0, WHICH, C)[0]  # every slot has had the same ones
        acc = acc * in_rows(row_scales, SUMS, ROWS).to(gl.float32)[:, None]
    return acc


@gluon.jit
def _halves(sums):
    """Sums [rows, token] -> (those of the first half of the tokens, of the second)."""
    ROWS: gl.constexpr = sums.shape[0]
    WIDTH: gl.constexpr = sums.shape[1] // 2
    return gl.split(gl.permute(gl.reshape(sums, (ROWS, 2, WIDTH)), (0, 2, 1)))


@gluon.jit
def _strips(acc, COUNT: gl.constexpr, C: gl.constexpr):
    """The sums [rows, token] cut into COUNT strips of tokens, a power of two."""
    STRIP: gl.constexpr = layouts.staged_sums(4, C.token_tile // COUNT, True)
    strips = (acc,)
    LEVELS: gl.constexpr = layouts.power_of_two(COUNT).bit_length() - 1
    for level in gl.static_range(LEVELS):
        halves = ()
        for i in gl.static_range(1 << level):
            left, right = _halves(strips[i])
            halves = halves + (left, right)
        strips = halves
    same = ()
    for i in gl.static_range(COUNT):
        same = same + (gl.convert_layout(strips[i], STRIP, assert_trivial=True),)
    return same


@gluon.jit
def _store_strip(sums, out, first_row, first_token, ROWS_OF_ALL, TOKENS, C: gl.constexpr):
    """Store the sums [rows, token] of a strip to out, as far as it has such rows and tokens."""
    STRIP: gl.constexpr = layouts.staged_sums(4, sums.shape[1], True)
    row = first_row + gl.arange(0, C.rows, gl.SliceLayout(1, STRIP))
    token = first_token + gl.arange(0, sums.shape[1], gl.SliceLayout(0, STRIP))
    inside = (token < TOKENS)[None, :] & (row < ROWS_OF_ALL)[:, None]
    target = out + token[None, :] * ROWS_OF_ALL + row[:, None]
    gl.store(target, sums.to(out.dtype.element_ty), mask=inside)


@gluon.jit
def _finish(acc, arguments, WHICH: gl.constexpr, C: gl.constexpr):
    """Store the sums of a part, strip by strip: there are no registers for all addresses.

    Where K is split, every part of K writes its sums to memory, and part p adds up the strips
    p, p + split, ... of all. It waits for the others as long as _MOST_LOOKS takes. Then it leaves
    its strips to one of those that see all sums written. So blocks that cannot run at the same time
    cost time and never hang. If the last part added everything without such an exchange, each part
    of K would cost 1 to 5 us.
    """
    out, partials, counters, rows, tokens = arguments[5:10]
    COUNT: gl.constexpr = C.strips
    WIDTH: gl.constexpr = C.token_tile // COUNT
    first_row = (gl.program_id(1) * C.parts + WHICH) * C.rows
    first_token = gl.program_id(2) * C.token_tile
    strips = _strips(acc, COUNT, C)
    if C.split == 1:
        for i in gl.static_range(COUNT):
            _store_strip(strips[i], out, first_row, first_token + i * WIDTH, rows, tokens, C)
    else:
        SPLIT: gl.constexpr = C.split
        TURNS: gl.constexpr = (COUNT + SPLIT - 1) // SPLIT
        me = gl.program_id(0)
        place = (gl.program_id(2) * gl.num_programs(1) + gl.program_id(1)) * C.parts + WHICH
        word = counters + place
        sums = partials + place.to(gl.int64) * (SPLIT * C.rows * C.token_tile)
        own = sums + me * (C.rows * C.token_tile)
        for i in gl.static_range(COUNT):
            gl.store(own + i * (C.rows * WIDTH) + _places(WIDTH, C), strips[i])
        gl.thread_barrier()  # what all threads wrote is released by the one that counts
        parts = _meet(word, me, C)
        before = _count_as_gone(word)
        target = (out, first_row, first_token, rows, tokens)
        if (parts >> me) & 1 != 0:
            for turn in gl.static_range(TURNS):
                _add_up(sums, (me + turn * SPLIT) * WIDTH, WIDTH, target, C)
        of_others = parts & ~(1 << me)
        if of_others != 0:  # few tokens at a time, in a loop: there are no registers for more
            for token in range(0, C.token_tile, 8):
                if (of_others >> (token // WIDTH % SPLIT)) & 1 != 0:
                    _add_up(sums, token, 8, target, C)
        _reset(word, before, C)


@gluon.jit
def _add_up(sums, token, WIDTH: gl.constexpr, target, C: gl.constexpr):
    """Store the sums of WIDTH tokens from `token` on over all parts of K, added in their order.

    sums   [part of K, 8 tokens, row, token of the 8]
    """
    out, first_row, first_token, rows, tokens = target
    SPLIT: gl.constexpr = C.split
    exists = token < C.token_tile
    place = sums + token * C.rows + _places(WIDTH, C)
    total = gl.load(place, mask=exists, other=0.0, cache_modifier=".cg")
    for part in gl.static_range(1, SPLIT):
        theirs = place + part * (C.rows * C.token_tile)
        total += gl.load(theirs, mask=exists, other=0.0, cache_modifier=".cg")
    token = gl.where(exists, first_token + token, tokens)  # beyond all tokens nothing is stored
    _store_strip(total, out, first_row, token, rows, tokens, C)


@gluon.jit
def _places(WIDTH: gl.constexpr, C: gl.constexpr):
    """Offset of each sum [row, token] of WIDTH tokens in memory."""
    STRIP: gl.constexpr = layouts.staged_sums(4, WIDTH, True)
    row = gl.arange(0, C.rows, gl.SliceLayout(1, STRIP))
    token = gl.arange(0, WIDTH, gl.SliceLayout(0, STRIP))
    return row[:, None] * 8 + (token // 8 * (8 * C.rows) + token % 8)[None, :]


@gluon.jit
def _meet(word, me, C: gl.constexpr):
    """Count the sums of this part of K as written, and say whose strips it adds up.

    Returns a bit for each part of K whose strips it adds up; all have written their sums by then.
    The first part of those that have not left adds up the strips of those that have, too.
    """
    gl.atomic_add(word, 1, sem="release", scope="gpu")
    state = gl.atomic_add(word, 0, sem="acquire", scope="gpu")
    look = 1
    has_left = look == 0  # false, as a tensor, because the loop changes it
    while ((state & _COUNT) < C.split) & (not has_left):
        if look < _MOST_LOOKS:
            state = gl.atomic_add(word, 0, sem="acquire", scope="gpu")
        else:  # leave, unless another part has changed the word since
            with_me = state | (1 << (_LEFT + me))
            current = gl.atomic_cas(word, state, with_me, sem="acq_rel", scope="gpu")
            has_left = current == state
            state = current
        look += 1
    left = state >> _LEFT
    before_me = (1 << me) - 1
    is_first = (left & before_me) == before_me
    return gl.where(has_left, 0, (1 << me) | gl.where(is_first, left, 0))


@gluon.jit
def _count_as_gone(word):
    """Count this part of K as one that looks at the word no more.

    Returns the word as it was, in lane 0 of a vector: a scalar would reach all threads through
    shared memory, and all would wait for it.
    """
    LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    lane = gl.arange(0, 128, LAYOUT)
    one = gl.full([128], 1 << _GONE, gl.int32, LAYOUT)
    return gl.atomic_add(word + lane * 0, one, mask=lane == 0, sem="relaxed", scope="gpu")


@gluon.jit
def _reset(word, before, C: gl.constexpr):
    """Make the word zero again, as it began, if all other parts of K had gone `before`.

    Others may still add sums then: only the next kernel on the stream uses the word and the sums
    again, and that waits for the end of this one.
    """
    lane = gl.arange(0, 128, before.type.layout)
    is_last = ((before >> _GONE) & _COUNT) == C.split - 1
    gl.store(word + lane * 0, gl.zeros_like(before), mask=(lane == 0) & is_last)


@gluon.jit
def _int4_specialised_kernel(
    wd,
    xd,
    sd,
    zd,
    out,
    partials,
    counters,
    ROWS,
    TOKENS,
    C: gl.constexpr,
    CHAINED: gl.constexpr,
):
    """Block (part of K, rows, tokens)."""
    ring = _make_ring(wd, xd, sd, zd, C)
    fence_async_shared()
    arguments = (wd, xd, sd, zd, ring, out, partials, counters, ROWS, TOKENS)
    if C.parts == 2:
        gl.warp_specialize(
            [
                (_multiply, (arguments, C, CHAINED, 0)),
                (_multiply, (arguments, C, CHAINED, 1)),
                (_fetch, (arguments, C, CHAINED)),
            ],
            [4, 1],
            [C.registers, _FETCHING_REGISTERS],
        )
    elif C.parts == 3:
        gl.warp_specialize(
            [
                (_multiply, (arguments, C, CHAINED, 0)),
                (_multiply, (arguments, C, CHAINED, 1)),
                (_multiply, (arguments, C, CHAINED, 2)),
                (_fetch, (arguments, C, CHAINED)),
            ],
            [4, 4, 1],
            [C.registers, C.registers, _FETCHING_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_multiply, (arguments, C, CHAINED, 0)),
                (_multiply, (arguments, C, CHAINED, 1)),
                (_multiply, (arguments, C, CHAINED, 2)),
                (_multiply, (arguments, C, CHAINED, 3)),
                (_fetch, (arguments, C, CHAINED)),
            ],
            [4, 4, 4, 1],
            [C.registers, C.registers, C.registers, _FETCHING_REGISTERS],
        )


def launch(
    config: Int4SpecialisedConfig,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    partials: torch.Tensor,
    counters: torch.Tensor,
    chained: bool,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    constants = SpecialisedConstants.of(config, weights)
    rows = constants.box_rows
    scales = scales_descriptor(weights.scales, rows)
    zeros = scales if weights.zeros is None else scales_descriptor(weights.zeros, rows)
    _int4_specialised_kernel[config.grid(weights, x.shape[0])](
        words_descriptor(weights.packed, 1, rows),
        activations_descriptor(x, 2, config.token_tile, 64),
        scales,
        zeros,
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
