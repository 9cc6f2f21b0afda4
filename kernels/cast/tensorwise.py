"""The cast of a matrix to fp8 with one scale.

    tensorwise     q [rows, cols]   scale []           x read twice; once if small or scale given

Shapes: x [rows, cols] bf16, fp16 or fp32 with contiguous rows; q e4m3 or e5m2, contiguous; scale
fp32. The value that q stands for is q * scale. Arithmetic: kernels.common.fp8_scales. Offsets of
rows are 64 bit.

A second pass walks backwards, from what the first left in the cache.
"""

import torch
import triton
import triton.language as tl

from kernels.common import configs, fp8_scales
from kernels.common.fp8_scales import (
    check_matrix,
    check_target,
    compute_units,
    magnitude,
    scale_and_factor,
)

Cast = tuple[torch.Tensor, torch.Tensor]


@triton.jit
def _where(index, COLS, STRIDE, STRIDED: tl.constexpr):
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
    x,
    partial,
    COUNT,
    COLS,
    STRIDE,
    STRIDED: tl.constexpr,
    TAIL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each program: largest magnitude (bits) of every num_programs-th block.

    TAIL: elements beyond the last multiple of 16 are read apart, for a mask that ends elsewhere
    narrows every access to one element.
    """
    largest = tl.zeros((BLOCK,), dtype=tl.int32)
    whole = COUNT // 16 * 16 if TAIL else COUNT
    lanes = tl.arange(0, BLOCK)
    for block in range(tl.program_id(0), tl.cdiv(COUNT, BLOCK), tl.num_programs(0)):
        index = tl.cast(block, tl.int64) * BLOCK + lanes
        inside = index < whole
        values = tl.load(x + _where(index, COLS, STRIDE, STRIDED), mask=inside, other=0.0)
        largest = tl.maximum(largest, magnitude(values))
    found = tl.max(largest, axis=0)
    if TAIL:
        index = whole.to(tl.int64) + tl.arange(0, 16)
        source = x + _where(index, COLS, STRIDE, STRIDED)
        values = tl.load(source, mask=index < COUNT, other=0.0)
        found = tl.maximum(found, tl.max(magnitude(values), axis=0))
    tl.store(partial + tl.program_id(0), found)


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
    """STEPS blocks per program, last first; the scale is given, or made of the partial maxima.

    TAIL as in _amax_kernel.
    """
    if GIVEN:
        factor = tl.div_rn(1.0, tl.load(scale))
    else:
        maxima = tl.arange(0, MOST_PARTIALS)
        bits = tl.max(tl.load(partial + maxima, mask=maxima < PARTIALS, other=0), axis=0)
        made, factor = scale_and_factor(bits, LARGEST, POWER_OF_TWO)
        if tl.program_id(0) == 0:
            tl.store(scale, made)
    whole = COUNT // 16 * 16 if TAIL else COUNT
    lanes = tl.arange(0, BLOCK)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64) * (STEPS * BLOCK)
    for step in range(STEPS):
        index = first + (STEPS - 1 - step) * BLOCK + lanes
        inside = index < whole
        source = x + _where(index, COLS, STRIDE, STRIDED)
        values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
        cast = _saturated(values, factor, LARGEST).to(q.dtype.element_ty)
        tl.store(q + index, cast, mask=inside)
    if TAIL:  # noqa: SIM102 (one is decided by the compiler)
        if tl.program_id(0) == 0:
            index = whole.to(tl.int64) + tl.arange(0, 16)
            values = tl.load(
                x + _where(index, COLS, STRIDE, STRIDED), mask=index < COUNT, other=0.0
            )
            cast = _saturated(values, factor, LARGEST).to(q.dtype.element_ty)
            tl.store(q + index, cast, mask=index < COUNT)


@triton.jit
def _few_kernel(
    x,
    q,
    scale,
    COUNT,
    COLS,
    STRIDE,
    STRIDED: tl.constexpr,
    LARGEST: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A matrix that one program keeps in registers between its amax and its cast."""
    index = tl.arange(0, BLOCK)
    source = x + _where(index, COLS, STRIDE, STRIDED)
    values = tl.load(source, mask=index < COUNT, other=0.0)
    bits = tl.max(magnitude(values), axis=0)
    made, factor = scale_and_factor(bits, LARGEST, POWER_OF_TWO)
    cast = _saturated(values, factor, LARGEST).to(q.dtype.element_ty)
    tl.store(q + index, cast, mask=index < COUNT)
    tl.store(scale, made)


