"""Int4 product for many tokens on sm_90: one warp fetches, two warpgroups dequantise and multiply.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T      tokens 64 .. 256 a block

A block has two parts of rows, one for each multiplying warpgroup. While one of them dequantises,
the other keeps the matrix unit busy; in kernels.int4.staged all warps of a block do both at once,
so that the matrix unit waits. Two rings in shared memory are filled ahead: one of packed weights, a
unit of 128 columns in a slot, and one of activations, 64 columns in a slot.

Weights are scaled before they are multiplied, (q - zero) * scale rounded to bf16 or fp16, because
sums of a group beside the sums of all need more registers than there are. That is the rounding a
layer in bf16 would have; kernels.int4.staged scales fp32 sums. A scale per row acts on sums here,
too.

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
from kernels.int4.operands import activations_descriptor, in_rows, operand, words_descriptor
from kernels.int4.packing import UNIT_ROWS, Int4Weights
from kernels.int4.splits import Workspace

PARTS: gl.constexpr = gl.constexpr(2)  # multiplying warpgroups
# What setmaxnreg takes at least: enough for a warp that does nothing but fetch.
_FETCHING_REGISTERS: gl.constexpr = gl.constexpr(24)


@aggregate
class Rings:
    """Packed weights and activations in shared memory, and the barriers of their slots.

    word_boxes, slice_boxes   as they are fetched: a box for each part of each slot of weights, and
                              for each slot of activations
    words, slices             the same memory, as it is read
    words_full, slices_full   complete when the bytes of a slot have come
    words_empty, slices_empty complete when both parts have read a slot
    """

    word_boxes: gl.shared_memory_descriptor
    slice_boxes: gl.shared_memory_descriptor
    words: gl.shared_memory_descriptor
    slices: gl.shared_memory_descriptor
    words_full: gl.shared_memory_descriptor
    words_empty: gl.shared_memory_descriptor
    slices_full: gl.shared_memory_descriptor
    slices_empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(
        self,
        word_boxes,
        slice_boxes,
        words,
        slices,
        words_full,
        words_empty,
        slices_full,
        slices_empty,
    ) -> None:
        """Triton makes aggregates of what the device holds."""
        self.word_boxes = word_boxes
        self.slice_boxes = slice_boxes
        self.words = words
        self.slices = slices
        self.words_full = words_full
        self.words_empty = words_empty
        self.slices_full = slices_full
        self.slices_empty = slices_empty


@gluon.jit
def _barriers(SLOTS: gl.constexpr, COUNT: gl.constexpr):
    """A barrier for each slot, which so many arrivals complete."""
    barriers = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(barriers.index(slot), count=COUNT)
    return barriers


@triton.constexpr_function
def _sums_layout(C):
    """Who holds the sums [rows, token] of a part."""
    return layouts.staged_sums(4, C.token_tile, True)


@gluon.jit
def _units_of_block(C: gl.constexpr):
    """(first unit, how many) of the block's part of K; the last part may be shorter."""
    first = gl.program_id(2) * C.units
    return first, gl.minimum(C.units, C.all_units - first)


