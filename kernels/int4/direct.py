"""Int4 product for few tokens on sm_90: weights go from memory straight into the matrix unit.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T      tokens 1 .. 16 a block

The warps of a block split K, not the rows: each keeps its slice of the activations in registers
and streams the weights of tile after tile past it. A lane's 16-byte load is already its operand of
four products (kernels.int4.packing), so a weight costs shifts, one lop3 and the product, nothing
else.

Removing the zero point, cheapest way first (`remove`):
    CHAIN   bf16, symmetric: the weights stay at 128 + q, and -136 * sum(x) of the group is where
            the sum of its products starts, in fp32
    CENTRE  q - 8 by a packed subtraction of a constant
    ZEROS   q - zero by a packed subtraction of (base + zero) of the row and group

What the kernel is compiled for is C, a DirectConstants; W its warps, NT its tokens.
"""
# mypy: disable-error-code="assignment,misc,has-type,no-redef,var-annotated,index"

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.int4 import constants, layouts
from kernels.int4.constants import DirectConstants
from kernels.int4.hopper import dequantised, finish, less_zeros
from kernels.int4.packing import Int4Weights
from kernels.int4.rule import Int4DirectConfig

CHAIN: gl.constexpr = gl.constexpr(constants.CHAIN)
CENTRE: gl.constexpr = gl.constexpr(constants.CENTRE)
ZEROS: gl.constexpr = gl.constexpr(constants.ZEROS)


@gluon.jit
def _operand(v, C: gl.constexpr):
    """[warp, blob order of 16 x 64] -> [warp, 16 rows, 64]: lane 4*g + s takes the part of s."""
    LEFT: gl.constexpr = gl.DotOperandLayout(0, layouts.direct_sums(C.warps), 2)
    v = gl.reshape(v, (C.warps, 2, 8, 4, 2, 2, 2, 2))  # half, g, s, w high, w low, b, i
    v = gl.permute(v, (0, 6, 2, 1, 4, 5, 3, 7))  # b, g | half, w high, w low, s, i
    return gl.convert_layout(gl.reshape(v, (C.warps, 16, 64)), LEFT, assert_trivial=True)


@gluon.jit
def _activations(v, C: gl.constexpr):
    """[token, warp, 64] -> [warp, 64, token] with the columns in the order of `_operand`."""
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, layouts.direct_sums(C.warps), 2)
    v = gl.reshape(v, (C.token_tile, C.warps, 4, 2, 2, 2, 2))  # s, half, w high, w low, i
    v = gl.permute(v, (1, 3, 4, 5, 2, 6, 0))
    return gl.convert_layout(gl.reshape(v, (C.warps, 64, C.token_tile)), RIGHT, assert_trivial=True)


@gluon.jit
def _zero_outside_group(v, SECOND: gl.constexpr, C: gl.constexpr):
    """Activations [warp, 64, token] with zeros in the columns of the other group of 32.

    Both groups lie in every product: the columns of a lane are contiguous, and its s says which.
    """
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, layouts.direct_sums(C.warps), 2)
    position = gl.arange(0, 64, gl.SliceLayout(0, gl.SliceLayout(2, RIGHT)))
    s = position // 2 % 4
    inside = (s >= 2) if SECOND else (s < 2)
    mask = gl.where(inside, -1, 0).to(gl.int16)[None, :, None]
    return gl.inline_asm_elementwise(
        "and.b32 $0, $1, $2;", "=r,r,r", [v, mask], dtype=v.dtype, is_pure=True, pack=2
    )


@gluon.jit
def _load_per_row(pointer, LAYOUT: gl.constexpr, C: gl.constexpr):
    """Scales or zeros [warp, 16 packed] -> [warp, 16 rows], fp32, along the rows of LAYOUT."""
    v = gl.reshape(gl.load(pointer), (C.warps, 8, 2))
    v = gl.reshape(gl.permute(v, (0, 2, 1)), (C.warps, 16))
    return gl.convert_layout(v, gl.SliceLayout(2, LAYOUT), assert_trivial=True).to(gl.float32)


