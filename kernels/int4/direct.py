"""Int4 product for few tokens on sm_90: weights go from memory straight into the matrix unit.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T      tokens 1 .. 16 a block

The warps of a block split K, not the rows: each keeps its slice of the activations in registers
and streams the weights of tile after tile past it. A lane's 16-byte load is already its operand of
four products (int4_packing), so a weight costs shifts, one lop3 and the product, nothing else.

Removing the zero point, cheapest way first (`REMOVE`):
    CHAIN   bf16, symmetric: the weights stay at 128 + q, and -136 * sum(x) of the group is where
            the sum of its products starts, in fp32
    CENTRE  q - 8 by a packed subtraction of a constant
    ZEROS   q - zero by a packed subtraction of (base + zero) of the row and group
"""
# mypy: disable-error-code="assignment,misc,has-type,no-redef,var-annotated,index"

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.int4 import asm, layouts, plans
from kernels.int4.configs import Int4DirectConfig
from kernels.int4.finish import finish
from kernels.int4.packing import Int4Weights
from kernels.int4.workspace import Workspace

CHAIN: gl.constexpr = gl.constexpr(plans.CHAIN)
CENTRE: gl.constexpr = gl.constexpr(plans.CENTRE)
ZEROS: gl.constexpr = gl.constexpr(plans.ZEROS)


@gluon.jit
def _dequantised(words, REMOVE: gl.constexpr, T: gl.constexpr):
    """Bytes of a unit -> (columns of h = 0, columns of h = 1), q - 8 or base + q, in blob order."""
    if gl.bfloat16 == T:
        TEXT: gl.constexpr = asm.BF16_CENTRED if REMOVE == CENTRE else asm.BF16_RAISED
        both = gl.inline_asm_elementwise(
            TEXT, asm.CONSTRAINTS, [words], dtype=asm.BF16_PAIR, is_pure=True, pack=4
        )
    else:
        TEXT: gl.constexpr = asm.FP16_CENTRED if REMOVE == CENTRE else asm.FP16_RAISED
        both = gl.inline_asm_elementwise(
            TEXT, asm.CONSTRAINTS, [words], dtype=asm.FP16_PAIR, is_pure=True, pack=4
        )
    return both


@gluon.jit
def _operand(v, W: gl.constexpr, LA: gl.constexpr):
    """[warp, blob order of 16 x 64] -> [warp, 16 rows, 64]: lane 4*g + s takes the part of s."""
    v = gl.reshape(v, (W, 2, 8, 4, 2, 2, 2, 2))  # half, g, s, w high, w low, b, i
    v = gl.permute(v, (0, 6, 2, 1, 4, 5, 3, 7))  # b, g | half, w high, w low, s, i
    return gl.convert_layout(gl.reshape(v, (W, 16, 64)), LA, assert_trivial=True)


@gluon.jit
def _activations(v, W: gl.constexpr, NT: gl.constexpr, LB: gl.constexpr):
    """[token, warp, 64] -> [warp, 64, token] with the columns in the order of `_operand`."""
    v = gl.reshape(v, (NT, W, 4, 2, 2, 2, 2))  # s, half, w high, w low, i
    v = gl.permute(v, (1, 3, 4, 5, 2, 6, 0))
    return gl.convert_layout(gl.reshape(v, (W, 64, NT)), LB, assert_trivial=True)


@gluon.jit
def _of_group(v, SECOND: gl.constexpr, LB: gl.constexpr):
    """Activations [warp, 64, token] with zeros in the columns of the other group of 32.

    Both groups lie in every product: the columns of a lane are contiguous, and its s says which.
    """
    position = gl.arange(0, 64, gl.SliceLayout(0, gl.SliceLayout(2, LB)))
    s = position // 2 % 4
    inside = (s >= 2) if SECOND else (s < 2)
    mask = gl.where(inside, -1, 0).to(gl.int16)[None, :, None]
    return gl.inline_asm_elementwise(
        asm.MASK, "=r,r,r", [v, mask], dtype=v.dtype, is_pure=True, pack=2
    )


@gluon.jit
def _per_row(pointer, W: gl.constexpr, LAYOUT: gl.constexpr):
    """Scales or zeros [warp, 16 packed] -> [warp, 16 rows], fp32."""
    v = gl.reshape(gl.permute(gl.reshape(gl.load(pointer), (W, 8, 2)), (0, 2, 1)), (W, 16))
    return gl.convert_layout(v, LAYOUT, assert_trivial=True).to(gl.float32)


