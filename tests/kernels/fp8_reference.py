"""Casts to fp8 in plain torch, as roofcal.ops.cast.bench defines them, for all types."""

import torch

from kernels.fp8_scales import LARGEST

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def scale_of(amax: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """fp32 scale of the largest magnitudes."""
    return amax.float().clamp(min=1e-12) / LARGEST[dtype]


def stored(x: torch.Tensor, factor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x * factor, saturated; clamped first because torch 2.11 casts an overflow to NaN."""
    return (x.float() * factor).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)


def cast(x: torch.Tensor, amax: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(q, scale) by multiplying with largest / amax, which is what the kernels do."""
    amax = amax.float().clamp(min=1e-12)
    # two tensors: torch multiplies the reciprocal where a Python number is divided
    factor = torch.full_like(amax, LARGEST[dtype]) / amax
    return stored(x, factor, dtype), scale_of(amax, dtype)


def rowwise(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(q, scale [rows, 1]) of each row."""
    if x.shape[1] == 0:
        return x.to(dtype), scale_of(torch.zeros(x.shape[0], 1, device=x.device), dtype)
    return cast(x, x.abs().amax(dim=1, keepdim=True), dtype)


def assert_equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to the bit, but for which NaN it is and for zeros' sign."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.is_contiguous()
    a, b = found.float(), expected.float()
    wrong = ~((a == b) | (a.isnan() & b.isnan()))
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} differ: {a[wrong][:4]}"


def assert_stored_as_divided(q: torch.Tensor, scale: torch.Tensor, x: torch.Tensor) -> None:
    """q * scale within one part in a hundred (in norm) of x / scale cast in float64."""
    limit = LARGEST[q.dtype]
    by = scale.double()
    expected = (x.double() / by).clamp(-limit, limit).float().to(q.dtype).double() * by
    error = (q.double() * by - expected).norm()
    assert float(error) <= 1e-2 * float(expected.norm())
