"""Tiles of the transposing casts in Gluon: who holds what, how they leave, how large they are.

A thread holds 32 rows x C columns of x, loaded along the rows. Seen from the transposed side, those
are C rows of 32 neighbouring elements: permuting the tile only renames registers, and pairs of rows
are packed to fp8 in place. The tile leaves through swizzled shared memory (16-byte stores) and the
tensor memory unit, which writes runs of 32 * warps bytes and clips what lies outside. fp32 -> fp8
saturates in hardware (cvt.rn.satfinite), so nothing is clamped.

Triton's interpreter knows no Gluon: kernels.cast.columns and kernels.cast.blocks have the same
casts in plain Triton.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.common.architecture import has_tensor_memory_unit
from kernels.common.tiles import KernelConstants

# Offsets within a tile are 32 bit: from row to row of x and of q, and of scales of q transposed.
_MOST_STRIDE = 1 << 22
_MOST_ROWS = 1 << 28


@dataclass(frozen=True, slots=True, kw_only=True)
class TileConfig(KernelConstants):
    """A tile of rows_per_thread rows per warp and 32 * columns_per_thread columns.

    columns_per_thread  1, 2 or 4
    group               tiles that are walked down before the next column of tiles
    rows_per_thread     16 or 32: bytes that a thread stores at once in the transposed tile
    """

    columns_per_thread: int
    num_warps: int
    group: int
    rows_per_thread: int = 32

    def __post_init__(self) -> None:
        """Two threads share a block of 32 columns in the cast along the rows."""
        assert self.columns_per_thread in (1, 2, 4)
        assert self.num_warps in (1, 2, 4, 8)
        assert self.rows_per_thread in (16, 32)

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.rows_per_thread * self.num_warps

    @property
    def cols(self) -> int:
        """Columns of a tile."""
        return 32 * self.columns_per_thread

    def grid(self, x: torch.Tensor) -> tuple[int]:
        """Programs: one per tile."""
        rows, cols = x.shape
        return (triton.cdiv(rows, self.rows) * triton.cdiv(cols, self.cols),)

    def constants(self, x: torch.Tensor) -> dict[str, Any]:
        """What every kernel of such tiles is compiled for; EVEN: no tile reaches beyond x."""
        return {
            "EVEN": x.shape[0] % self.rows == 0 and x.shape[1] % self.cols == 0,
            "CONFIG": self,
            "num_warps": self.num_warps,
        }

    @property
    def layout(self) -> gl.BlockedLayout:
        """Elements of x's tile: whole rows_per_thread x columns_per_thread, warp above warp."""
        own = [self.rows_per_thread, self.columns_per_thread]
        return gl.BlockedLayout(own, [1, 32], [self.num_warps, 1], [1, 0])

    @property
    def turned_layout(self) -> gl.BlockedLayout:
        """The same elements in the same registers, of the transposed tile."""
        own = [self.columns_per_thread, self.rows_per_thread]
        return gl.BlockedLayout(own, [32, 1], [1, self.num_warps], [1, 0])

    @property
    def transposed_layout(self) -> gl.NVMMASharedLayout:
        """Bytes of q's tile in shared memory: runs of its rows, swizzled as wide as they are."""
        return gl.NVMMASharedLayout(min(128, self.rows), 8, 2)

    @property
    def source_layout(self) -> gl.NVMMASharedLayout:
        """bf16 of x's tile in shared memory, swizzled as wide as its rows are."""
        return gl.NVMMASharedLayout(min(128, 64 * self.columns_per_thread), 16, 2)

    def transposed_descriptor(self, q: torch.Tensor) -> TensorDescriptor:
        """The descriptor through which tiles of q [cols, rows] are stored."""
        return TensorDescriptor.from_tensor(q, [self.cols, self.rows], self.transposed_layout)

    def source_descriptor(self, x: torch.Tensor) -> TensorDescriptor:
        """The descriptor through which tiles of x [rows, cols] bf16 are loaded."""
        return TensorDescriptor.from_tensor(x, [self.rows, self.cols], self.source_layout)


def fits(x: torch.Tensor) -> bool:
    """Whether x's GPU and shape allow transposing casts in Gluon.

    Rows of q are multiples of 16 bytes, which the tensor memory unit stores.
    """
    rows, cols = x.shape
    is_near = rows <= _MOST_ROWS and max(cols, x.stride(0)) < _MOST_STRIDE
    return has_tensor_memory_unit(x) and rows % 16 == 0 and is_near


@gluon.jit
def load_tile(source, m, n, ROWS, COLS, STRIDE, EVEN: gl.constexpr, LAST: gl.constexpr):
    """The tile at `source`; ROWS and COLS count from there. LAST: it is not read again."""
    policy: gl.constexpr = "evict_first" if LAST else ""
    at = source + (m[:, None] * STRIDE + n[None, :])
    if EVEN:
        return gl.load(at, eviction_policy=policy)
    else:  # noqa: RET505 (both branches are traced without it)
        inside = (m < ROWS)[:, None] & (n < COLS)[None, :]
        return gl.load(at, mask=inside, other=0.0, eviction_policy=policy)


@gluon.jit
def start_transposed_store(values, shared, target, row, col, CONFIG: gl.constexpr):
    """values [BLOCK_M, BLOCK_N] fp32, already scaled -> target [COLS, ROWS] fp8 at (col, row).

    It returns before `shared` has left; tma.store_wait(0) waits for it.
    """
    turned = gl.permute(values, (1, 0))
    turned = gl.convert_layout(turned, CONFIG.turned_layout, assert_trivial=True)
    shared.store(turned.to(target.dtype))
    fence_async_shared()
    gl.thread_barrier()
    tma.async_copy_shared_to_global(target, [col, row], shared)
