"""Casts and products of a float8 linear as custom ops: opaque to torch.compile, no graph breaks.

    cast               x -> q and scale along the rows, along the columns (transposed), or both
    layer_norm_cast    the same of the layer norm of x
    sigmoid_grad_cast  the same of grad * s * (1 - s)
    product            C[M,N] bf16 = A[M,K] @ B[N,K].T, times scales

Granularities: those of kernels.linear.recipes that are cast, "" for no cast, and `squares` (one
scale per 128 x 128) for the weights of `blockwise`. Casts return a list: q [rows, cols] and its
scale where `rows` names one, q [cols, rows] and its scale where `columns` does, then what was cast
where `keep` asks for it.

On a GPU these are the kernels of this package; products of blocks are kernels.gemm.blockwise,
all others those of cuBLASLt ("cublaslt") or kernels.gemm.axiswise ("triton"). On a CPU they run
kernels.linear.reference, which has the same values.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch.nn import functional

from kernels.cast import blocks as cast_blocks
from kernels.cast import columns as cast_fp8_columns
from kernels.cast import fused as cast_fused
from kernels.cast import tensorwise as cast_tensorwise
from kernels.cast.rows import rowwise_dim0
from kernels.common.fp8_scales import LARGEST, new_block_scales
from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm.operands import output_stride
from kernels.linear import reference
from kernels.linear.reference import BLOCK, E4M3, MX_BLOCK, Cast

PRODUCTS: Final = ("cublaslt", "triton")
_FUSED: Final = {"axiswise": "rowwise", "blockwise": "blockwise_1x128", "mxfp8": "mxfp8_floor"}


def cast_rows(x: torch.Tensor, granularity: str) -> Cast:
    """(q [rows, cols], scale) by the kernels."""
    casts: dict[str, Callable[[torch.Tensor], Cast]] = {
        "tensorwise": cast_tensorwise.tensorwise,
        "axiswise": rowwise_dim0,
        "blockwise": cast_blocks.blockwise_1x128,
        "squares": cast_blocks.blockwise_128x128,
        "mxfp8": cast_blocks.mxfp8_dim0,
    }
    return casts[granularity](x)


def cast_columns(x: torch.Tensor, granularity: str, rows: Cast | None, beside: str) -> Cast:
    """(q [cols, rows], scale) by the kernels; `rows` is the cast `beside` of the same x.

    One scale for all is made of the amax that the cast along the rows found, if it found one;
    squares are turned around.
    """
    if granularity == "squares":
        q, scale = rows if rows is not None and beside == "squares" else cast_rows(x, "squares")
        # Copies even where one of a row is contiguous already: an operator may not return an alias.
        return _turned(q), _turned(scale)
    if granularity == "tensorwise":
        return _tensorwise_columns(x, rows if beside in ("tensorwise", "axiswise") else None)
    casts: dict[str, Callable[[torch.Tensor], Cast]] = {
        "axiswise": cast_fp8_columns.rowwise_dim1,
        "blockwise": cast_blocks.blockwise_1x128_dim1,
        "mxfp8": cast_blocks.mxfp8_dim1,
    }
    return casts[granularity](x)


def _turned(x: torch.Tensor) -> torch.Tensor:
    return x.t().clone(memory_format=torch.contiguous_format)


def _tensorwise_columns(x: torch.Tensor, rows: Cast | None) -> Cast:
    largest = LARGEST[E4M3]
    amax = rows[1].amax() * largest if rows is not None and x.numel() else None
    if amax is None:
        amax = x.abs().amax().float() if x.numel() else x.new_zeros((), dtype=torch.float32)
    bits = amax.reshape(1, 1).view(torch.int32).expand(1, x.shape[1]).contiguous()
    q, scale = cast_fp8_columns.transpose_with_maxima(x, E4M3, bits, power_of_two=False)
    return q, scale[0].reshape(()) if len(scale) else amax / largest


def _cast(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    if x.is_cuda:
        return cast_by_kernels(x, rows, columns)
    made = list(reference.cast_rows(x, rows)) if rows else []
    return made + (list(reference.cast_columns(x, columns)) if columns else [])


def cast_by_kernels(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    """What `cast` returns on a GPU."""
    if rows == columns == "axiswise":
        return list(cast_fp8_columns.rowwise_both(x))
    if rows == columns == "mxfp8":
        return list(cast_blocks.mxfp8_both(x))
    by_rows = cast_rows(x, rows) if rows else None
    by_columns = cast_columns(x, columns, by_rows, rows) if columns else None
    return [*(by_rows or ()), *(by_columns or ())]


@torch.library.custom_op("roofcal::cast", mutates_args=())
def cast(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    """See the module; x [rows, cols] bf16, fp16 or fp32 with contiguous rows."""
    return _cast(x, rows, columns)


@torch.library.custom_op("roofcal::layer_norm_cast", mutates_args=())
def layer_norm_cast(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    rows: str,
    columns: str,
    keep: bool,
) -> list[torch.Tensor]:
    """See the module; the norm is taken along the rows of x."""
    if x.is_cuda and rows in _FUSED and x.shape[1] <= cast_fused.MOST_COLUMNS["layer_norm"]:
        return layer_norm_by_kernels(x, (weight, bias), eps, (rows, columns), keep)
    y = functional.layer_norm(x, x.shape[1:], weight, bias, eps)
    return [*_cast(y, rows, columns), *([y] if keep else [])]


def layer_norm_by_kernels(
    x: torch.Tensor,
    affine: tuple[torch.Tensor | None, torch.Tensor | None],
    eps: float,
    ends: tuple[str, str],
    keep: bool,
) -> list[torch.Tensor]:
    """What `layer_norm_cast` returns where the norm and the cast of its rows are one kernel."""
    kind, both, whole = _asked(ends)
    keeps = keep or whole
    made = cast_fused.layer_norm(x, *affine, eps=eps, kind=kind, keep=keeps, both=both)
    return _completed(list(made), ends, keep)


@torch.library.custom_op("roofcal::sigmoid_grad_cast", mutates_args=())
def sigmoid_grad_cast(
    grad: torch.Tensor, s: torch.Tensor, rows: str, columns: str, keep: bool
) -> list[torch.Tensor]:
    """See the module; s is what the sigmoid returned."""
    if grad.is_cuda and rows in _FUSED and s.shape[1] <= cast_fused.MOST_COLUMNS["sigmoid_grad"]:
        return sigmoid_grad_by_kernels(grad, s, (rows, columns), keep)
    if grad.is_cuda:
        y: torch.Tensor = torch.ops.aten.sigmoid_backward(grad, s)
    else:
        y = reference.sigmoid_grad(grad, s)
    return [*_cast(y, rows, columns), *([y] if keep else [])]


def sigmoid_grad_by_kernels(
    grad: torch.Tensor, s: torch.Tensor, ends: tuple[str, str], keep: bool
) -> list[torch.Tensor]:
    """What `sigmoid_grad_cast` returns where it and the cast of its rows are one kernel."""
    kind, both, whole = _asked(ends)
    made = cast_fused.sigmoid_grad(grad, s, kind=kind, keep=keep or whole, both=both)
    return _completed(list(made), ends, keep)


def _asked(ends: tuple[str, str]) -> tuple[str, bool, bool]:
    """(kind, both, whether y is needed: columns are cast otherwise) of a fused cast."""
    rows, columns = ends
    return _FUSED[rows], columns == rows, columns not in ("", rows)


def _completed(made: list[torch.Tensor], ends: tuple[str, str], keep: bool) -> list[torch.Tensor]:
    rows, columns = ends
    if columns in ("", rows):
        return made
    *by_rows, y = made
    by_columns = cast_columns(y, columns, (by_rows[0], by_rows[1]), rows)
    return [*by_rows, *by_columns, *([y] if keep else [])]


@torch.library.custom_op("roofcal::product", mutates_args=())
def product(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    granularity: str,
    accumulation: str,
    by: str,
) -> torch.Tensor:
    """C [M, N] bf16; granularity of a, accumulation and `by` as the module says."""
    if not a.is_cuda:
        return reference.product(a, b, scale_a, scale_b)
    return product_by_kernels(a, b, (scale_a, scale_b), granularity, accumulation, by)


def product_by_kernels(
    a: torch.Tensor,
    b: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor],
    granularity: str,
    accumulation: str,
    by: str,
) -> torch.Tensor:
    """What `product` returns on a GPU."""
    scale_a, scale_b = scales
    if granularity == "blockwise":
        return fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b)
    fast = accumulation == "fast"
    if by == "triton":
        return fp8_gemm.gemm(a, b, scale_a, scale_b, accumulation="fast" if fast else "slow")
    m, n = a.shape[0], b.shape[0]
    if not a.numel() or not n:
        return torch.zeros(m, n, dtype=torch.bfloat16, device=a.device)
    if scale_a.numel() != 1 or scale_b.numel() != 1:  # cuBLASLt mixes no kinds of scale
        scale_a = scale_a.reshape(-1, 1).expand(m, 1).contiguous()
        scale_b = scale_b.reshape(1, -1).expand(1, n).contiguous()
    return torch._scaled_mm(
        a, b.t(), scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast
    )


def _like_cast(x: torch.Tensor, granularity: str, rows: int, cols: int) -> list[torch.Tensor]:
    if not granularity:
        return []
    shapes: dict[str, tuple[int, ...]] = {
        "tensorwise": (),
        "axiswise": (rows, 1),
        "squares": (-(-rows // BLOCK), -(-cols // BLOCK)),
        "mxfp8": (rows, -(-cols // MX_BLOCK)),
    }
    dtype = torch.float8_e8m0fnu if granularity == "mxfp8" else torch.float32
    q = x.new_empty((rows, cols), dtype=E4M3)
    if granularity == "blockwise":
        return [q, new_block_scales(rows, -(-cols // BLOCK), x.device)]
    return [q, x.new_empty(shapes[granularity], dtype=dtype)]


@cast.register_fake
def _(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    m, n = x.shape
    return _like_cast(x, rows, m, n) + _like_cast(x, columns, n, m)


@layer_norm_cast.register_fake
def _(
    x: torch.Tensor,
    weight: torch.Tensor | None,  # noqa: ARG001 (the signature of the op)
    bias: torch.Tensor | None,  # noqa: ARG001
    eps: float,  # noqa: ARG001
    rows: str,
    columns: str,
    keep: bool,
) -> list[torch.Tensor]:
    made = _like_cast(x, rows, *x.shape) + _like_cast(x, columns, *x.t().shape)
    return made + ([x.new_empty(x.shape)] if keep else [])


@sigmoid_grad_cast.register_fake
def _(
    grad: torch.Tensor,
    s: torch.Tensor,  # noqa: ARG001 (the signature of the op)
    rows: str,
    columns: str,
    keep: bool,
) -> list[torch.Tensor]:
    made = _like_cast(grad, rows, *grad.shape) + _like_cast(grad, columns, *grad.t().shape)
    return made + ([grad.new_empty(grad.shape)] if keep else [])


@product.register_fake
def _(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,  # noqa: ARG001 (the signature of the op)
    scale_b: torch.Tensor,  # noqa: ARG001
    granularity: str,
    accumulation: str,  # noqa: ARG001
    by: str,
) -> torch.Tensor:
    if a.is_cuda and (granularity == "blockwise" or by == "triton"):
        strides = (output_stride(b.shape[0]), 1)  # those of cuBLASLt have no gaps
        return a.new_empty_strided((a.shape[0], b.shape[0]), strides, dtype=torch.bfloat16)
    return a.new_empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16)
