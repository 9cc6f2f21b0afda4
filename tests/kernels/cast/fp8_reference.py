"""Casts to fp8 in plain torch, as roofcal.ops.cast.bench defines them, for all types."""

import torch

from kernels.common.fp8_scales import LARGEST, in_aligned_columns

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def normal_matrix(rows: int, cols: int, device: torch.device, size: float = 1.0) -> torch.Tensor:
    """A bf16 matrix of normal values times `size`, the same for the same shape."""
    generator = torch.Generator().manual_seed(rows * 1000 + cols)
    return (torch.randn(rows, cols, generator=generator) * size).to(torch.bfloat16).to(device)


def transposed(x: torch.Tensor) -> torch.Tensor:
    """The transpose, contiguous."""
    return x.t().contiguous()


def scale_of(amax: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """fp32 scale of the largest magnitudes."""
    amax = amax.float().clamp(min=1e-12)
    # two tensors: on a GPU torch multiplies by the reciprocal where a Python number divides
    return amax / torch.full_like(amax, LARGEST[dtype])


def stored(x: torch.Tensor, factor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x * factor, saturated; clamped first because torch 2.11 casts an overflow to NaN."""
    return (x.float() * factor).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)


def cast(x: torch.Tensor, amax: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(q, scale) by multiplying with largest / amax, which is what the kernels do."""
    amax = amax.float().clamp(min=1e-12)
    factor = torch.full_like(amax, LARGEST[dtype]) / amax
    return stored(x, factor, dtype), scale_of(amax, dtype)


def whole(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(q, scale []) of the whole matrix."""
    return cast(x, x.abs().amax(), dtype)


def rowwise(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(q, scale [rows, 1]) of each row."""
    if x.shape[1] == 0:
        return x.to(dtype), scale_of(torch.zeros(x.shape[0], 1, device=x.device), dtype)
    return cast(x, x.abs().amax(dim=1, keepdim=True), dtype)


def mx(x: torch.Tensor, dtype: torch.dtype, rounding: str) -> tuple[torch.Tensor, ...]:
    """(q, bytes of the e8m0 scales) in blocks of 32 along the rows, in float64."""
    rows, cols = x.shape
    blocks = _split(x.double(), 32)
    amax = blocks.abs().amax(dim=2)
    emax = {torch.float8_e4m3fn: 8, torch.float8_e5m2: 15}[dtype]
    if rounding == "floor":
        exponent = torch.frexp(amax).exponent - 1 - emax
    else:
        mantissa, exponent = torch.frexp(amax / LARGEST[dtype])
        exponent = exponent - (mantissa == 0.5).int()
    exponent = torch.where(amax == 0, -127, exponent).clamp(min=-127)
    scale = torch.where(amax.isfinite(), torch.exp2(exponent.double()), torch.nan)
    q = (blocks / scale[:, :, None]).clamp(-LARGEST[dtype], LARGEST[dtype])
    q = q.reshape(rows, -1)[:, :cols].float().to(dtype).contiguous()
    return q, torch.where(amax.isfinite(), exponent + 127, 255).to(torch.uint8)


def blockwise(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(q, scale) in blocks of 128 along the rows."""
    rows, cols = x.shape
    blocks = _split(x, 128)
    q, scale = cast(blocks, blocks.abs().amax(dim=2, keepdim=True), dtype)
    return q.reshape(rows, -1)[:, :cols].contiguous(), scale[:, :, 0].contiguous()


def squares(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(q, scale) in squares of 128 x 128."""
    rows, cols = x.shape
    down = -rows % 128
    padded = torch.nn.functional.pad(x, (0, -cols % 128, 0, down))
    tiles = padded.unflatten(0, (-1, 128)).unflatten(2, (-1, 128))  # [down, 128, across, 128]
    q, scale = cast(tiles, tiles.abs().amax(dim=(1, 3), keepdim=True), dtype)
    q = q.reshape(padded.shape)[:rows, :cols].contiguous()
    return q, scale[:, 0, :, 0].contiguous()


def _split(x: torch.Tensor, size: int) -> torch.Tensor:
    """x with its rows in blocks of `size`, the last filled with zeros."""
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % size))
    return padded.reshape(x.shape[0], padded.shape[1] // size, size)


def assert_equal(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to the bit, but for which NaN it is and for zeros' sign.

    In rows, or fp32 as kernels.common.fp8_scales.new_block_scales lays out scales. Scales of mxfp8
    are compared with the bytes that are expected.
    """
    if actual.dtype == torch.float8_e8m0fnu:
        actual, expected = actual.view(torch.uint8), expected.view(torch.uint8)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    is_fp32_matrix = actual.dtype == torch.float32 and actual.dim() == 2
    as_scales = is_fp32_matrix and actual.stride() == (1, len(actual) + -len(actual) % 4)
    assert as_scales or actual.is_contiguous()
    a, b = actual.float(), expected.float()
    wrong = ~((a == b) | (a.isnan() & b.isnan()))
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} differ: {a[wrong][:4]}"


def assert_all_equal(outputs: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    """assert_equal of each output."""
    for output, expected_output in zip(outputs, expected, strict=True):
        assert_equal(output, expected_output)


def assert_read_by_products(scale: torch.Tensor) -> None:
    """Scales per 1 x 128 lie as the tensor memory unit reads them for a product."""
    assert scale.numel() == 0 or in_aligned_columns(scale) is scale


def assert_stored_as_divided(q: torch.Tensor, scale: torch.Tensor, x: torch.Tensor) -> None:
    """q * scale within one part in a hundred (in norm) of x / scale cast in float64."""
    limit = LARGEST[q.dtype]
    by = scale.double()
    expected = (x.double() / by).clamp(-limit, limit).float().to(q.dtype).double() * by
    error = (q.double() * by - expected).norm()
    assert float(error) <= 1e-2 * float(expected.norm())
