"""Int4 weights and activations for tests, drawn from fixed seeds, and configurations."""

import torch

from kernels.int4.gemm import int4_gemm_reference
from kernels.int4.packing import Int4Weights, pack, quantise
from kernels.int4.rule import Int4DirectConfig, Int4StagedConfig, padded


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


def weights_without_memory(
    rows: int,
    k: int,
    group: int = 128,
    *,
    zeros: bool = False,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "meta",
) -> Int4Weights:
    """Weights for questions about their sizes."""
    tiles = padded(rows) // 16
    scales = torch.empty(tiles, k // group, 16, dtype=dtype, device=device)
    packed = torch.empty(tiles, k // 128, 1024, dtype=torch.uint8, device=device)
    return Int4Weights(
        packed=packed, scales=scales, zeros=scales if zeros else None, rows=rows, k=k, group=group
    )


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


def direct_config(
    row_tiles: int, split: int, warps: int, depth: int, tile: int
) -> Int4DirectConfig:
    """A configuration of kernels.int4.direct, in one line."""
    return Int4DirectConfig(
        row_tiles=row_tiles, split=split, num_warps=warps, depth=depth, token_tile=tile
    )


def staged_config(
    rows: int, split: int, ring: tuple[int, int], tile: int, matrix: str, *, warps: int = 4
) -> Int4StagedConfig:
    """A configuration of kernels.int4.staged, in one line; ring is (stages, unroll)."""
    return Int4StagedConfig(
        rows=rows,
        split=split,
        num_warps=warps,
        stages=ring[0],
        unroll=ring[1],
        token_tile=tile,
        matrix=matrix,
    )