@gluon.jit
def _less_zeros(v, pointer, T: gl.constexpr, W: gl.constexpr, LA: gl.constexpr):
    """base + q -> q - zero of the row, exactly."""
    BASE: gl.constexpr = asm.BF16_BASE if gl.bfloat16 == T else asm.FP16_BASE
    TEXT: gl.constexpr = asm.BF16_SUBTRACT if gl.bfloat16 == T else asm.FP16_SUBTRACT
    raised = (_per_row(pointer, W, gl.SliceLayout(2, LA)) + BASE).to(T)
    zero = gl.expand_dims(raised, 2)
    return gl.inline_asm_elementwise(TEXT, "=r,r,r", [v, zero], dtype=v.dtype, is_pure=True, pack=2)


@gluon.jit
def _tile_unit(
    acc, words, x_lo, x_hi, sums, sp, zp,
    PER: gl.constexpr, REMOVE: gl.constexpr, W: gl.constexpr, NT: gl.constexpr, mma: gl.constexpr,
):  # fmt: skip
    """acc + the products of one unit per warp; PER groups per unit, 0 for one scale per row."""
    LA: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    LB: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    ROW: gl.constexpr = gl.SliceLayout(2, mma)
    T: gl.constexpr = x_lo.dtype
    lo, hi = _dequantised(words, REMOVE, T)
    lo = _operand(lo, W, LA)
    hi = _operand(hi, W, LA)
    if PER == 4:
        none = gl.zeros((W, 16, NT), gl.float32, mma)
        for j in gl.static_range(4):
            part = lo if j < 2 else hi
            x = _of_group(x_lo if j < 2 else x_hi, j % 2 == 1, LB)
            if REMOVE == ZEROS:
                part = _less_zeros(part, zp + 16 * j, T, W, LA)
            scale = gl.expand_dims(_per_row(sp + 16 * j, W, ROW), 2)
            acc += mma_v2(part, x, none) * scale
    else:
        if REMOVE == ZEROS:
            lo = _less_zeros(lo, zp, T, W, LA)
            hi = _less_zeros(hi, zp + (16 if PER == 2 else 0), T, W, LA)
        if PER == 0:
            acc = mma_v2(hi, x_hi, mma_v2(lo, x_lo, acc))
        elif PER == 1:
            scale = gl.expand_dims(_per_row(sp, W, ROW), 2)
            acc += mma_v2(hi, x_hi, mma_v2(lo, x_lo, sums[0])) * scale
        else:
            scale = gl.expand_dims(_per_row(sp, W, ROW), 2)
            acc += mma_v2(lo, x_lo, sums[0]) * scale
            scale = gl.expand_dims(_per_row(sp + 16, W, ROW), 2)
            acc += mma_v2(hi, x_hi, sums[1]) * scale
    return acc


@gluon.jit
def _starts(
    x_lo, x_hi, PER: gl.constexpr, REMOVE: gl.constexpr, W: gl.constexpr, NT: gl.constexpr,
    mma: gl.constexpr,
):  # fmt: skip
    """Where the sums of a unit's groups start: -136 * sum(x) of the group, or zero.

    The sum comes from the matrix unit too, as a product with ones.
    """
    none = gl.zeros((W, 16, NT), gl.float32, mma)
    if REMOVE == CHAIN:
        ones = gl.full((W, 16, 64), 1.0, x_lo.dtype, gl.DotOperandLayout(0, mma, 2))
        if PER == 2:
            result = (mma_v2(ones, x_lo, none) * -136.0, mma_v2(ones, x_hi, none) * -136.0)
        else:
            result = (mma_v2(ones, x_hi, mma_v2(ones, x_lo, none)) * -136.0,)
    elif PER == 2:
        result = (none, none)
    else:
        result = (none,)
    return result


@gluon.jit
def _load_activations(
    x, TOKENS, K: gl.constexpr, U: gl.constexpr, W: gl.constexpr, NT: gl.constexpr,
):  # fmt: skip
    """U units of every warp's slice of K, (h 0, h 1) of each, as loaded: [token, warp, 64]."""
    L: gl.constexpr = layouts.direct_activations(W, NT)
    token = gl.program_id(1) * NT + gl.arange(0, NT, gl.SliceLayout(1, gl.SliceLayout(2, L)))
    warp = gl.arange(0, W, gl.SliceLayout(0, gl.SliceLayout(2, L)))
    column = gl.arange(0, 64, gl.SliceLayout(0, gl.SliceLayout(1, L)))
    first = (gl.program_id(2) * W + warp) * (U * 128)
    offsets = token[:, None, None] * K + first[None, :, None] + column[None, None, :]
    inside = (token < TOKENS)[:, None, None] & (offsets >= 0)
    loaded = ()
    for u in gl.static_range(U):
        loaded = loaded + (gl.load(x + offsets + u * 128, mask=inside, other=0.0),)
        loaded = loaded + (gl.load(x + offsets + u * 128 + 64, mask=inside, other=0.0),)
    return loaded


