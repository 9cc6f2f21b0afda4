"""What kernels.linear.ops computes, in plain torch: for CPUs, and to test the kernels against.

Shapes and scales as there. Values are those of the fp8 kernels: cast with the same arithmetic in
fp32, products of the dequantised operands in fp32, rounded to bf16 once.
"""

import torch

from kernels.cast.tiles import E4M3, Cast
from kernels.common.fp8_scales import BLOCK, LARGEST, MX_BLOCK, new_block_scales


def cast_rows(x: torch.Tensor, granularity: str) -> Cast:
    """(q [rows, cols], scale) with scales along the rows of x; granularities of linear_ops."""
    values = x.float()
    if granularity == "tensorwise":
        amax = values.abs().amax() if x.numel() else values.new_zeros(())
    elif granularity == "axiswise":
        amax = values.abs().amax(1, keepdim=True) if x.numel() else values.new_zeros(len(x), 1)
    else:
        return _cast_blocks(values, granularity)
    q, scale = cast_with_amax(values, amax)
    return q, scale


def cast_with_amax(values: torch.Tensor, amax: torch.Tensor) -> Cast:
    """(q, scale) of fp32 values by the largest magnitudes of those that share a scale."""
    largest = LARGEST[E4M3]
    floored = amax.clamp(min=1e-12)
    return _stored(values * (largest / floored)), floored / largest


def _stored(values: torch.Tensor) -> torch.Tensor:
    largest = LARGEST[E4M3]
    return values.clamp(-largest, largest).to(E4M3)


def _cast_blocks(values: torch.Tensor, granularity: str) -> Cast:
    """Blocks of 1 x 128, 128 x 128 (squares) or 1 x 32 (mxfp8); those at the edge are cut off."""
    rows, cols = values.shape
    size = MX_BLOCK if granularity == "mxfp8" else BLOCK
    high = BLOCK if granularity == "squares" else 1
    filled = torch.nn.functional.pad(values, (0, -cols % size, 0, -rows % high))
    down, across = filled.shape[0] // high, filled.shape[1] // size
    tiles = filled.reshape(down, high, across, size)
    amax = tiles.abs().amax((1, 3)) if tiles.numel() else values.new_zeros(down, across)
    wide = amax[:, None, :, None]
    if granularity == "mxfp8":
        byte = ((amax.view(torch.int32) >> 23) - 8).clamp(min=0)
        factor = ((254 - byte) << 23).view(torch.float32)
        q, scale = _stored(tiles * factor[:, None, :, None]), byte.to(torch.uint8)
        scale = scale.view(torch.float8_e8m0fnu)
    else:
        q, scale = cast_with_amax(tiles, wide)
        scale = scale.reshape(down, across)
        if granularity != "squares":
            scale = new_block_scales(down, across, values.device).copy_(scale)
    stored = q.reshape(filled.shape)[:rows, :cols].contiguous()
    return stored, scale


def cast_columns(x: torch.Tensor, granularity: str) -> Cast:
    """(q [cols, rows], scale) with scales along the columns of x, transposed."""
    return cast_rows(x.t().contiguous(), granularity)


def dequantised(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """What q stands for, in fp32: the kind of scale follows from its shape."""
    rows, cols = q.shape
    values, by = q.float(), scale.float()
    if scale.numel() == 1 or scale.shape == (rows, 1):
        return values * by
    size = MX_BLOCK if scale.dtype == torch.float8_e8m0fnu else BLOCK
    by = by.repeat_interleave(size, 1)[:, :cols]
    return values * (by if len(by) == rows else by.repeat_interleave(BLOCK, 0)[:rows])


def product(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> torch.Tensor:
    """C [M, N] bf16 of a [M, K] and b [N, K]."""
    return (dequantised(a, scale_a) @ dequantised(b, scale_b).t()).to(torch.bfloat16)


def sigmoid_grad(grad: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """grad * s * (1 - s) in fp32 or wider, rounded once."""
    by = s.to(torch.promote_types(s.dtype, torch.float32))
    return (grad * by * (1 - by)).to(grad.dtype)
