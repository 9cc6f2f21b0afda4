"""Dequantisation of packed weights in PTX: four weights each for h = 0 and h = 1, as bf16 or fp16.

`(word & 0x000f000f) | magic` makes two floats of value base + q in one instruction (lop3): bf16
0x4300 is 128 and its last bits count ones; fp16 0x6400 is 1024, likewise. A zero point of 8 is
removed by one packed subtraction of base + 8, exactly; or not here at all, see kernels.int4.direct.
"""

from typing import Final

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

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