@gluon.jit
def _load_tile(pointer, tile: gl.constexpr, K: gl.constexpr, U: gl.constexpr):
    """The packed words of a row tile, U units of every warp, as a tuple."""
    loaded = ()
    for u in gl.static_range(U):
        place = pointer + (tile * (K // 128) + u) * 1024
        loaded = loaded + (gl.load(place, eviction_policy="evict_first"),)
    return loaded


@gluon.jit
def _gathered(
    shared, R: gl.constexpr, RP: gl.constexpr, W: gl.constexpr, NT: gl.constexpr,
):  # fmt: skip
    """The row tiles' sums over warps, in order of the warps, as one [16 * RP, token]."""
    PARTS: gl.constexpr = layouts.direct_partials(W, NT)
    t = ()
    for r in gl.static_range(R):
        t = t + (gl.sum(shared[r].load(PARTS), 0),)
    for _r in gl.static_range(R, RP):
        t = t + (t[0],)  # masked in the store
    if RP == 1:
        y = t[0]
    elif RP == 2:
        y = gl.permute(gl.join(t[0], t[1]), (2, 0, 1))
    elif RP == 4:
        y = gl.join(gl.join(t[0], t[1]), gl.join(t[2], t[3]))
        y = gl.permute(y, (3, 2, 0, 1))
    else:
        low = gl.join(gl.join(t[0], t[1]), gl.join(t[2], t[3]))
        high = gl.join(gl.join(t[4], t[5]), gl.join(t[6], t[7]))
        y = gl.permute(gl.join(low, high), (4, 3, 2, 0, 1))
    return gl.convert_layout(gl.reshape(y, (16 * RP, NT)), layouts.direct_output(W, NT, RP))


@gluon.jit
def _finish(
    y, out, partials, counters, ROWS, TOKENS, R: gl.constexpr, RP: gl.constexpr,
    W: gl.constexpr, NT: gl.constexpr, SPLIT: gl.constexpr,
):  # fmt: skip
    """Store the block's sums [16 * RP, token]."""
    L: gl.constexpr = layouts.direct_output(W, NT, RP)
    row = gl.arange(0, 16 * RP, gl.SliceLayout(1, L))
    lane = gl.arange(0, NT, gl.SliceLayout(0, L))
    token = gl.program_id(1) * NT + lane
    rows = gl.program_id(0) * (16 * R) + row
    target = out + token[None, :] * ROWS + rows[:, None]
    inside = (token < TOKENS)[None, :] & ((row < 16 * R) & (rows < ROWS))[:, None]
    place = lane[None, :] * (16 * RP) + row[:, None]
    finish(y, place, target, inside, partials, counters, 16 * RP * NT, SPLIT)


@gluon.jit
def _weight_pointers(packed, R: gl.constexpr, K: gl.constexpr, U: gl.constexpr, W: gl.constexpr):
    """Where each warp's first unit of the block's first row tile lies."""
    L: gl.constexpr = layouts.direct_words(W)
    warp = gl.arange(0, W, gl.SliceLayout(1, L))
    byte = gl.arange(0, 1024, gl.SliceLayout(0, L))
    unit = (gl.program_id(0) * R) * (K // 128) + gl.program_id(2) * (W * U)
    return packed + unit.to(gl.int64) * 1024 + (warp[:, None] * (U * 1024) + byte[None, :])


@gluon.jit
def _scale_offsets(
    G: gl.constexpr, R: gl.constexpr, PER: gl.constexpr, U: gl.constexpr, W: gl.constexpr
):
    """Offsets of each warp's first scales of the block's first row tile; G groups of a row."""
    L: gl.constexpr = layouts.direct_scales(W)
    warp = gl.arange(0, W, gl.SliceLayout(1, L))
    entry = gl.arange(0, 16, gl.SliceLayout(0, L))
    group = (gl.program_id(0) * R) * G + gl.program_id(2) * (W * U * PER)
    return group * 16 + (warp[:, None] * (U * PER * 16) + entry[None, :])


@gluon.jit
def _operands(
    loaded, U: gl.constexpr, PER: gl.constexpr, REMOVE: gl.constexpr, W: gl.constexpr,
    NT: gl.constexpr, mma: gl.constexpr,
):  # fmt: skip
    """Loaded activations -> (operands of every unit, h 0 and h 1; where its sums start)."""
    LB: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    xs = ()
    starts = ()
    for u in gl.static_range(U):
        lo = _activations(loaded[2 * u], W, NT, LB)
        hi = _activations(loaded[2 * u + 1], W, NT, LB)
        xs = xs + (lo, hi)
        starts = starts + (_starts(lo, hi, PER, REMOVE, W, NT, mma),)
    return xs, starts


@gluon.jit
def _tile_sum(
    words, xs, starts, sp, zp, PER: gl.constexpr, REMOVE: gl.constexpr, U: gl.constexpr,
    W: gl.constexpr, NT: gl.constexpr, mma: gl.constexpr,
):  # fmt: skip
    """Sums [warp, 16 rows, token] of a row tile over the U units of each warp."""
    acc = gl.zeros((W, 16, NT), gl.float32, mma)
    if PER == 0:
        for u in gl.static_range(U):
            acc += starts[u][0]
    for u in gl.static_range(U):
        x_lo = xs[2 * u]
        x_hi = xs[2 * u + 1]
        at = u * PER * 16
        acc = _tile_unit(
            acc, words[u], x_lo, x_hi, starts[u], sp + at, zp + at, PER, REMOVE, W, NT, mma
        )  # fmt: skip
    if PER == 0:
        acc *= gl.expand_dims(_per_row(sp, W, gl.SliceLayout(2, mma)), 2)
    return acc


@gluon.jit
def _int4_direct_kernel(
    packed, scales, zeros, x, out, partials, counters, ROWS, TOKENS,
    K: gl.constexpr, PER: gl.constexpr, REMOVE: gl.constexpr, R: gl.constexpr, RP: gl.constexpr,
    NT: gl.constexpr, SPLIT: gl.constexpr, U: gl.constexpr, DEPTH: gl.constexpr,
    CHAINED: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """Block (rows of R tiles, NT tokens, split of K); a warp works on U units of 128 columns."""
    W: gl.constexpr = num_warps
    G: gl.constexpr = PER * (K // 128) if PER > 0 else 1  # groups of a row
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [W, 1, 1], [1, 16, 8])
    wp = _weight_pointers(packed, R, K, U, W)
    place = _scale_offsets(G, R, PER, U, W)
    loaded = ()
    if not CHAINED:  # behind the stream of weights the activations would arrive last
        loaded = _load_activations(x, TOKENS, K, U, W, NT)
        gdc_wait()  # nothing to wait for: it keeps ptxas from moving loads across
    words = ()  # per row tile, its units in flight
    for r in gl.static_range(DEPTH):
        words = words + (_load_tile(wp, r, K, U),)
    if CHAINED:  # weights do not depend on the kernel before, activations do
        gdc_launch_dependents()
        gdc_wait()
        loaded = _load_activations(x, TOKENS, K, U, W, NT)
    xs, starts = _operands(loaded, U, PER, REMOVE, W, NT, mma)
    shared = ()  # one buffer per tile: no barrier between their stores
    for r in gl.static_range(R):
        if r + DEPTH < R:
            words = words + (_load_tile(wp, r + DEPTH, K, U),)
        sp = scales + place + r * (G * 16)
        zp = zeros + place + r * (G * 16)
        acc = _tile_sum(words[r], xs, starts, sp, zp, PER, REMOVE, U, W, NT, mma)
        buffer = gl.allocate_shared_memory(
            gl.float32, [W, 16, NT], gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
        )
        buffer.store(acc)
        shared = shared + (buffer,)
    gl.thread_barrier()
    y = _gathered(shared, R, RP, W, NT)
    _finish(y, out, partials, counters, ROWS, TOKENS, R, RP, W, NT, SPLIT)


def launch(
    config: Int4DirectConfig,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    workspace: Workspace,
    chained: bool,
) -> None:
    """Write the product to out [tokens, rows]; arguments are those that int4_gemm has checked."""
    compiled_for = plans.direct_constants(
        config, weights.k, weights.group, x.dtype, weights.zeros is not None
    )
    _int4_direct_kernel[plans.grid(config, weights, x.shape[0])](
        weights.packed,
        weights.scales,
        weights.scales if weights.zeros is None else weights.zeros,
        x,
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
