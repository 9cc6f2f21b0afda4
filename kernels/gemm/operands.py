"""What all fp8 products share: checks of operands and scales, the order of tiles, the output.

    C[M,N] bf16 = A[M,K] @ B[N,K].T, times scales

Shapes: a [M,K] and b [N,K], e4m3 or e5m2, rows contiguous, rows and the first element at multiples
of 16 bytes: the tensor memory unit reads them, and the matrix unit wants both along K. A B that is
stored [K,N] has to be cast transposed. Rows of C begin at multiples of 16 bytes too: where N is no
multiple of 8, C is a view of longer rows.

A scale on a GPU is checked by type, device, shape and layout; by value only where check_values asks
for it, for that waits for the GPU. A NaN scale makes the outputs it scales NaN.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.common.checks import check_device

FP8: Final = (torch.float8_e4m3fn, torch.float8_e5m2)
_ALIGNMENT: Final = 16  # bytes, of addresses and strides that the tensor memory unit takes
BLOCK: tl.constexpr = tl.constexpr(128)  # columns of K, and rows of squares, that share a scale
_OUTPUTS: Final = _ALIGNMENT // 2  # bf16 values of such a unit


@triton.jit
def tile_of(tile, TILES_M, TILES_N, GROUP: tl.constexpr):
    """(row, column) of a tile: down GROUP tiles, then right, so that a wave shares its operands."""
    in_group = GROUP * TILES_N
    first = tile // in_group * GROUP
    height = tl.minimum(TILES_M - first, GROUP)
    return first + tile % in_group % height, tile % in_group // height


@triton.jit
def block_scales(scale, first, step, ROWS, STRIDE_ROW, STRIDE_STEP, SQUARE, SIZE: tl.constexpr):
    """Scales of SIZE rows from `first` on, in the step-th block: [SIZE], or one for 128 rows."""
    if SQUARE:
        return tl.load(scale + first // BLOCK * STRIDE_ROW + step * STRIDE_STEP)
    else:  # noqa: RET505 (both branches are traced without it)
        row = first + tl.arange(0, SIZE)
        place = scale + row * STRIDE_ROW + step * STRIDE_STEP
        return tl.load(place, mask=row < ROWS, other=0.0)


def check_operands(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int]:
    """(M, N, K); raises ValueError for operands that no fp8 product takes, see the module."""
    for name, x in (("a", a), ("b", b)):
        _check_matrix(name, x)
    if a.shape[1] != b.shape[1]:
        raise ValueError(
            f"b: wanted [N, K] with K = {a.shape[1]} columns as a has, got shape {tuple(b.shape)}"
        )
    if a.device != b.device:
        raise ValueError(f"b: wanted a tensor on {a.device} as a is, got one on {b.device}")
    check_device("a", a)
    return a.shape[0], b.shape[0], a.shape[1]


def _check_matrix(name: str, x: torch.Tensor) -> None:
    if x.dtype not in FP8:
        found = str(x.dtype).removeprefix("torch.")
        raise ValueError(f"{name}: wanted float8_e4m3fn or float8_e5m2, got {found}")
    if x.ndim != 2:
        raise ValueError(f"{name}: wanted a matrix [rows, K], got shape {tuple(x.shape)}")
    rows, cols = x.shape
    if cols % _ALIGNMENT:
        raise ValueError(
            f"{name}: wanted K in multiples of 16 (the hardware reads rows in 16-byte units), got "
            f"K = {cols}; fill up both operands with zeros"
        )
    if x.numel() == 0:
        return
    if x.stride(1) != 1 or (rows > 1 and (x.stride(0) < cols or x.stride(0) % _ALIGNMENT)):
        raise ValueError(
            f"{name}: wanted rows without gaps (last stride 1) that lie multiples of 16 elements "
            f"apart, got strides {x.stride()} of shape {tuple(x.shape)}; make it contiguous"
        )
    if x.data_ptr() % _ALIGNMENT:
        raise ValueError(
            f"{name}: wanted a first element at a multiple of 16 bytes, got one at "
            f"{x.data_ptr() % _ALIGNMENT} beyond; clone it"
        )


def check_scale(name: str, scale: torch.Tensor, x: torch.Tensor) -> None:
    """Raises ValueError unless `scale` is one fp32 scale for x, or one per row of it."""
    rows = x.shape[0]
    _check_kind(name, scale, x)
    shapes = ((rows,), (rows, 1), (1, rows))
    if scale.numel() != 1 and (tuple(scale.shape) not in shapes or not scale.is_contiguous()):
        raise ValueError(
            f"{name}: wanted one element, or [{rows}, 1], [1, {rows}] or [{rows}] without gaps, "
            f"got shape {tuple(scale.shape)}, strides {scale.stride()}"
        )


def _check_kind(name: str, scale: torch.Tensor, x: torch.Tensor) -> None:
    if scale.dtype != torch.float32 or scale.device != x.device:
        found = str(scale.dtype).removeprefix("torch.")
        raise ValueError(
            f"{name}: wanted float32 on {x.device}, got {found} of shape {tuple(scale.shape)} on "
            f"{scale.device}"
        )


def is_square_scaled(name: str, scale: torch.Tensor, x: torch.Tensor, block: int) -> bool:
    """Whether x has a scale per block x block, not per 1 x block; else raises ValueError."""
    _check_kind(name, scale, x)
    across = triton.cdiv(x.shape[1], block)
    strips, squares = (x.shape[0], across), (triton.cdiv(x.shape[0], block), across)
    if tuple(scale.shape) not in (strips, squares):
        raise ValueError(
            f"{name}: wanted [{strips[0]}, {across}] (a scale per 1 x {block}) or "
            f"[{squares[0]}, {across}] (per {block} x {block}), got shape {tuple(scale.shape)}"
        )
    return tuple(scale.shape) != strips


def new_output(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """An empty C [M, N] in bf16, whose rows lie multiples of 16 bytes apart for any N."""
    size = (a.shape[0], output_stride(b.shape[0]))
    return torch.empty(size, dtype=torch.bfloat16, device=a.device)[:, : b.shape[0]]


def output_stride(columns: int) -> int:
    """Elements between the rows of a C of so many columns."""
    return (columns + _OUTPUTS - 1) // _OUTPUTS * _OUTPUTS


def described(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    """The tensor-memory descriptor of a matrix that is read or written in blocks."""
    # The stride of a single row means nothing, and may be none that the hardware takes.
    rows_apart = x.stride(0) if x.shape[0] > 1 else triton.cdiv(x.shape[1], _ALIGNMENT) * _ALIGNMENT
    return TensorDescriptor(x, list(x.shape), [rows_apart, 1], block)
