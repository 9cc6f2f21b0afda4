"""fp8 products in float64, of the values that are stored."""

import pytest
import torch

from kernels.gemm import axiswise, blockwise
from kernels.gemm.operands import Product, new_output

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
RAGGED = [(65, 1, 16), (130, 300, 272), (1000, 1000, 1008), (300, 333, 560)]  # (m, n, k)

ON_HOPPER = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9,
    reason="Gluon's products run on Hopper GPUs alone",
)


def normal_fp8(
    rows: int, cols: int, device: torch.device, dtype: torch.dtype = E4M3
) -> torch.Tensor:
    """A matrix of normal fp8 values, fresh in every run."""
    return torch.randn(rows, cols).clamp(-200, 200).to(dtype).to(device)


def random_scales(*shape: int, device: torch.device) -> torch.Tensor:
    """fp32 scales between 0.1 and 1.1."""
    return (torch.rand(*shape) + 0.1).to(device)


def product(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> torch.Tensor:
    """C in float64; a scale is one element, or one per row."""
    by = scale_a.double().reshape(-1, 1) * scale_b.double().reshape(1, -1)
    return (a.double() @ b.double().t()) * by


def dequantised(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x times its scales of 1 x 128 or 128 x 128, in float64."""
    rows, cols = x.shape
    by = scale.double().repeat_interleave(128, 1)[:, :cols]
    if scale.shape[0] != rows:
        by = by.repeat_interleave(128, 0)[:rows]
    return x.double() * by


def assert_close(actual: torch.Tensor, expected: torch.Tensor, *, fast_k: int = 128) -> None:
    """Every element within the rounding of bf16 and of sums; large products in norm as well.

    fast_k: length of sums that stay in the matrix unit. Hopper's keeps 13 bits after the leading
    one of the largest term and cuts the rest off, once per 32 terms (DeepSeek-V3 technical report,
    arXiv 2412.19437, 3.3.2); the interpreter sums in fp32, but cuts off what bf16 cannot hold.
    """
    assert actual.dtype == torch.bfloat16
    assert actual.shape == expected.shape
    error = (actual.double() - expected).abs()
    # The sum of what is cut off is 1.5 times that at most: 1.01 times of it was seen once, in a few
    # hundred products of a million and more elements on H200s.
    # bf16 rounds to 2^-9 of the value; sums that nearly cancel keep the error of their terms: among
    # ten million sums some partial sum is eight times as large as their mean.
    cut_off = 1.5 * 2**-10 * fast_k / 32 if actual.is_cuda else 0.0
    allowed = 2**-8 * expected.abs() + (2e-3 + cut_off) * expected.abs().mean()
    wrong = ~(error <= allowed)
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} are off"
    if actual.numel() >= 1000:
        assert error.norm() <= 4e-3 * expected.norm()


def block_scales(rows: int, k: int, square: bool, device: torch.device) -> torch.Tensor:
    """Random scales of blocks of 128 x 128, or of 1 x 128."""
    return random_scales(-(-rows // 128) if square else rows, -(-k // 128), device=device)


def check_axiswise(
    shape: tuple[int, int, int],
    rowwise: tuple[bool, bool],
    accumulation: axiswise.Accumulation,
    device: torch.device,
) -> None:
    """A product of m x n x k is right with scales of rows, or of a tensor, of either operand."""
    m, n, k = shape
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device)
    scale_a = random_scales(m if rowwise[0] else 1, 1, device=device)
    scale_b = random_scales(1, n if rowwise[1] else 1, device=device)
    c = axiswise.gemm(a, b, scale_a, scale_b, accumulation=accumulation)
    assert_close(c, product(a, b, scale_a, scale_b), fast_k=k if accumulation == "fast" else 128)


def check_blockwise(
    shape: tuple[int, int, int], squares: tuple[bool, bool], device: torch.device
) -> None:
    """A product of m x n x k is right with scales of squares, or of strips, of either operand."""
    m, n, k = shape
    a, b = normal_fp8(m, k, device), normal_fp8(n, k, device)
    scale_a, scale_b = (
        block_scales(rows, k, square, device) for rows, square in zip((m, n), squares, strict=True)
    )
    expected = dequantised(a, scale_a) @ dequantised(b, scale_b).t()
    assert_close(blockwise.gemm(a, b, scale_a, scale_b), expected)


def unwritten(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> Product:
    """A product whose C holds nines, to be filled by a launch."""
    return Product(a, b, new_output(a, b).fill_(9), scale_a, scale_b)
