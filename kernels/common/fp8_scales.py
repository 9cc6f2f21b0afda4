"""What all fp8 casts share: the largest magnitude as bits, the scale made of it, checks of inputs.

    scale  = max(amax, 1e-12) / largest           largest: 448 of e4m3, 57344 of e5m2
    stored = x * (largest / max(amax, 1e-12))     within one fp32 rounding of x / scale

The floor keeps a row of zeros at zero. A NaN or inf among the values scaled together makes amax NaN
or inf, as `abs().amax()` of torch does: NaN makes all of them NaN, inf makes the finite ones zero
and itself NaN.

e8m0 scales (mxfp8) are 2**e with e = exponent of amax - exponent of largest (floor), or one more
where amax lies above largest * 2**e (ceil), at least -127. A NaN or inf makes its whole block NaN.
"""

import math
from typing import Final

import torch
import triton
import triton.language as tl

LARGEST: Final[dict[torch.dtype, float]] = {
    torch.float8_e4m3fn: 448.0,
    torch.float8_e5m2: 57344.0,
}
ALIGNED: Final = 4  # scales in 16 bytes
_ALIGNED: tl.constexpr = tl.constexpr(ALIGNED)
INPUTS: Final = (torch.bfloat16, torch.float16, torch.float32)
# 1e-12 in fp32, as bits
_FLOOR: tl.constexpr = tl.constexpr(0x2B8CBCCC)
_INFINITY: tl.constexpr = tl.constexpr(0x7F800000)


@triton.jit
def magnitude(x):
    """|x| as the bits of its fp32: ordered as the values are, NaN above infinity."""
    return x.to(tl.float32).to(tl.int32, bitcast=True) & 0x7FFFFFFF


def new_block_scales(rows: int, steps: int, device: torch.device) -> torch.Tensor:
    """[rows, steps] fp32 to be filled, transposed in memory and each column at 16 bytes.

    So the tensor memory unit can bring a column's part to the products of
    kernels.gemm.hopper.staged_scales.
    """
    padded = triton.cdiv(rows, ALIGNED) * ALIGNED
    columns = torch.empty((steps, padded), dtype=torch.float32, device=device)
    return columns.t()[:rows]


@triton.jit
def place_of_block_scale(row, step, ROWS):
    """The offset of a scale in what new_block_scales made."""
    return step * (tl.cdiv(ROWS, _ALIGNED) * _ALIGNED) + row


@triton.jit
def scale_and_factor(bits, LARGEST: tl.constexpr, POWER_OF_TWO: tl.constexpr):
    """(scale, 1 / scale) of the largest magnitudes; a power of two is the next above the scale."""
    amax = tl.maximum(bits, _FLOOR).to(tl.float32, bitcast=True)
    scale = tl.div_rn(amax, LARGEST)
    if POWER_OF_TWO:
        exponent = scale.to(tl.int32, bitcast=True)
        above = (exponent + 0x7FFFFF) & _INFINITY
        scale = tl.where(exponent < _INFINITY, above, exponent).to(tl.float32, bitcast=True)
        factor = tl.div_rn(1.0, scale)
    else:
        factor = tl.div_rn(LARGEST, amax)
    return scale, factor


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


def fill_as_of_zeros(scale: torch.Tensor, largest: float, power_of_two: bool) -> None:
    """Fill fp32 scales with that of no values, or of zeros: what a kernel would have made."""
    if power_of_two:  # the next above
        scale.fill_(math.ldexp(1.0, math.frexp(1e-12 / largest)[1]))
    else:
        scale.fill_(1e-12).div_(largest)


def check_matrix(x: torch.Tensor) -> None:
    """Raises ValueError unless x is a bf16, fp16 or fp32 matrix, rows contiguous, on this GPU."""
    if x.dtype not in INPUTS:
        raise ValueError(f"x: wanted {names_of(INPUTS)}, got {names_of((x.dtype,))}")
    if x.ndim != 2:
        raise ValueError(f"x: wanted a matrix [rows, cols], got shape {tuple(x.shape)}")
    if x.shape[1] > 1 and x.shape[0] > 0 and x.stride(1) != 1:
        raise ValueError(
            f"x: wanted rows without gaps (last stride 1), got strides {x.stride()} of shape "
            f"{tuple(x.shape)}; make it contiguous, or cast its transpose along the other dimension"
        )
    check_device("x", x)


def check_device(name: str, x: torch.Tensor) -> None:
    """Raises ValueError unless x is where a kernel would be launched: on the current GPU, if any.

    A launch on the current GPU that reads another one's memory fails later, and elsewhere.
    """
    if x.is_cuda:
        current = torch.cuda.current_device()
        if x.get_device() != current:
            raise ValueError(
                f"{name}: wanted a tensor on cuda:{current} (the current device, where kernels are "
                f"launched), got one on {x.device}; call it under `with torch.cuda.device("
                f"{name}.device):`"
            )
    elif torch.cuda.is_available():
        raise ValueError(f"{name}: wanted a tensor on the GPU, got one on {x.device}")


def check_values(name: str, scale: torch.Tensor, asked: bool) -> None:
    """Raises ValueError for scales that are NaN, infinite, zero or negative.

    Of a GPU's only where it is `asked` for: it waits for them, which no CUDA graph can capture.
    """
    if scale.is_cuda and not asked:
        return
    wrong = ~((scale > 0) & (scale < math.inf))
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"{name}: wanted finite scales above zero, got {float(scale[tuple(index)])} at index "
            f"{index} of shape {list(scale.shape)}"
        )


def check_target(dtype: torch.dtype, x: torch.Tensor) -> float:
    """The largest finite value of an fp8 type; raises ValueError for one that x's GPU lacks."""
    if dtype not in LARGEST:
        raise ValueError(f"dtype: wanted {names_of(tuple(LARGEST))}, got {names_of((dtype,))}")
    if dtype == torch.float8_e4m3fn and x.is_cuda and torch.version.hip is None:
        capability = torch.cuda.get_device_capability(x.device)
        if capability < (8, 9):
            raise ValueError(
                "dtype: wanted float8_e5m2, got float8_e4m3fn, which a GPU of compute capability "
                f"{capability[0]}.{capability[1]} lacks (8.9 and later have it)"
            )
    return LARGEST[dtype]


def alignment(x: torch.Tensor) -> int:
    """Elements, up to 16, in whose multiples the rows of x begin and end."""
    return math.gcd(16, x.stride(0), x.shape[1])


def compute_units(x: torch.Tensor) -> int:
    """SMs of the tensor's GPU; 1 in Triton's interpreter, which runs programs one after another."""
    if not x.is_cuda:
        return 1
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count)


def names_of(dtypes: tuple[torch.dtype, ...]) -> str:
    """Types as a message says them."""
    return " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