@gluon.jit
def _fetch(arguments, C: gl.constexpr, CHAINED: gl.constexpr):
    """The fetching warp: weights and activations of the block's units, as slots get free."""
    wd, xd, rings = arguments[0], arguments[1], arguments[2]
    ROWS: gl.constexpr = C.rows
    WORD_SLOTS: gl.constexpr = C.word_slots
    SLICE_SLOTS: gl.constexpr = C.slice_slots
    tile = gl.program_id(0) * (PARTS * (ROWS // 16))
    token = gl.program_id(1) * C.token_tile
    first, count = _units_of_block(C)
    if CHAINED:  # weights do not depend on the kernel before, activations do
        for i in gl.static_range(WORD_SLOTS):
            _fetch_words(wd, rings, i, i, first, tile, i < count, C)
        gdc_wait()
    for i in range(count):
        if CHAINED:
            _fetch_words(wd, rings, i % WORD_SLOTS, i, first, tile, i >= WORD_SLOTS, C)
        else:
            _fetch_words(wd, rings, i % WORD_SLOTS, i, first, tile, True, C)
        for half in gl.static_range(2):
            use = 2 * i + half
            slot = use % SLICE_SLOTS
            mbarrier.wait(rings.slices_empty.index(slot), ((use // SLICE_SLOTS) & 1) ^ 1)
            full = rings.slices_full.index(slot)
            mbarrier.expect(full, C.slice_bytes)
            place = [2 * (first + i) + half, token, 0]
            tma.async_copy_global_to_shared(xd, place, full, rings.slice_boxes.index(slot))


@gluon.jit
def _fetch_words(wd, rings, slot, use, first, tile, more, C: gl.constexpr):
    """The weights of both parts for the use-th unit; nothing unless `more`."""
    ROWS: gl.constexpr = C.rows
    phase = ((use // C.word_slots) & 1) ^ 1
    mbarrier.wait(rings.words_empty.index(slot), phase, pred=more)
    full = rings.words_full.index(slot)
    mbarrier.expect(full, PARTS * C.part_word_bytes, pred=more)
    for part in gl.static_range(PARTS):
        place = [first + use, tile + part * (ROWS // 16), 0, 0]
        box = rings.word_boxes.index(PARTS * slot + part)
        tma.async_copy_global_to_shared(wd, place, full, box, pred=more)


@gluon.jit
def _per_row(source, tile, group, TILES, C: gl.constexpr):
    """Scales or zeros of a group of columns for a part's rows, in packed order; TILES are there."""
    S: gl.constexpr = layouts.staged_scales(C.rows, 4)
    entry = gl.arange(0, C.rows, S)
    place = ((tile + entry // 16) * C.groups + group) * 16 + entry % 16
    return gl.load(source + place, mask=tile + entry // 16 < TILES, other=0.0)


@gluon.jit
def _per_unit(source, tile, unit, TILES, C: gl.constexpr):
    """What `_per_row` loads for each of a unit's groups, or for the rows' only one."""
    COUNT: gl.constexpr = C.groups_per_unit or 1
    loaded = ()
    for j in gl.static_range(COUNT):
        group = unit * C.groups_per_unit + j
        loaded = loaded + (_per_row(source, tile, group, TILES, C),)
    return loaded


@gluon.jit
def _scaled_operand(half, scales, zeros, T: gl.constexpr, C: gl.constexpr):
    """Dequantised words of 64 columns -> the left operand [rows, 64], scaled."""
    LEFT: gl.constexpr = gl.DotOperandLayout(0, _sums_layout(C), 2)
    half = operand(half, LEFT, C.rows)
    if C.has_zeros:
        half = less_zeros(half, in_rows(zeros, LEFT, C.rows).to(gl.float32), 1, T)
    if C.groups_per_unit > 0:
        half = scaled(half, in_rows(scales, LEFT, C.rows), T)
    return half


@gluon.jit
def _multiply(arguments, C: gl.constexpr, CHAINED: gl.constexpr, WHICH: gl.constexpr):
    """A multiplying warpgroup: the WHICH-th part of the block's rows.

    While `lo` is multiplied, `hi` is scaled. Two other orders took as long on an H100 (64 to 256
    tokens, 28672 x 8192): operands of the next unit made while this one is multiplied, and
    warpgroups that multiply in turns.
    """
    xd, rings, scales, zeros = arguments[1], arguments[2], arguments[3], arguments[4]
    out, partials, counters = arguments[5], arguments[6], arguments[7]
    rows_of_all, tokens_of_all, tiles_of_all = arguments[8], arguments[9], arguments[10]
    T: gl.constexpr = xd.dtype
    ROWS: gl.constexpr = C.rows
    WORD_SLOTS: gl.constexpr = C.word_slots
    SLICE_SLOTS: gl.constexpr = C.slice_slots
    LAST: gl.constexpr = (C.groups_per_unit or 1) - 1
    SUMS: gl.constexpr = _sums_layout(C)
    WORDS: gl.constexpr = layouts.staged_words(C.rows, 4)
    SHAPE: gl.constexpr = (C.rows, C.token_tile)
    tile = (gl.program_id(0) * PARTS + WHICH) * (ROWS // 16)
    first, count = _units_of_block(C)
    acc = gl.zeros(SHAPE, gl.float32, SUMS)
    # Loaded a unit ahead: a read takes about as long as a unit.
    next_scales = _per_unit(scales, tile, first, tiles_of_all, C)
    next_zeros = next_scales
    if C.has_zeros:
        next_zeros = _per_unit(zeros, tile, first, tiles_of_all, C)
    for i in range(count):
        unit_scales = next_scales
        unit_zeros = next_zeros
        if C.groups_per_unit > 0:
            later = first + gl.minimum(i + 1, count - 1)
            next_scales = _per_unit(scales, tile, later, tiles_of_all, C)
            next_zeros = next_scales
            if C.has_zeros:
                next_zeros = _per_unit(zeros, tile, later, tiles_of_all, C)
        word_slot = i % WORD_SLOTS
        mbarrier.wait(rings.words_full.index(word_slot), (i // WORD_SLOTS) & 1)
        packed = rings.words.index(PARTS * word_slot + WHICH).load(WORDS)
        lo, hi = dequantised(packed, C.has_zeros, T)
        lo = _scaled_operand(lo, unit_scales[0], unit_zeros[0], T, C)
        left = 2 * i % SLICE_SLOTS
        mbarrier.wait(rings.slices_full.index(left), (2 * i // SLICE_SLOTS) & 1)
        acc = warpgroup_mma(lo, rings.slices.index(left).permute((1, 0)), acc, is_async=True)
        hi = _scaled_operand(hi, unit_scales[LAST], unit_zeros[LAST], T, C)
        right = (2 * i + 1) % SLICE_SLOTS
        mbarrier.wait(rings.slices_full.index(right), ((2 * i + 1) // SLICE_SLOTS) & 1)
        acc = warpgroup_mma(hi, rings.slices.index(right).permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(0, (acc, lo, hi))[0]
        # The product needed all warps, so all of them have loaded their words.
        mbarrier.arrive(rings.words_empty.index(word_slot), count=1)
        mbarrier.arrive(rings.slices_empty.index(left), count=1)
        mbarrier.arrive(rings.slices_empty.index(right), count=1)
    if C.groups_per_unit == 0:
        acc = acc * in_rows(next_scales[0], SUMS, ROWS).to(gl.float32)[:, None]
    if CHAINED:  # the kernel before may still read `out`, or the workspace
        gdc_wait()
    _finish(acc, out, partials, counters, tile * 16, rows_of_all, tokens_of_all, C, WHICH)


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
def _finish(
    acc,
    out,
    partials,
    counters,
    first_row,
    ROWS_OF_ALL,
    TOKENS,
    C: gl.constexpr,
    WHICH: gl.constexpr,
):
    """As kernels.int4.splits.finish, strip by strip: there are no registers for all of a part.

    Of a strip the sums of all parts of K are in flight at once: one after the other, they would
    cost a microsecond each.
    """
    COUNT: gl.constexpr = C.strips
    WIDTH: gl.constexpr = C.token_tile // COUNT
    STRIP: gl.constexpr = layouts.staged_sums(4, WIDTH, True)
    SPLIT: gl.constexpr = C.split
    strips = _strips(acc, COUNT, C)
    first_token = gl.program_id(1) * C.token_tile
    if SPLIT == 1:
        for i in gl.static_range(COUNT):
            token = first_token + i * WIDTH
            _store_strip(strips[i], out, first_row, token, ROWS_OF_ALL, TOKENS, C)
    else:
        SIZE: gl.constexpr = C.rows * C.token_tile
        row = gl.arange(0, C.rows, gl.SliceLayout(1, STRIP))
        lane = gl.arange(0, WIDTH, gl.SliceLayout(0, STRIP))
        place = row[:, None] * WIDTH + lane[None, :]
        block = gl.program_id(0) * gl.num_programs(1) + gl.program_id(1)
        block = block * PARTS + WHICH
        sums = partials + block * (SPLIT * SIZE)
        for i in gl.static_range(COUNT):
            gl.store(sums + gl.program_id(2) * SIZE + i * (C.rows * WIDTH) + place, strips[i])
        gl.thread_barrier()
        arrived = gl.atomic_add(counters + block, 1, sem="acq_rel", scope="gpu")
        if arrived == SPLIT - 1:
            for strip in range(COUNT):
                own = sums + strip * (C.rows * WIDTH) + place
                total = gl.load(own, cache_modifier=".cg")
                for other in gl.static_range(1, SPLIT):
                    total += gl.load(own + other * SIZE, cache_modifier=".cg")
                token = first_token + strip * WIDTH
                _store_strip(total, out, first_row, token, ROWS_OF_ALL, TOKENS, C)
            gl.store(counters + block, 0)


@gluon.jit
def _int4_specialised_kernel(
    wd,
    xd,
    scales,
    zeros,
    out,
    partials,
    counters,
    ROWS,
    TOKENS,
    TILES,
    C: gl.constexpr,
    CHAINED: gl.constexpr,
):
    """Block (rows, tokens, part of K)."""
    T: gl.constexpr = xd.dtype
    WORD_SLOTS: gl.constexpr = C.word_slots
    SLICE_SLOTS: gl.constexpr = C.slice_slots
    BOXES: gl.constexpr = PARTS * WORD_SLOTS
    TILES_OF_PART: gl.constexpr = C.rows // 16
    word_boxes = gl.allocate_shared_memory(gl.uint8, [BOXES, 1, TILES_OF_PART, 8, 128], wd.layout)
    slice_boxes = gl.allocate_shared_memory(T, [SLICE_SLOTS, 1, C.token_tile, 64], xd.layout)
    rings = Rings(
        word_boxes,
        slice_boxes,
        word_boxes._reinterpret(
            gl.uint8, [BOXES, C.rows // 2, 128], gl.NVMMASharedLayout(128, 8, 2)
        ),
        slice_boxes._reinterpret(
            T, [SLICE_SLOTS, C.token_tile, 64], gl.NVMMASharedLayout(128, 16, 2)
        ),
        _barriers(WORD_SLOTS, 1),
        _barriers(WORD_SLOTS, PARTS),
        _barriers(SLICE_SLOTS, 1),
        _barriers(SLICE_SLOTS, PARTS),
    )
    fence_async_shared()
    if CHAINED:
        gdc_launch_dependents()
    arguments = (wd, xd, rings, scales, zeros, out, partials, counters, ROWS, TOKENS, TILES)
    gl.warp_specialize(
        [
            (_multiply, (arguments, C, CHAINED, 0)),
            (_multiply, (arguments, C, CHAINED, 1)),
            (_fetch, (arguments, C, CHAINED)),
        ],
        [4, 1],
        [C.registers, _FETCHING_REGISTERS],
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
    zeros = weights.zeros
    _int4_specialised_kernel[config.grid(weights, x.shape[0])](
        words_descriptor(weights.packed, 1, config.part_rows),
        activations_descriptor(x, 1, config.token_tile, 64),
        weights.scales,
        weights.scales if zeros is None else zeros,
        out,
        workspace.partials,
        workspace.counters,
        weights.rows,
        x.shape[0],
        weights.padded_rows // UNIT_ROWS,
        C=config.constants(weights.k, weights.group, zeros=zeros is not None),
        CHAINED=chained,
        num_warps=config.num_warps,
        launch_pdl=chained,
    )
