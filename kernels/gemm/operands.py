"""What all fp8 products share: checks of operands and scales, the output.

    C[M,N] bf16 = A[M,K] @ B[N,K].T, times scales

Shapes: a [M,K] and b [N,K], e4m3 or e5m2, rows contiguous, rows and the first element at multiples
of 16 bytes: the tensor memory unit reads them, and the matrix unit wants both along K. A B that is
stored [K,N] has to be cast transposed. Rows of C begin at multiples of 16 bytes too: where N is no
multiple of 8, C is a view of longer rows.

A scale on a GPU is checked by type, device, shape and layout. Its values are checked only on
request, because that waits for the GPU. A NaN scale makes the outputs it scales NaN.
"""

from dataclasses import dataclass
from typing import Any, Final

import torch
import triton
import triton.language as tl

from kernels.common.architecture import compute_units
from kernels.common.checks import FP8, check_counts, check_device, check_scale_values, dtype_names
from kernels.common.fp8_scales import BLOCK
from kernels.common.tiles import TMA_ALIGNMENT

_BF16_IN_ALIGNMENT: Final = TMA_ALIGNMENT // 2
_BLOCK: tl.constexpr = tl.constexpr(BLOCK)


@dataclass(frozen=True, slots=True)
class Product:
    """Checked operands and where their product goes.

    a        [m, k] fp8
    b        [n, k] fp8
    c        [m, n] bf16
    scale_a  fp32, of a: one, one per row or one per block
    scale_b  likewise of b
    most     multiprocessors that it may take; None: kernels.common.architecture says
    """

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    scale_a: torch.Tensor
    scale_b: torch.Tensor
    most: int | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return self.a.shape[0], self.b.shape[0], self.a.shape[1]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to multiply; C is zero then."""
        return 0 in self.sizes

    @property
    def has_row_scales(self) -> tuple[bool, bool]:
        """Whether a and b have a scale per row, of products without blocks."""
        return self.scale_a.numel() > 1, self.scale_b.numel() > 1

    @property
    def units(self) -> int:
        """Multiprocessors that a persistent kernel takes."""
        return compute_units(self.a, self.most)

    def grid(self, tile_m: int, tile_n: int) -> tuple[int]:
        """Programs of a persistent kernel: one per tile, at most one per unit."""
        m, n, _ = self.sizes
        return (min(triton.cdiv(m, tile_m) * triton.cdiv(n, tile_n), self.units),)


def new_product(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    check_values: bool,
    units: int | None = None,
) -> Product:
    """The product with an empty C, for operands and scales whose shapes were checked.

    Raises ValueError as check_scale_values does.
    """
    check_scale_values("scale_a", scale_a, wait=check_values)
    check_scale_values("scale_b", scale_b, wait=check_values)
    return Product(a, b, new_output(a, b), scale_a, scale_b, units)


def check_operands(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raises ValueError for operands that no fp8 product takes, see the module."""
    for name, x in (("a", a), ("b", b)):
        _check_matrix(name, x)
    if a.shape[1] != b.shape[1]:
        raise ValueError(
            f"b: wanted [N, K] with K = {a.shape[1]} columns as a has, got shape {tuple(b.shape)}"
        )
    if a.device != b.device:
        raise ValueError(f"b: wanted a tensor on {a.device} as a is, got one on {b.device}")
    check_device("a", a)


def _check_matrix(name: str, x: torch.Tensor) -> None:
    if x.dtype not in FP8:
        raise ValueError(f"{name}: wanted {dtype_names(*FP8)}, got {dtype_names(x.dtype)}")
    if x.ndim != 2:
        raise ValueError(f"{name}: wanted a matrix [rows, K], got shape {tuple(x.shape)}")
    check_counts(name, x.shape)
    rows, cols = x.shape
    if cols % TMA_ALIGNMENT:
        raise ValueError(
            f"{name}: wanted K in multiples of 16 (the hardware reads rows in 16-byte units), got "
            f"K = {cols}; fill up both operands with zeros"
        )
    if x.numel() == 0:
        return
    if x.stride(1) != 1 or (rows > 1 and (x.stride(0) < cols or x.stride(0) % TMA_ALIGNMENT)):
        raise ValueError(
            f"{name}: wanted rows without gaps (last stride 1) that lie multiples of 16 elements "
            f"apart, got strides {x.stride()} of shape {tuple(x.shape)}; make it contiguous"
        )
    if x.data_ptr() % TMA_ALIGNMENT:
        raise ValueError(
            f"{name}: wanted a first element at a multiple of 16 bytes, got one at "
            f"{x.data_ptr() % TMA_ALIGNMENT} beyond; clone it"
        )


