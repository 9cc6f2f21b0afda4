"""What casts share: tiles of a matrix, how they are loaded, new outputs, and their shapes.

`like_...` tells torch.compile the shapes, types and strides of a result without its values.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
import triton
import triton.language as tl

from kernels.common.fp8_scales import BLOCK, MX_BLOCK, padded_block_scales

E4M3: Final = torch.float8_e4m3fn
Cast = tuple[torch.Tensor, torch.Tensor]  # (q, scale)
Both = tuple[
    torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor
]  # two casts, that of rows first


@dataclass(frozen=True, slots=True, kw_only=True)
class TileConfig:
    """A tile of rows x cols."""

    rows: int
    cols: int
    num_warps: int


@triton.jit
def load_tile(x, row, col, ROWS, COLS, STRIDE, LAST: tl.constexpr = True):
    """(values, which are inside) of the rows and columns with these numbers; zeros outside.

    LAST: the values are not read again, and need not stay in a cache.
    """
    policy: tl.constexpr = "evict_first" if LAST else ""
    inside = (row < ROWS)[:, None] & (col < COLS)[None, :]
    source = x + row.to(tl.int64)[:, None] * STRIDE + col[None, :]
    return tl.load(source, mask=inside, other=0.0, eviction_policy=policy), inside


@triton.jit
def store_transposed(values, inside, q, row, col, ROWS):
    """Store values [row, col] at q [col, row], whose rows are ROWS long."""
    target = q + col.to(tl.int64)[:, None] * ROWS + row[None, :]
    tl.store(target, tl.trans(values), mask=tl.trans(inside))


@triton.jit
def multiple_of(size, ALIGN: tl.constexpr):
    """`size`, which ALIGN divides, as a product that the compiler can see that from.

    It specialises arguments for multiples of 16 alone: of 1000 it does not see that 8 divides it.
    """
    return size // ALIGN * ALIGN if ALIGN > 1 else size


def row_alignment_elements(x: torch.Tensor) -> int:
    """The largest divisor of 16, in elements, of both the row stride and the row length of x."""
    return math.gcd(16, x.stride(0), x.shape[1])


def empty_rowwise(rows: int, cols: int, dtype: torch.dtype, x: torch.Tensor) -> Cast:
    """(q [rows, cols], scale [rows, 1]) to be filled, on x's device."""
    q = torch.empty((rows, cols), dtype=dtype, device=x.device)
    return q, torch.empty((rows, 1), dtype=torch.float32, device=x.device)


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
