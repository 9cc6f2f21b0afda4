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

Several blocks may sum the same tile, and wait for each other (Int4SpecialisedConfig.grid says why
that ends). Where K is split, its parts exchange their sums, so that each part adds up some strips
of the tile. Where blocks share the units of all tiles, the block with the first unit of a tile adds
what the others hand on. Both add in the order of K, so equal inputs give equal bits, and flags end
at zero, as they began.

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
from kernels.int4.configs import Int4SpecialisedConfig
from kernels.int4.dequantise import dequantised, less_zeros, scaled
from kernels.int4.operands import (
    activations_descriptor,
    in_rows,
    operand,
    scales_descriptor,
    words_descriptor,
)
from kernels.int4.packing import Int4Weights
from kernels.int4.splits import Workspace

# What setmaxnreg takes at least: enough for a warp that does nothing but fetch.
_FETCHING_REGISTERS: gl.constexpr = gl.constexpr(24)

# Waits until the flag at $1 is set, and does not wait where $2 is 0.
_AWAIT: gl.constexpr = gl.constexpr("""{
.reg .pred %come;
.reg .s32 %flag;
mov.u32 $0, 0;
again:
setp.eq.s32 %come, $2, 0;
@%come bra there;
ld.acquire.gpu.global.s32 %flag, [$1];
setp.ne.s32 %come, %flag, 0;
@!%come bra again;
there:
}""")


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
def _tiles(ROWS, TOKENS, C: gl.constexpr):
    """Tiles of the output: (along the rows, along the tokens)."""
    SIDE: gl.constexpr = C.parts * C.rows
    return (ROWS + SIDE - 1) // SIDE, (TOKENS + C.token_tile - 1) // C.token_tile


