"""Scales of fp8 values: the largest magnitude as bits, the scale made of it, how scales lie.

    scale  = max(amax, 1e-12) / largest           largest: 448 of e4m3, 57344 of e5m2
    stored = x * (largest / max(amax, 1e-12))     within one fp32 rounding of x / scale

The floor keeps a row of zeros at zero. It is torchao's. Below it the smallest values of a row lose
bits first: at an amax of 1e-15, in e4m3, those below a 29th of it.

A NaN or inf among the values scaled together makes amax NaN or inf, as `abs().amax()` of torch
does: NaN makes all of them NaN, inf makes the finite ones zero and itself NaN.

e8m0 scales (mxfp8) are 2**e with e = exponent of amax - exponent of largest (floor), or one more
where amax lies above largest * 2**e (ceil), at least -127. A NaN or inf makes its whole block NaN.

The device functions serve kernels in Triton and in Gluon: Gluon compiles what it calls as its own.
"""

import math
from typing import Final

import torch
import triton
import triton.language as tl

LARGEST: Final[dict[torch.dtype, float]] = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
# Elements of a scale block along the sum: of mxfp8 (OCP Microscaling Formats 1.0), and of blockwise
# casts, whose squares have as many rows.
MX_BLOCK: Final = 32
BLOCK: Final = 128
SCALES_IN_16_BYTES: Final = 4
_SCALES_IN_16_BYTES: tl.constexpr = tl.constexpr(SCALES_IN_16_BYTES)
_FLOOR: tl.constexpr = tl.constexpr(0x2B8CBCCC)  # 1e-12 in fp32, as bits
_INFINITY: tl.constexpr = tl.constexpr(0x7F800000)


@triton.jit
def magnitude(x):
    """|x| as the bits of its fp32: ordered as the values are, NaN above infinity."""
    return x.to(tl.float32).to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def scale_of_amax(bits, LARGEST: tl.constexpr, POWER_OF_TWO: tl.constexpr):
    """The scale of the largest magnitudes; POWER_OF_TWO rounds it up to one."""
    amax = tl.maximum(bits, _FLOOR).to(tl.float32, bitcast=True)
    scale = tl.div_rn(amax, LARGEST)
    if POWER_OF_TWO:
        exponent = scale.to(tl.int32, bitcast=True)
        above = (exponent + 0x7FFFFF) & _INFINITY
        scale = tl.where(exponent < _INFINITY, above, exponent).to(tl.float32, bitcast=True)
    return scale


@triton.jit
def factor_of_amax(bits, LARGEST: tl.constexpr, POWER_OF_TWO: tl.constexpr):
    """What values are multiplied by: 1 / scale, rounded once."""
    if POWER_OF_TWO:
        return tl.div_rn(1.0, scale_of_amax(bits, LARGEST, True))
    else:  # noqa: RET505 (both branches are traced without it)
        amax = tl.maximum(bits, _FLOOR).to(tl.float32, bitcast=True)
        return tl.div_rn(LARGEST, amax)


@triton.jit
def scale_and_factor(bits, LARGEST: tl.constexpr, POWER_OF_TWO: tl.constexpr):
    """(scale, factor) of the largest magnitudes."""
    scale = scale_of_amax(bits, LARGEST, POWER_OF_TWO)
    return scale, factor_of_amax(bits, LARGEST, POWER_OF_TWO)


@triton.jit
def exponent_and_factor(bits, LARGEST: tl.constexpr, CEIL: tl.constexpr):
    """(byte of the e8m0 scale, 1 / scale) of the largest magnitudes, both exact.

    Both types have the largest value 1.75 * 2**k: ceil adds one where the mantissa of amax is
    above 0.75.
    """
    largest_exponent: tl.constexpr = 8 if LARGEST == 448.0 else 15
    above = 0x1FFFFF if CEIL else 0
    byte = tl.maximum(((bits + above) >> 23) - largest_exponent, 0)
    factor = (254 - byte) << 23
    finite = bits < _INFINITY
    factor = tl.where(finite, factor, 0x7FC00000).to(tl.float32, bitcast=True)
    return tl.where(finite, byte, 255).to(tl.uint8), factor


def fill_with_scale_of_zeros(scale: torch.Tensor, largest: float, power_of_two: bool) -> None:
    """Fill fp32 scales with what a kernel makes of zeros, and of no values at all."""
    if power_of_two:
        scale.fill_(math.ldexp(1.0, math.frexp(1e-12 / largest)[1]))  # the next power above
    else:
        scale.fill_(1e-12).div_(largest)


def new_block_scales(rows: int, steps: int, device: torch.device) -> torch.Tensor:
    """Empty fp32 scales [rows, steps] per 1x128, transposed in memory, each column at 16 bytes.

    This is how the tensor memory unit reads them in kernels.gemm.hopper.staged_scales.
    """
    padded = padded_block_scales(rows)
    columns = torch.empty((steps, padded), dtype=torch.float32, device=device)
    return columns.t()[:rows]


def padded_block_scales(rows: int) -> int:
    """Elements between the columns of new_block_scales; rows may be a symbolic size."""
    return -(-rows // SCALES_IN_16_BYTES) * SCALES_IN_16_BYTES


@triton.jit
def offset_of_block_scale(row, step, ROWS):
    """The offset of a scale in what new_block_scales returned."""
    padded = tl.cdiv(ROWS, _SCALES_IN_16_BYTES) * _SCALES_IN_16_BYTES
    return tl.cast(step, tl.int64) * padded + row


def in_aligned_columns(scales: torch.Tensor) -> torch.Tensor:
    """Scales [rows, steps] that lie as those of new_block_scales do; a copy of others.

    The tensor memory unit needs it: the innermost coordinate of a box has to be a multiple of 16
    bytes, which no compiler checks (triton-lang/triton, issue 7385 and
    python/tutorials/gluon/04-tma.py). Another coordinate is an illegal instruction.
    """
    rows, steps = scales.shape
    has_aligned_columns = steps == 1 or scales.stride(1) % SCALES_IN_16_BYTES == 0
    if scales.stride(0) == 1 and has_aligned_columns and scales.data_ptr() % 16 == 0:
        return scales
    return new_block_scales(rows, steps, scales.device).copy_(scales)