@gluon.jit
def _add_unit(acc, words, x_lo, x_hi, starts, sp, zp, C: gl.constexpr):
    """acc + the products of one unit per warp."""
    SUMS: gl.constexpr = layouts.direct_sums(C.warps)
    LEFT: gl.constexpr = gl.DotOperandLayout(0, SUMS, 2)
    T: gl.constexpr = x_lo.dtype
    lo, hi = dequantised(words, C.remove != CENTRE, T)
    lo = _operand(lo, C)
    hi = _operand(hi, C)
    if C.groups_per_unit == 4:
        SHAPE: gl.constexpr = (C.warps, 16, C.token_tile)
        none = gl.zeros(SHAPE, gl.float32, SUMS)
        for j in gl.static_range(4):
            part = lo if j < 2 else hi
            x = _zero_outside_group(x_lo if j < 2 else x_hi, j % 2 == 1, C)
            if C.remove == ZEROS:
                part = less_zeros(part, _load_per_row(zp + 16 * j, LEFT, C), 2, T)
            scale = gl.expand_dims(_load_per_row(sp + 16 * j, SUMS, C), 2)
            acc += mma_v2(part, x, none) * scale
    else:
        if C.remove == ZEROS:
            second: gl.constexpr = 16 if C.groups_per_unit == 2 else 0
            lo = less_zeros(lo, _load_per_row(zp, LEFT, C), 2, T)
            hi = less_zeros(hi, _load_per_row(zp + second, LEFT, C), 2, T)
        if C.groups_per_unit == 0:
            acc = mma_v2(hi, x_hi, mma_v2(lo, x_lo, acc))
        elif C.groups_per_unit == 1:
            scale = gl.expand_dims(_load_per_row(sp, SUMS, C), 2)
            acc += mma_v2(hi, x_hi, mma_v2(lo, x_lo, starts[0])) * scale
        else:
            scale = gl.expand_dims(_load_per_row(sp, SUMS, C), 2)
            acc += mma_v2(lo, x_lo, starts[0]) * scale
            scale = gl.expand_dims(_load_per_row(sp + 16, SUMS, C), 2)
            acc += mma_v2(hi, x_hi, starts[1]) * scale
    return acc


@gluon.jit
def _start_sums(x_lo, x_hi, C: gl.constexpr):
    """Where the sums of a unit's groups start: -136 * sum(x) of the group, or zero.

    The sum comes from the matrix unit too, as a product with ones.
    """
    SUMS: gl.constexpr = layouts.direct_sums(C.warps)
    SHAPE: gl.constexpr = (C.warps, 16, C.token_tile)
    none = gl.zeros(SHAPE, gl.float32, SUMS)
    if C.remove == CHAIN:
        LEFT_SHAPE: gl.constexpr = (C.warps, 16, 64)
        ones = gl.full(LEFT_SHAPE, 1.0, x_lo.dtype, gl.DotOperandLayout(0, SUMS, 2))
        if C.groups_per_unit == 2:
            result = (mma_v2(ones, x_lo, none) * -136.0, mma_v2(ones, x_hi, none) * -136.0)
        else:
            result = (mma_v2(ones, x_hi, mma_v2(ones, x_lo, none)) * -136.0,)
    elif C.groups_per_unit == 2:
        result = (none, none)
    else:
        result = (none,)
    return result


@gluon.jit
def _load_activations(x, TOKENS, C: gl.constexpr):
    """The units of every warp's slice of K, (h 0, h 1) of each, as loaded: [token, warp, 64]."""
    L: gl.constexpr = layouts.direct_activations(C.warps, C.token_tile)
    UNITS: gl.constexpr = C.units
    TOKEN: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, L))
    token = gl.program_id(1) * C.token_tile + gl.arange(0, C.token_tile, TOKEN)
    warp = gl.arange(0, C.warps, gl.SliceLayout(0, gl.SliceLayout(2, L)))
    column = gl.arange(0, 64, gl.SliceLayout(0, gl.SliceLayout(1, L)))
    first = (gl.program_id(2) * C.warps + warp) * (UNITS * 128)
    offsets = token[:, None, None] * C.k + first[None, :, None] + column[None, None, :]
    inside = (token < TOKENS)[:, None, None] & (offsets >= 0)
    loaded = ()
    for u in gl.static_range(UNITS):
        loaded = loaded + (gl.load(x + offsets + u * 128, mask=inside, other=0.0),)
        loaded = loaded + (gl.load(x + offsets + u * 128 + 64, mask=inside, other=0.0),)
    return loaded