def tensorwise(
    x: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    scale: torch.Tensor | None = None,
    power_of_two: bool = False,
    check_values: bool = False,
) -> Cast:
    """(q [rows, cols], scale []): q = x / scale, saturated at the largest fp8 value.

    scale         fp32, one positive value on x's device, used as it is; None: made from x
    power_of_two  round a scale made from x up to a power of two
    check_values  refuse a given scale that is NaN, infinite, zero or negative, too: it waits for
                  the GPU, and cannot be captured in a CUDA graph; on a CPU it always is refused
    Raises ValueError for inputs that fp8_scales refuses or for a scale of another kind.
    """
    check_matrix(x)
    largest = check_target(dtype, x)
    if scale is not None:
        _check_scale(scale, x, power_of_two)
        fp8_scales.check_values("scale", scale, check_values)
    how = configs.CAST_MADE if scale is None else configs.CAST
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    if scale is None and 0 < x.numel() <= configs.FEW.block:
        return q, _cast_few(x, q, largest, power_of_two)
    partial = _partial_maxima(x) if scale is None else None
    programs = 0 if partial is None else partial.numel()
    made = scale if scale is not None else _new_scale(x)
    _cast_kernel[(max(1, triton.cdiv(x.numel(), how.steps * how.block)),)](
        x,
        q,
        made,
        partial,  # None beside a given scale: not read then
        *_layout(x)[:3],
        programs,
        STRIDED=_layout(x)[3],
        TAIL=x.numel() % 16 != 0,
        GIVEN=scale is not None,
        LARGEST=largest,
        POWER_OF_TWO=power_of_two,
        MOST_PARTIALS=triton.next_power_of_2(max(1, programs)),
        STEPS=how.steps,
        BLOCK=how.block,
        num_warps=how.num_warps,
    )
    return q, made.reshape(())


def _cast_few(x: torch.Tensor, q: torch.Tensor, largest: float, power_of_two: bool) -> torch.Tensor:
    """Fill q by a single program; returns its scale."""
    scale = _new_scale(x)
    *layout, strided = _layout(x)
    block = max(32, triton.next_power_of_2(x.numel()))
    _few_kernel[(1,)](
        *(x, q, scale, *layout),
        STRIDED=strided,
        LARGEST=largest,
        POWER_OF_TWO=power_of_two,
        BLOCK=block,
        num_warps=max(1, min(configs.FEW.num_warps, block // 256)),
    )
    return scale


def _new_scale(x: torch.Tensor) -> torch.Tensor:
    return torch.empty((), dtype=torch.float32, device=x.device)


def _layout(x: torch.Tensor) -> tuple[int, int, int, bool]:
    """(elements, columns, stride of rows, whether rows lie apart) of a matrix."""
    return x.numel(), max(1, x.shape[1]), x.stride(0), not x.is_contiguous()


def _partial_maxima(x: torch.Tensor) -> torch.Tensor:
    """Bits of the largest magnitude that each program found; without a value to start from."""
    how = configs.AMAX
    most = (how.programs_per_unit or 1) * compute_units(x)
    programs = max(1, min(triton.cdiv(x.numel(), how.block), most))
    partial = torch.empty(programs, dtype=torch.int32, device=x.device)
    *layout, strided = _layout(x)
    _amax_kernel[(programs,)](
        *(x, partial, *layout),
        STRIDED=strided,
        TAIL=x.numel() % 16 != 0,
        BLOCK=how.block,
        num_warps=how.num_warps,
    )
    return partial


def _check_scale(scale: torch.Tensor, x: torch.Tensor, power_of_two: bool) -> None:
    if scale.dtype != torch.float32 or scale.numel() != 1 or scale.device != x.device:
        raise ValueError(
            f"scale: wanted one float32 on {x.device}, got {scale.dtype} "
            f"{tuple(scale.shape)} on {scale.device}"
        )
    if power_of_two:
        raise ValueError("power_of_two: wanted False beside a given scale, got True")
