"""What an all-gather with a product takes: checks of sizes, weights and scales; its output."""

from typing import Final

import torch

from kernels.common.checks import check_counts
from kernels.gather.model import Gathered

_WIDE: Final = (torch.bfloat16, torch.float16)
_FP8: Final = torch.float8_e4m3fn
_UNIT: Final = 16  # bytes, of rows that the tensor memory unit takes


def check_sizes(
    shard_rows: int, k: int, n: int, dtype: torch.dtype, *, world: int, scaled: bool, buffers: int
) -> None:
    """Raises ValueError, naming the argument, for what no rank could multiply."""
    for name, value in (("shard_rows", shard_rows), ("k", k), ("n", n)):
        if value < 1:
            raise ValueError(f"{name}: wanted at least 1, got {value}")
    check_counts("gathered A", (world * shard_rows, k))
    check_counts("weights", (n, k))
    if dtype not in (*_WIDE, _FP8):
        raise ValueError(f"dtype: wanted bfloat16, float16 or float8_e4m3fn, got {_name(dtype)}")
    if scaled != (dtype == _FP8):
        raise ValueError(
            f"scaled: wanted {not scaled} with {_name(dtype)}, got {scaled}: float8_e4m3fn has "
            "scales, other types have none"
        )
    multiple = _UNIT // dtype.itemsize
    if k % multiple:
        raise ValueError(
            f"k: wanted a multiple of {multiple} with {_name(dtype)} (the hardware reads rows in "
            f"16-byte units), got {k}; fill up A and the weights with zeros"
        )
    if buffers < 2:
        raise ValueError(f"buffers: wanted at least 2, which take turns, got {buffers}")


def check_weights(
    what: Gathered,
    weights: torch.Tensor,
    scales: torch.Tensor | None,
    *,
    scaled: bool,
    device: torch.device,
) -> None:
    """Raises ValueError unless weights [n, k] and scales [1, n] fit what was announced."""
    if tuple(weights.shape) != (what.n, what.k):
        raise ValueError(f"weights: wanted [{what.n}, {what.k}], got {list(weights.shape)}")
    if weights.dtype != what.dtype or weights.device != device:
        raise ValueError(
            f"weights: wanted {_name(what.dtype)} on {device}, got {_name(weights.dtype)} on "
            f"{weights.device}"
        )
    if not weights.is_contiguous() or weights.data_ptr() % _UNIT:
        raise ValueError(
            "weights: wanted rows without gaps from a multiple of 16 bytes on, got strides "
            f"{weights.stride()} at {weights.data_ptr() % _UNIT} beyond; clone them"
        )
    if not scaled:
        if scales is not None:
            raise ValueError(f"weight_scales: wanted None with {_name(what.dtype)}, got a tensor")
        return
    if scales is None:
        raise ValueError(f"weight_scales: wanted [1, {what.n}] float32, got None")
    if scales.shape != (1, what.n) or not scales.is_contiguous():
        raise ValueError(
            f"weight_scales: wanted [1, {what.n}] without gaps, got {list(scales.shape)}, strides "
            f"{scales.stride()}"
        )
    if scales.dtype != torch.float32 or scales.device != device:
        raise ValueError(
            f"weight_scales: wanted float32 on {device}, got {_name(scales.dtype)} on "
            f"{scales.device}"
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
