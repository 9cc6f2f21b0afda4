"""Shapes, types and strides of casts, without values: what torch.compile is told of them."""

from collections.abc import Callable
from typing import Any, Final

import torch

from kernels.common.fp8_scales import BLOCK, MX_BLOCK, padded_block_scales

E4M3: Final = torch.float8_e4m3fn


def like_cast(
    x: torch.Tensor, granularity: str, rows: int, cols: int, dtype: torch.dtype = E4M3
) -> list[torch.Tensor]:
    """[q [rows, cols], its scales] of a granularity of kernels.linear.ops; [] where it is ""."""
    if not granularity:
        return []
    shapes: dict[str, tuple[int, ...]] = {
        "tensorwise": (),
        "axiswise": (rows, 1),
        "squares": (-(-rows // BLOCK), -(-cols // BLOCK)),
        "mxfp8": (rows, -(-cols // MX_BLOCK)),
    }
    q = x.new_empty((rows, cols), dtype=dtype)
    if granularity == "blockwise":
        # Sliced as new_block_scales does it, a symbolic size would be bounded.
        strides = (1, padded_block_scales(rows))
        scales = x.new_empty_strided((rows, -(-cols // BLOCK)), strides, dtype=torch.float32)
        return [q, scales]
    of_scales = torch.float8_e8m0fnu if granularity == "mxfp8" else torch.float32
    return [q, x.new_empty(shapes[granularity], dtype=of_scales)]


def like_both(
    x: torch.Tensor, rows: str, columns: str, dtype: torch.dtype = E4M3
) -> list[torch.Tensor]:
    """Casts of x along its rows and, transposed, along its columns."""
    m, n = x.shape
    return like_cast(x, rows, m, n, dtype) + like_cast(x, columns, n, m, dtype)


def like_casts(rows: str, columns: str = "") -> Callable[..., list[torch.Tensor]]:
    """`like` of an operator that casts its first argument along its rows and columns so."""

    def like(x: torch.Tensor, dtype: torch.dtype = E4M3, **_: Any) -> list[torch.Tensor]:
        return like_both(x, rows, columns, dtype)

    return like
