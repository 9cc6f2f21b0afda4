"""What casts in plain Triton share: tiles of a matrix, how they are loaded, and new outputs."""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

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