@gluon.jit
def _load_tile(pointer, tile: gl.constexpr, C: gl.constexpr):
    """The packed words of a row tile, the units of every warp, as a tuple."""
    UNITS: gl.constexpr = C.units
    loaded = ()
    for u in gl.static_range(UNITS):
        place = pointer + (tile * (C.k // 128) + u) * 1024
        loaded = loaded + (gl.load(place, eviction_policy="evict_first"),)
    return loaded


@gluon.jit
def _sum_over_warps(shared, C: gl.constexpr):
    """The row tiles' sums over warps, in order of the warps, as one [16 * padded tiles, token]."""
    PARTS: gl.constexpr = layouts.direct_partials(C.warps, C.token_tile)
    TILES: gl.constexpr = C.row_tiles
    PADDED: gl.constexpr = C.padded_tiles
    t = ()
    for r in gl.static_range(TILES):
        t = t + (gl.sum(shared[r].load(PARTS), 0),)
    for _r in gl.static_range(TILES, PADDED):
        t = t + (t[0],)  # masked in the store
    if PADDED == 1:
        y = t[0]
    elif PADDED == 2:
        y = gl.permute(gl.join(t[0], t[1]), (2, 0, 1))
    elif PADDED == 4:
        y = gl.join(gl.join(t[0], t[1]), gl.join(t[2], t[3]))
        y = gl.permute(y, (3, 2, 0, 1))
    else:
        low = gl.join(gl.join(t[0], t[1]), gl.join(t[2], t[3]))
        high = gl.join(gl.join(t[4], t[5]), gl.join(t[6], t[7]))
        y = gl.permute(gl.join(low, high), (4, 3, 2, 0, 1))
    OUTPUT: gl.constexpr = layouts.direct_output(C.warps, C.token_tile, PADDED)
    return gl.convert_layout(gl.reshape(y, (16 * PADDED, C.token_tile)), OUTPUT)


@gluon.jit
def _store(y, out, partials, counters, ROWS, TOKENS, C: gl.constexpr):
    """Store the block's sums [16 * padded tiles, token]."""
    L: gl.constexpr = layouts.direct_output(C.warps, C.token_tile, C.padded_tiles)
    HEIGHT: gl.constexpr = 16 * C.padded_tiles
    row = gl.arange(0, HEIGHT, gl.SliceLayout(1, L))
    lane = gl.arange(0, C.token_tile, gl.SliceLayout(0, L))
    token = gl.program_id(1) * C.token_tile + lane
    rows = gl.program_id(0) * (16 * C.row_tiles) + row
    target = out + token[None, :] * ROWS + rows[:, None]
    inside = (token < TOKENS)[None, :] & ((row < 16 * C.row_tiles) & (rows < ROWS))[:, None]
    place = lane[None, :] * HEIGHT + row[:, None]
    finish(y, place, target, inside, partials, counters, HEIGHT * C.token_tile, C.split)


@gluon.jit
def _weight_pointers(packed, C: gl.constexpr):
    """Where each warp's first unit of the block's first row tile lies."""
    L: gl.constexpr = layouts.direct_words(C.warps)
    warp = gl.arange(0, C.warps, gl.SliceLayout(1, L))
    byte = gl.arange(0, 1024, gl.SliceLayout(0, L))
    unit = (gl.program_id(0) * C.row_tiles) * (C.k // 128) + gl.program_id(2) * (C.warps * C.units)
    return packed + unit.to(gl.int64) * 1024 + (warp[:, None] * (C.units * 1024) + byte[None, :])


@gluon.jit
def _scale_offsets(C: gl.constexpr):
    """Offsets of each warp's first scales of the block's first row tile."""
    L: gl.constexpr = layouts.direct_scales(C.warps)
    GROUPS: gl.constexpr = C.units * C.groups_per_unit  # of a warp
    warp = gl.arange(0, C.warps, gl.SliceLayout(1, L))
    entry = gl.arange(0, 16, gl.SliceLayout(0, L))
    group = (gl.program_id(0) * C.row_tiles) * C.groups + gl.program_id(2) * (C.warps * GROUPS)
    return group * 16 + (warp[:, None] * (GROUPS * 16) + entry[None, :])


@gluon.jit
def _operands(loaded, C: gl.constexpr):
    """Loaded activations -> (operands of every unit, h 0 and h 1; where its sums start)."""
    UNITS: gl.constexpr = C.units
    xs = ()
    starts = ()
    for u in gl.static_range(UNITS):
        lo = _activations(loaded[2 * u], C)
        hi = _activations(loaded[2 * u + 1], C)
        xs = xs + (lo, hi)
        starts = starts + (_start_sums(lo, hi, C),)
    return xs, starts


@gluon.jit
def _sum_tile(words, xs, starts, sp, zp, C: gl.constexpr):
    """Sums [warp, 16 rows, token] of a row tile over the units of each warp."""
    SUMS: gl.constexpr = layouts.direct_sums(C.warps)
    UNITS: gl.constexpr = C.units
    SHAPE: gl.constexpr = (C.warps, 16, C.token_tile)
    acc = gl.zeros(SHAPE, gl.float32, SUMS)
    if C.groups_per_unit == 0:
        for u in gl.static_range(UNITS):
            acc += starts[u][0]
    for u in gl.static_range(UNITS):
        at = u * C.groups_per_unit * 16
        acc = _add_unit(acc, words[u], xs[2 * u], xs[2 * u + 1], starts[u], sp + at, zp + at, C)
    if C.groups_per_unit == 0:
        acc *= gl.expand_dims(_load_per_row(sp, SUMS, C), 2)
    return acc


@gluon.jit
def _int4_direct_kernel(
    packed,
    scales,
    zeros,
    x,
    out,
    partials,
    counters,
    ROWS,
    TOKENS,
    C: gl.constexpr,
    CHAINED: gl.constexpr,
):
    """Block (row tiles, tokens, split of K); a warp works on its units of 128 columns."""
    TILES: gl.constexpr = C.row_tiles
    DEPTH: gl.constexpr = C.depth
    wp = _weight_pointers(packed, C)
    place = _scale_offsets(C)
    loaded = ()
    if not CHAINED:  # behind the stream of weights the activations would arrive last
        loaded = _load_activations(x, TOKENS, C)
        gdc_wait()  # nothing to wait for: it keeps ptxas from moving loads across
    words = ()  # per row tile, its units in flight
    for r in gl.static_range(DEPTH):
        words = words + (_load_tile(wp, r, C),)
    if CHAINED:  # weights do not depend on the kernel before, activations do
        gdc_wait()
        gdc_launch_dependents()  # behind the wait: see kernels.int4.gemm
        loaded = _load_activations(x, TOKENS, C)
    xs, starts = _operands(loaded, C)
    shared = ()  # one buffer per tile: no barrier between their stores
    for r in gl.static_range(TILES):
        if r + DEPTH < TILES:
            words = words + (_load_tile(wp, r + DEPTH, C),)
        sp = scales + place + r * (C.groups * 16)
        zp = zeros + place + r * (C.groups * 16)
        acc = _sum_tile(words[r], xs, starts, sp, zp, C)
        buffer = gl.allocate_shared_memory(
            gl.float32, [C.warps, 16, C.token_tile], gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
        )
        buffer.store(acc)
        shared = shared + (buffer,)
    gl.thread_barrier()
    y = _sum_over_warps(shared, C)
    _store(y, out, partials, counters, ROWS, TOKENS, C)


def launch(
    config: Int4DirectConfig,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    partials: torch.Tensor,
    counters: torch.Tensor,
    chained: bool,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    zeros = weights.zeros
    _int4_direct_kernel[config.grid(weights, x.shape[0])](
        weights.packed,
        weights.scales,
        weights.scales if zeros is None else zeros,
        x,
        out,
        partials,
        counters,
        weights.rows,
        x.shape[0],
        C=DirectConstants.of(config, weights, x.dtype),
        CHAINED=chained,
        num_warps=config.num_warps,
        launch_pdl=chained,
    )