@gluon.jit
def _units_of_block(ROWS, TOKENS, C: gl.constexpr):
    """(first unit of the block, the one behind its last), units of all tiles counted through.

    Tiles are counted along the rows first. So blocks that share all units equally, some of which
    are at the first tokens and some at the next, read the same weights at about the same time.
    """
    across, down = _tiles(ROWS, TOKENS, C)
    if C.shares:
        total = gl.to_tensor(across).to(gl.int64) * down * C.all_units
        block = gl.program_id(0).to(gl.int64)
        first = (block * total // gl.num_programs(0)).to(gl.int32)
        last = ((block + 1) * total // gl.num_programs(0)).to(gl.int32)
        return first, last
    else:  # noqa: RET505 (both branches are traced without it)
        tile = gl.program_id(2) * across + gl.program_id(1)
        first = tile * C.all_units + gl.program_id(0) * C.units
        return first, gl.minimum(first + C.units, (tile + 1) * C.all_units)


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
    rows, tokens = arguments[8], arguments[9]
    across, _ = _tiles(rows, tokens, C)
    unit, last = _units_of_block(rows, tokens, C)
    if CHAINED:  # weights do not depend on the kernel before, activations do
        for i in gl.static_range(SLOTS):
            _fetch_weights(arguments, i, unit + i, unit + i < last, across, C)
        gdc_wait()
    slot, phase = 0, 1  # nobody has to free a slot that was never filled
    for i in range(last - unit):
        mbarrier.wait(ring.empty.index(slot), phase)
        _fetch_weights(arguments, slot, unit + i, (i >= SLOTS) | (not CHAINED), across, C)
        full = ring.full.index(slot)
        mbarrier.expect(full, C.slice_bytes)
        tile = (unit + i) // C.all_units
        of_k = (unit + i) % C.all_units
        token = tile // across * C.token_tile
        tma.async_copy_global_to_shared(
            xd, [2 * of_k, token, 0], full, ring.slice_boxes.index(slot)
        )
        slot, phase = _after(slot, phase, SLOTS)


@gluon.jit
def _fetch_weights(arguments, slot, unit, wanted, across, C: gl.constexpr):
    """The weights, scales and zeros of all parts for a unit of a tile; nothing unless `wanted`."""
    wd, sd, zd, ring = arguments[0], arguments[2], arguments[3], arguments[4]
    GROUPS: gl.constexpr = C.boxes_per_unit
    BOXES: gl.constexpr = C.boxes
    full = ring.full.index(slot)
    of_k = unit % C.all_units
    block = unit // C.all_units % across
    mbarrier.expect(full, C.weight_bytes, pred=wanted)
    for part in gl.static_range(BOXES):
        tile = (block * BOXES + part) * (C.box_rows // 16)
        to = ring.word_boxes.index(slot * BOXES + part)
        tma.async_copy_global_to_shared(wd, [of_k, tile, 0, 0], full, to, pred=wanted)
        for j in gl.static_range(GROUPS):
            box = (slot * GROUPS + j) * BOXES + part
            place = [tile, 16 * (of_k * C.groups_per_unit + j)]
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
    rows, tokens = arguments[8], arguments[9]
    unit, last = _units_of_block(rows, tokens, C)
    slot, phase = gl.to_tensor(0), gl.to_tensor(0)
    if C.shares:
        while unit < last:
            tile = unit // C.all_units
            end = gl.minimum(last, (tile + 1) * C.all_units)
            acc, slot, phase = _sums(arguments, slot, phase, end - unit, WHICH, C)
            if CHAINED:  # the kernel before may still read `out`, or the workspace
                gdc_wait()
            _finish_shared(acc, arguments, tile, unit, WHICH, C)
            unit = end
    else:  # not by the same loop, whose variables cost so many registers that some blocks spill
        acc, _, _ = _sums(arguments, slot, phase, last - unit, WHICH, C)
        if CHAINED:
            gdc_wait()
        _finish(acc, arguments, unit // C.all_units, WHICH, C)


@gluon.jit
def _sums(arguments, slot, phase, COUNT, WHICH: gl.constexpr, C: gl.constexpr):
    """(sums [rows, token] of a part over COUNT units of K, the next slot, its parity)."""
    xd, ring = arguments[1], arguments[4]
    T: gl.constexpr = xd.dtype
    ROWS: gl.constexpr = C.rows
    SLOTS: gl.constexpr = C.slots
    SUMS: gl.constexpr = _sums_layout(C)
    SHAPE: gl.constexpr = (ROWS, C.token_tile)
    acc = gl.zeros(SHAPE, gl.float32, SUMS)
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
    return acc, slot, phase


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
def _store(acc, arguments, tile, WHICH: gl.constexpr, C: gl.constexpr):
    """Store the sums of a part of a tile, strip by strip: no registers for all addresses."""
    out, rows, tokens = arguments[5], arguments[8], arguments[9]
    COUNT: gl.constexpr = C.strips
    WIDTH: gl.constexpr = C.token_tile // COUNT
    first_row, first_token = _corner(tile, rows, tokens, WHICH, C)
    strips = _strips(acc, COUNT, C)
    for i in gl.static_range(COUNT):
        _store_strip(strips[i], out, first_row, first_token + i * WIDTH, rows, tokens, C)


@gluon.jit
def _corner(tile, ROWS, TOKENS, WHICH: gl.constexpr, C: gl.constexpr):
    """(first row, first token) of a part of a tile."""
    across, _ = _tiles(ROWS, TOKENS, C)
    return (tile % across * C.parts + WHICH) * C.rows, tile // across * C.token_tile


@gluon.jit
def _finish(acc, arguments, tile, WHICH: gl.constexpr, C: gl.constexpr):
    """Store the sums of a part of a tile, by an exchange with the other parts of K if there are."""
    out, partials, flags = arguments[5], arguments[6], arguments[7]
    rows, tokens = arguments[8], arguments[9]
    if C.split == 1:
        _store(acc, arguments, tile, WHICH, C)
    else:
        COUNT: gl.constexpr = C.strips
        TURNS: gl.constexpr = C.strips_of_part
        WIDTH: gl.constexpr = C.token_tile // COUNT
        strips = _strips(acc, COUNT, C)
        first_row, first_token = _corner(tile, rows, tokens, WHICH, C)
        place = tile * C.parts + WHICH
        sums = partials + place * (C.split * C.rows * C.token_tile)
        flags_of_part = flags + place * (C.split * C.split)
        me = gl.program_id(0)
        _hand_out(strips, sums, flags_of_part, me, C)
        _await_parts(flags_of_part, me, C)
        for turn in gl.static_range(TURNS):
            strip = me + turn * C.split
            total = _added_up(strips, sums, me, turn, C)
            token = gl.where(strip < COUNT, first_token + strip * WIDTH, tokens)
            _store_strip(total, out, first_row, token, rows, tokens, C)


@gluon.jit
def _finish_shared(acc, arguments, tile, unit, WHICH: gl.constexpr, C: gl.constexpr):
    """Store the sums of a part of a tile, or hand them to the block that has its first unit.

    unit   the first one that was summed. A block that begins inside of a tile hands on what it has
           of it, and goes on. For the block with the tile's first unit it is the last of its tiles,
           so it can wait for what the others hand on, and it adds that in the order of K.
    """
    partials, flags = arguments[6], arguments[7]
    rows, tokens = arguments[8], arguments[9]
    block = gl.program_id(0)
    row = gl.arange(0, C.rows, gl.SliceLayout(1, acc.type.layout))
    lane = gl.arange(0, C.token_tile, gl.SliceLayout(0, acc.type.layout))
    place = row[:, None] * C.token_tile + lane[None, :]
    SIZE: gl.constexpr = C.rows * C.token_tile
    if unit > tile * C.all_units:
        own = block * C.parts + WHICH
        gl.store(partials + own * SIZE + place, acc)
        gl.thread_barrier()  # what all threads wrote is released by the one that sets the flag
        gl.atomic_xchg(flags + own, 1, sem="release", scope="gpu")
    else:
        across, down = _tiles(rows, tokens, C)
        total = gl.to_tensor(across).to(gl.int64) * down * C.all_units
        behind = (tile + 1).to(gl.int64) * C.all_units * gl.num_programs(0)
        last_block = ((behind - 1) // total).to(gl.int32)  # the one with the tile's last unit
        for other in range(block + 1, last_block + 1):
            theirs = other * C.parts + WHICH
            _await(flags + theirs, 1)
            gl.thread_barrier()  # every thread has seen the flag, before it is reset
            gl.store(flags + theirs, 0)
            acc += gl.load(partials + theirs * SIZE + place, cache_modifier=".cg")
        _store(acc, arguments, tile, WHICH, C)


@gluon.jit
def _await(flag, wanted):
    """Wait until the flag is set, each lane for its own, and not at all where `wanted` is 0."""
    gl.inline_asm_elementwise(
        _AWAIT, "=r,l,r", [flag.to(gl.int64), wanted], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _lanes_of_parts(me, C: gl.constexpr):
    """(each part of K, or beyond; whether it is another one than `me`), in every warp."""
    LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    LANES: gl.constexpr = C.lanes_of_parts
    part = gl.arange(0, LANES, LAYOUT)
    return part, (part < C.split) & (part != me)


@gluon.jit
def _places(C: gl.constexpr):
    """Offset of each sum in a strip [rows, token]."""
    WIDTH: gl.constexpr = C.token_tile // C.strips
    STRIP: gl.constexpr = layouts.staged_sums(4, WIDTH, True)
    row = gl.arange(0, C.rows, gl.SliceLayout(1, STRIP))
    lane = gl.arange(0, WIDTH, gl.SliceLayout(0, STRIP))
    return row[:, None] * WIDTH + lane[None, :]


@gluon.jit
def _hand_out(strips, sums, flags, me, C: gl.constexpr):
    """Write the strips that other parts of K add up, and tell these parts.

    sums   [part of K that writes, strip, row, token]
    flags  [part of K that reads, part of K that writes]: 1 once the sums are there
    """
    COUNT: gl.constexpr = C.strips
    SIZE: gl.constexpr = C.rows * C.token_tile // COUNT
    own = sums + me * (COUNT * SIZE) + _places(C)
    for i in gl.static_range(COUNT):
        if i % C.split != me:
            gl.store(own + i * SIZE, strips[i])
    gl.thread_barrier()  # what all threads wrote is released by the one that sets a flag
    part, is_other = _lanes_of_parts(me, C)
    flag = flags + part * C.split + me
    gl.atomic_xchg(flag, is_other.to(gl.int32), mask=is_other, sem="release", scope="gpu")


@gluon.jit
def _await_parts(flags, me, C: gl.constexpr):
    """Wait until all other parts of K have written the strips of this one; flags are 0 again."""
    part, is_other = _lanes_of_parts(me, C)
    own = flags + me * C.split + part
    _await(own, is_other.to(gl.int32))
    gl.thread_barrier()  # every thread has seen flags, before they are reset
    gl.store(own, 0, mask=is_other)


@gluon.jit
def _chosen(condition, one, another):
    """One of two tensors of a layout, by a scalar."""
    return gl.where(gl.full(one.shape, condition, gl.int1, one.type.layout), one, another)


@gluon.jit
def _added_up(strips, sums, me, TURN: gl.constexpr, C: gl.constexpr):
    """The sums [rows, token] of a strip over all parts of K, in their order; `me` has its own."""
    COUNT: gl.constexpr = C.strips
    SPLIT: gl.constexpr = C.split
    SIZE: gl.constexpr = C.rows * C.token_tile // COUNT
    FIRST: gl.constexpr = TURN * SPLIT
    strip = FIRST + me
    own = strips[FIRST]
    for i in gl.static_range(1, SPLIT):
        if FIRST + i < COUNT:
            own = _chosen(me == i, strips[FIRST + i], own)
    place = sums + strip * SIZE + _places(C)
    for part in gl.static_range(SPLIT):
        is_written = (part != me) & (strip < COUNT)
        theirs = place + part * (COUNT * SIZE)
        summand = gl.load(theirs, mask=is_written, other=0.0, cache_modifier=".cg")
        summand = _chosen(part == me, own, summand)
        if part == 0:
            total = summand
        else:
            total += summand
    return total


@gluon.jit
def _int4_specialised_kernel(
    wd,
    xd,
    sd,
    zd,
    out,
    partials,
    flags,
    ROWS,
    TOKENS,
    C: gl.constexpr,
    CHAINED: gl.constexpr,
):
    """Block (part of K, rows, tokens), or one of the blocks that share all units."""
    ring = _make_ring(wd, xd, sd, zd, C)
    fence_async_shared()
    if CHAINED:
        gdc_launch_dependents()
    arguments = (wd, xd, sd, zd, ring, out, partials, flags, ROWS, TOKENS)
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
    workspace: Workspace,
    chained: bool,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    constants = config.constants(weights.k, weights.group, zeros=weights.zeros is not None)
    rows = constants.box_rows
    scales = scales_descriptor(weights.scales, rows)
    zeros = scales if weights.zeros is None else scales_descriptor(weights.zeros, rows)
    _int4_specialised_kernel[config.grid(weights, x.shape[0])](
        words_descriptor(weights.packed, 1, rows),
        activations_descriptor(x, 2, config.token_tile, 64),
        scales,
        zeros,
        out,
        workspace.partials,
        workspace.counters,
        weights.rows,
        x.shape[0],
        C=constants,
        CHAINED=chained,
        num_warps=config.num_warps,
        launch_pdl=chained,
    )
