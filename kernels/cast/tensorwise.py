"""The cast of a matrix to fp8 with one scale.

    tensorwise     q [rows, cols]   scale []     x read twice; once with its scale or largest
                                                 magnitude given

Shapes: x [rows, cols] bf16, fp16 or fp32 with contiguous rows; q e4m3 or e5m2, contiguous; scale
fp32. The value that q stands for is q * scale. Arithmetic: kernels.common.fp8_scales. Offsets of
rows are 64 bit.

The first pass takes the largest magnitude. The second one casts, and walks backwards, because the
end of x is what the first pass left in the cache.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl

from kernels.cast.tiles import Cast, like_casts
from kernels.common.architecture import compute_units
from kernels.common.checks import check_matrix, check_scale_values, largest_fp8_value
from kernels.common.fp8_scales import magnitude, scale_and_factor
from kernels.common.operators import operator


@dataclass(frozen=True, slots=True, kw_only=True)
class PassConfig:
    """How a pass over all elements is cut: programs of `steps` blocks of `block` elements."""

    block: int
    num_warps: int
    steps: int = 1


# Chosen on an H200 among variants, with 8192^2 and 16384^2 bf16; times are of those two, in us.
# 8 programs per multiprocessor with blocks of 4096 beat 4 with 8192: 86.1 and 327 against 87.9 and
# 332, of both passes.
AMAX: Final = PassConfig(block=4096, num_warps=8)
AMAX_PROGRAMS_PER_UNIT: Final = 8
# With a given scale one load of 16 bytes per thread takes 50.3 and 194; as CAST_WITH_MAXIMA it
# takes 53.0 and 203. That one has few programs, because each reads all partial maxima.
CAST_WITH_SCALE: Final = PassConfig(block=1024, num_warps=4)
CAST_WITH_MAXIMA: Final = PassConfig(block=4096, steps=4, num_warps=8)


@triton.jit
def _offset(index, COLS, STRIDE, STRIDED: tl.constexpr):
    """Offset of the index-th element of a matrix, in the order of its rows."""
    if STRIDED:
        return (index // COLS).to(tl.int64) * STRIDE + index % COLS
    else:  # noqa: RET505 (both branches are traced without it)
        return index


@triton.jit
def _saturated(values, factor, LARGEST: tl.constexpr):
    scaled = values.to(tl.float32) * factor
    return tl.clamp(scaled, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _amax_kernel(
    x, partial, COUNT, COLS, STRIDE, STRIDED: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr
):
    """Each program: largest magnitude (bits) of every num_programs-th block.

    TAIL: elements beyond the last multiple of 16 are read separately, because a mask that ends
    elsewhere narrows every access to one element.
    """
    largest = tl.zeros((BLOCK,), dtype=tl.int32)
    whole = COUNT // 16 * 16 if TAIL else COUNT
    lanes = tl.arange(0, BLOCK)
    # A COUNT below 2^31 comes as 32 bits, which the next multiple of BLOCK may not fit into.
    blocks = tl.cdiv(tl.cast(COUNT, tl.int64), BLOCK)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        index = block * BLOCK + lanes
        inside = index < whole
        values = tl.load(x + _offset(index, COLS, STRIDE, STRIDED), mask=inside, other=0.0)
        largest = tl.maximum(largest, magnitude(values))
    bits = tl.max(largest, axis=0)
    if TAIL:
        index = whole.to(tl.int64) + tl.arange(0, 16)
        source = x + _offset(index, COLS, STRIDE, STRIDED)
        values = tl.load(source, mask=index < COUNT, other=0.0)
        bits = tl.maximum(bits, tl.max(magnitude(values), axis=0))
    tl.store(partial + tl.program_id(0), bits)


@triton.jit
def _cast_kernel(
    x,
    q,
    scale,
    partial,
    COUNT,
    COLS,
    STRIDE,
    PARTIALS,
    STRIDED: tl.constexpr,
    TAIL: tl.constexpr,
    GIVEN: tl.constexpr,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    MOST_PARTIALS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """STEPS blocks per program, the last one first.

    GIVEN: the scale is read; otherwise it is made of the partial maxima. TAIL as in _amax_kernel.
    """
    if GIVEN:
        factor = tl.div_rn(1.0, tl.load(scale))
    else:
        maxima = tl.arange(0, MOST_PARTIALS)
        # A given amax may be a NaN with a sign.
        bits = tl.load(partial + maxima, mask=maxima < PARTIALS, other=0) & 0x7FFFFFFF
        made_scale, factor = scale_and_factor(tl.max(bits, axis=0), LARGEST, POWER_OF_TWO)
        if tl.program_id(0) == 0:
            tl.store(scale, made_scale)
    whole = COUNT // 16 * 16 if TAIL else COUNT
    lanes = tl.arange(0, BLOCK)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64) * (STEPS * BLOCK)
    for step in range(STEPS):
        index = first + (STEPS - 1 - step) * BLOCK + lanes
        inside = index < whole
        source = x + _offset(index, COLS, STRIDE, STRIDED)
        values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
        cast = _saturated(values, factor, LARGEST).to(q.dtype.element_ty)
        tl.store(q + index, cast, mask=inside)
    if TAIL:  # noqa: SIM102 (one is decided by the compiler)
        if tl.program_id(0) == 0:
            index = whole.to(tl.int64) + tl.arange(0, 16)
            values = tl.load(
                x + _offset(index, COLS, STRIDE, STRIDED), mask=index < COUNT, other=0.0
            )
            cast = _saturated(values, factor, LARGEST).to(q.dtype.element_ty)
            tl.store(q + index, cast, mask=index < COUNT)


@operator(like_casts("tensorwise"))
def tensorwise(
    x: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    scale: torch.Tensor | None = None,
    amax: torch.Tensor | None = None,
    power_of_two: bool = False,
    check_values: bool = False,
    units: int | None = None,
) -> Cast:
    """(q [rows, cols], scale []): q = x / scale, saturated at the largest fp8 value.

    Args:
        x: bf16, fp16 or fp32 matrix with contiguous rows.
        dtype: float8_e4m3fn or float8_e5m2.
        scale: fp32, one positive value on x's device, used as it is; None: it is made from x.
        amax: fp32, the largest magnitude of x, if it is known; it spares a pass over x.
        power_of_two: round a scale that is made from x up to a power of two.
        check_values: refuse a given scale that is NaN, infinite, zero or negative. On a GPU this
            waits, and a CUDA graph cannot capture it; on a CPU such a scale is always refused.
        units: as of kernels.common.architecture.compute_units, of the pass that finds the amax.

    Raises:
        ValueError: for inputs that kernels.common.checks refuses, a scale or amax of another kind,
            or both of them.
    """
    check_matrix(x, of_any_size=True)
    largest = largest_fp8_value(dtype, x)
    if scale is not None:
        _check_scale(scale, x, power_of_two, amax)
        check_scale_values("scale", scale, wait=check_values)
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    how = CAST_WITH_MAXIMA if scale is None else CAST_WITH_SCALE
    partial = maxima_of(x, amax, units) if scale is None else None
    partials = 0 if partial is None else partial.numel()
    written = scale if scale is not None else torch.empty((), dtype=torch.float32, device=x.device)
    _cast_kernel[(max(1, triton.cdiv(x.numel(), how.steps * how.block)),)](
        x,
        q,
        written,
        partial,
        *_sizes(x),
        partials,
        STRIDED=not x.is_contiguous(),
        TAIL=x.numel() % 16 != 0,
        GIVEN=scale is not None,
        LARGEST=largest,
        POWER_OF_TWO=power_of_two,
        MOST_PARTIALS=triton.next_power_of_2(max(1, partials)),
        STEPS=how.steps,
        BLOCK=how.block,
        num_warps=how.num_warps,
    )
    return q, written.reshape(())


def maxima_of(x: torch.Tensor, amax: torch.Tensor | None, units: int | None = None) -> torch.Tensor:
    """Bits of magnitudes of x, the largest among them: int32 [count], or [1] of a known amax.

    Raises ValueError for an amax that is not one fp32 on x's device.
    """
    if amax is None:
        return partial_maxima(x, units)
    check_single("amax", amax, x)
    return amax.reshape(1).view(torch.int32)


def partial_maxima(x: torch.Tensor, units: int | None = None) -> torch.Tensor:
    """Bits of the largest magnitude that each program saw, int32 [programs]."""
    most = AMAX_PROGRAMS_PER_UNIT * compute_units(x, units)
    programs = max(1, min(triton.cdiv(x.numel(), AMAX.block), most))
    partial = torch.empty(programs, dtype=torch.int32, device=x.device)
    _amax_kernel[(programs,)](
        x,
        partial,
        *_sizes(x),
        STRIDED=not x.is_contiguous(),
        TAIL=x.numel() % 16 != 0,
        BLOCK=AMAX.block,
        num_warps=AMAX.num_warps,
    )
    return partial


def _sizes(x: torch.Tensor) -> tuple[int, int, int]:
    """(elements, columns, stride of the rows) of a matrix."""
    return x.numel(), max(1, x.shape[1]), x.stride(0)


def _check_scale(
    scale: torch.Tensor, x: torch.Tensor, power_of_two: bool, amax: torch.Tensor | None
) -> None:
    check_single("scale", scale, x)
    if power_of_two:
        raise ValueError("power_of_two: wanted False beside a given scale, got True")
    if amax is not None:
        raise ValueError("amax: wanted None beside a given scale, got a tensor")


def check_single(name: str, value: torch.Tensor, x: torch.Tensor) -> None:
    """Raises ValueError unless `value` is one float32 on x's device."""
    if value.dtype != torch.float32 or value.numel() != 1 or value.device != x.device:
        raise ValueError(
            f"{name}: wanted one float32 on {x.device}, got {value.dtype} "
            f"{tuple(value.shape)} on {value.device}"
        )