def check_axis_scale(name: str, scale: torch.Tensor, x: torch.Tensor) -> None:
    """Raises ValueError unless `scale` is one fp32 scale for x, or one per row of it."""
    rows = x.shape[0]
    _check_fp32(name, scale, x)
    shapes = ((rows,), (rows, 1), (1, rows))
    if scale.numel() != 1 and (tuple(scale.shape) not in shapes or not scale.is_contiguous()):
        raise ValueError(
            f"{name}: wanted one element, or [{rows}, 1], [1, {rows}] or [{rows}] without gaps, "
            f"got shape {tuple(scale.shape)}, strides {scale.stride()}"
        )


def has_square_blocks(name: str, scale: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether x has a scale per 128 x 128, not per 1 x 128; raises ValueError for another kind."""
    _check_fp32(name, scale, x)
    across = triton.cdiv(x.shape[1], BLOCK)
    strips, squares = (x.shape[0], across), (triton.cdiv(x.shape[0], BLOCK), across)
    if tuple(scale.shape) not in (strips, squares):
        raise ValueError(
            f"{name}: wanted [{strips[0]}, {across}] (a scale per 1 x {BLOCK}) or "
            f"[{squares[0]}, {across}] (per {BLOCK} x {BLOCK}), got shape {tuple(scale.shape)}"
        )
    # Kernels compute places of scales in 32 bits, those of whole tiles of up to 128 rows.
    last = triton.cdiv(scale.shape[0], 128) * 128 - 1
    if last * scale.stride(0) + (across - 1) * scale.stride(1) >= 2**31:
        raise ValueError(
            f"{name}: wanted scales that lie within 2**31 elements, got strides {scale.stride()} "
            f"of shape {tuple(scale.shape)}; make them contiguous"
        )
    return tuple(scale.shape) != strips


def _check_fp32(name: str, scale: torch.Tensor, x: torch.Tensor) -> None:
    if scale.dtype != torch.float32 or scale.device != x.device:
        raise ValueError(
            f"{name}: wanted float32 on {x.device}, got {dtype_names(scale.dtype)} of shape "
            f"{tuple(scale.shape)} on {scale.device}"
        )


def new_output(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """An empty C [M, N] in bf16, whose rows lie multiples of 16 bytes apart for any N."""
    size = (a.shape[0], output_stride(b.shape[0]))
    return torch.empty(size, dtype=torch.bfloat16, device=a.device)[:, : b.shape[0]]


def like_product(a: torch.Tensor, b: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """new_output of operands without values, for torch.compile."""
    m, n = a.shape[0], b.shape[0]
    return a.new_empty_strided((m, n), (output_stride(n), 1), dtype=torch.bfloat16)


def output_stride(columns: int) -> int:
    """Elements between the rows of a C of so many columns."""
    return triton.cdiv(columns, _BF16_IN_ALIGNMENT) * _BF16_IN_ALIGNMENT


@triton.jit
def load_block_scales(
    scale, first, step, ROWS, STRIDE_ROW, STRIDE_STEP, SQUARE, SIZE: tl.constexpr
):
    """Scales of SIZE rows from `first` on, in the step-th block: [SIZE], or one of a SQUARE."""
    if SQUARE:
        return tl.load(scale + first // _BLOCK * STRIDE_ROW + step * STRIDE_STEP)
    else:  # noqa: RET505 (both branches are traced without it)
        row = first + tl.arange(0, SIZE)
        place = scale + row * STRIDE_ROW + step * STRIDE_STEP
        return tl.load(place, mask=row < ROWS, other=0.0)
