"""What the int4 kernels for Hopper share: how weights come, become floats, and how sums meet.

Boxes that the tensor memory unit brings, and the order in which a lane's words are its part of an
operand: kernels.int4.staged and kernels.int4.specialised multiply in that order.

Dequantisation in PTX: four weights each for h = 0 and h = 1, as bf16 or fp16. `(word & 0x000f000f)
| magic` makes two floats of value base + q in one instruction (lop3): bf16 0x4300 is 128 and its
last bits count ones; fp16 0x6400 is 1024, likewise. A zero point of 8 is removed by one packed
subtraction of base + 8, exactly; or not here at all, see kernels.int4.direct.

Blocks that sum parts of K of the same tile (`finish`): the last one to arrive adds all, in order.
No float is added by an atomic, so equal inputs give equal bits. Counters end at zero, as they
began. They and the sums belong to a product of one stream (kernels.common.counters), and are
touched only after the kernel before it has ended, by chained launches too.
"""
# mypy: disable-error-code="no-redef"

from typing import Final

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.int4.rule import UNIT_ROWS

WORDS_LAYOUT = gl.NVMMASharedLayout(128, 8, 4)


@gluon.jit
def operand(v, LEFT: gl.constexpr, ROWS: gl.constexpr):
    """Blob order [rows / 2, 128] -> [rows, 64 columns] in their natural order."""
    v = gl.reshape(v, (ROWS // 16, 2, 8, 4, 4, 2, 2))  # row tile, half, g, s, w, b, i
    v = gl.permute(v, (0, 5, 2, 3, 1, 4, 6))  # row tile, b, g | s, half, w, i
    return gl.convert_layout(gl.reshape(v, (ROWS, 64)), LEFT, assert_trivial=True)


@gluon.jit
def in_rows(v, LAYOUT: gl.constexpr, ROWS: gl.constexpr):
    """Scales or zeros in packed order [rows] -> [rows] along the rows of LAYOUT, in their type."""
    v = gl.reshape(gl.permute(gl.reshape(v, (ROWS // 16, 8, 2)), (0, 2, 1)), (ROWS,))
    return gl.convert_layout(v, gl.SliceLayout(1, LAYOUT), assert_trivial=True)


def words_descriptor(packed: torch.Tensor, units: int, rows: int) -> TensorDescriptor:
    """Packed weights as [unit, row tile, 8, 128 bytes], in boxes of so many units and rows."""
    tiles, all_units = packed.shape[:2]
    block = [units, rows // UNIT_ROWS, 8, 128]
    strides = [1024, all_units * 1024, 128, 1]
    return TensorDescriptor(packed, [all_units, tiles, 8, 128], strides, block, WORDS_LAYOUT)


def activations_descriptor(
    x: torch.Tensor, slices: int, tokens: int, columns: int
) -> TensorDescriptor:
    """Activations as [slice, token, columns of a slice], in boxes of so many slices and tokens.

    Rows of a slice lie in shared memory swizzled over their width.
    """
    rows, k = x.shape
    layout = gl.NVMMASharedLayout(2 * columns, 16, 3)
    shape = [k // columns, rows, columns]
    return TensorDescriptor(x, shape, [columns, k, 1], [slices, tokens, columns], layout)


def scales_descriptor(scales: torch.Tensor, rows: int) -> TensorDescriptor:
    """Scales or zeros [row tile, group, 16] as [row tile, 16 of each group], in boxes of one group.

    A box lies in shared memory as its rows follow each other in packed order.
    """
    tiles, groups, entries = scales.shape
    layout = gl.NVMMASharedLayout(0, 16, 2)
    shape, strides = [tiles, groups * entries], [groups * entries, 1]
    return TensorDescriptor(scales, shape, strides, [rows // UNIT_ROWS, entries], layout)


_LOP3: Final = """{{ .reg .b32 t1, t2, t3;
shr.u32 t1, $4, 4; shr.u32 t2, $4, 8; shr.u32 t3, $4, 12;
lop3.b32 $0, $4, 0x000f000f, {magic}, 0xea; lop3.b32 $1, t1, 0x000f000f, {magic}, 0xea;
lop3.b32 $2, t2, 0x000f000f, {magic}, 0xea; lop3.b32 $3, t3, 0x000f000f, {magic}, 0xea;
{rest} }}"""
_CENTRE: Final = """.reg .b32 z; mov.b32 z, {bias};
{sub} $0, $0, z; {sub} $1, $1, z; {sub} $2, $2, z; {sub} $3, $3, z;"""


def _text(magic: str, sub: str = "", bias: str = "") -> gl.constexpr:
    rest = _CENTRE.format(sub=sub, bias=bias) if sub else ""
    return gl.constexpr(_LOP3.format(magic=magic, rest=rest))


# base + q
BF16_RAISED: Final = _text("0x43004300")
FP16_RAISED: Final = _text("0x64006400")
# q - 8
BF16_CENTRED: Final = _text("0x43004300", "sub.rn.bf16x2", "0x43084308")
FP16_CENTRED: Final = _text("0x64006400", "sub.f16x2", "0x64086408")
# a - b of two packed values each
BF16_SUBTRACT: Final = gl.constexpr("sub.rn.bf16x2 $0, $1, $2;")
FP16_SUBTRACT: Final = gl.constexpr("sub.f16x2 $0, $1, $2;")
# a * b of two packed values each
BF16_MULTIPLY: Final = gl.constexpr("mul.rn.bf16x2 $0, $1, $2;")
FP16_MULTIPLY: Final = gl.constexpr("mul.rn.f16x2 $0, $1, $2;")
BF16_BASE: Final = gl.constexpr(128.0)
FP16_BASE: Final = gl.constexpr(1024.0)
# four packed outputs, one word in
CONSTRAINTS: Final = gl.constexpr("=&r,=&r,=&r,=&r,r")
_BF16_PAIR: Final = gl.constexpr((gl.bfloat16, gl.bfloat16))
_FP16_PAIR: Final = gl.constexpr((gl.float16, gl.float16))


@gluon.jit
def dequantised(words, RAISED: gl.constexpr, T: gl.constexpr):
    """Packed bytes -> (columns of h = 0, columns of h = 1) in type T, in their order.

    RAISED: base + q, exactly; else q - 8.
    """
    BF16_TEXT: gl.constexpr = BF16_RAISED if RAISED else BF16_CENTRED
    FP16_TEXT: gl.constexpr = FP16_RAISED if RAISED else FP16_CENTRED
    TEXT: gl.constexpr = BF16_TEXT if gl.bfloat16 == T else FP16_TEXT
    PAIR: gl.constexpr = _BF16_PAIR if gl.bfloat16 == T else _FP16_PAIR
    return gl.inline_asm_elementwise(TEXT, CONSTRAINTS, [words], dtype=PAIR, is_pure=True, pack=4)


@gluon.jit
def less_zeros(v, zeros, AXIS: gl.constexpr, T: gl.constexpr):
    """base + q -> q - zero, exactly; zeros in fp32, the same along AXIS of v."""
    BASE: gl.constexpr = BF16_BASE if gl.bfloat16 == T else FP16_BASE
    TEXT: gl.constexpr = BF16_SUBTRACT if gl.bfloat16 == T else FP16_SUBTRACT
    raised = gl.expand_dims((zeros + BASE).to(T), AXIS)
    return gl.inline_asm_elementwise(
        TEXT, "=r,r,r", [v, raised], dtype=v.dtype, is_pure=True, pack=2
    )


@gluon.jit
def scaled(v, scales, T: gl.constexpr):
    """v [rows, columns] times a scale per row, rounded to type T, which both have."""
    TEXT: gl.constexpr = BF16_MULTIPLY if gl.bfloat16 == T else FP16_MULTIPLY
    by = gl.expand_dims(scales, 1)
    return gl.inline_asm_elementwise(TEXT, "=r,r,r", [v, by], dtype=v.dtype, is_pure=True, pack=2)


@gluon.jit
def finish(y, place, target, inside, partials, counters, SIZE: gl.constexpr, SPLIT: gl.constexpr):
    """Store y to `target` where `inside`; y is a part of the sum where SPLIT is above 1.

    place   offset of each element in a block's part of `partials`, SIZE elements
    """
    if SPLIT == 1:
        gl.store(target, y.to(target.dtype.element_ty), mask=inside)
    else:
        block = gl.program_id(0) * gl.num_programs(1) + gl.program_id(1)
        own = partials + block.to(gl.int64) * (SPLIT * SIZE) + place
        gl.store(own + gl.program_id(2) * SIZE, y)
        gl.thread_barrier()
        arrived = gl.atomic_add(counters + block, 1, sem="acq_rel", scope="gpu")
        if arrived == SPLIT - 1:
            total = gl.load(own, cache_modifier=".cg")
            if SIZE <= 8192:  # all loads in flight at once
                for other in gl.static_range(1, SPLIT):
                    total += gl.load(own + other * SIZE, cache_modifier=".cg")
            else:  # there are no registers for that
                for other in range(1, SPLIT):
                    total += gl.load(own + other * SIZE, cache_modifier=".cg")
            gl.store(target, total.to(target.dtype.element_ty), mask=inside)
            gl.store(counters + block, 0)
