"""Int4 weights and activations for tests, drawn from fixed seeds."""

import torch

from kernels.int4.gemm import int4_gemm_reference
from kernels.int4.packing import Int4Weights, pack, quantise


def weights(
    rows: int,
    k: int,
    group: int,
    device: torch.device,
    *,
    zeros: bool = False,
    dtype: torch.dtype = torch.bfloat16,
) -> Int4Weights:
    """Normal weights, rounded; around another mean than zero where they have zero points."""
    dense = torch.randn(rows, k, generator=torch.Generator().manual_seed(rows + k))
    shifted = dense + 0.5 if zeros else dense
    return pack(quantise(shifted.to(device), group, symmetric=not zeros, dtype=dtype))


def activations(
    tokens: int, k: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """Normal activations [tokens, k]."""
    generator = torch.Generator().manual_seed(tokens * k)
    return torch.randn(tokens, k, generator=generator).to(dtype).to(device)


def error(out: torch.Tensor, x: torch.Tensor, w: Int4Weights) -> float:
    """||out - reference|| / ||reference||, the reference in float64."""
    expected = int4_gemm_reference(x, w)
    assert out.shape == expected.shape
    assert out.dtype == x.dtype
    return float((out.double() - expected).norm() / expected.norm())
