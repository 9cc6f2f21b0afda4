"""Casts and products of a float8 linear as operators of torch: no graph breaks in torch.compile.

    cast               x -> q and scale along the rows, along the columns (transposed), or both
    cast_with_amax     tensorwise: the cast along the rows and, if wanted, along the columns, of x
                       whose largest magnitude is known
    cast_rows_first    the cast along the rows of what is cast along its columns later; of large x
                       with the maxima of its columns, int32 bits of fp32, which cost no other read
                       of up to 16384 columns
    cast_columns_later the cast along the columns of the same x, in a backward pass
    layer_norm_cast    the same of the layer norm of x
    sigmoid_grad_cast  the same of grad * s * (1 - s)
    copied_after       a copy that is not made before the backward pass
    product            C[M,N] bf16 = A[M,K] @ B[N,K].T, times scales

Granularities: those of kernels.linear.recipes that are cast, "" for no cast, and `squares` (one
scale per 128 x 128) for the weights of `blockwise`. Casts return a list: q [rows, cols] and its
scale where `rows` names one, q [cols, rows] and its scale where `columns` does, then what was cast
where `keep` asks for it.

On a GPU these are the kernels of this package, launched again as the first time
(kernels.common.replay); products of blocks are kernels.gemm.blockwise, all others those of cuBLASLt
("cublaslt", an operator of torch's own, which torch.compile launches itself) or
kernels.gemm.axiswise ("triton"). On a CPU they run kernels.linear.reference, which has the same
values.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Unpack

import torch
from torch.nn import functional

from kernels.cast import blocks as cast_blocks
from kernels.cast import both_ways
from kernels.cast import columns as cast_fp8_columns
from kernels.cast import fused as cast_fused
from kernels.cast import tensorwise as cast_tensorwise
from kernels.cast.fused import CastOptions
from kernels.cast.rows import rowwise_dim0
from kernels.cast.tiles import E4M3, Both, Cast, like_both, like_cast
from kernels.common.fp8_scales import LARGEST
from kernels.common.operators import define
from kernels.common.replay import replayed
from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm.axiswise import Accumulation
from kernels.gemm.operands import like_product
from kernels.linear import reference

PRODUCTS: Final = ("cublaslt", "triton")
_FUSED: Final = {"axiswise": "rowwise", "blockwise": "blockwise_1x128", "mxfp8": "mxfp8_floor"}
# Both casts from one read, where they have the same granularity.
_BOTH: Final[dict[str, Callable[[torch.Tensor], Both]]] = {
    "axiswise": cast_fp8_columns.rowwise_both,
    "blockwise": both_ways.blockwise_1x128_both,
    "mxfp8": cast_blocks.mxfp8_both,
    "squares": both_ways.blockwise_128x128_both,
    "tensorwise": both_ways.tensorwise_both,
}


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

    One scale for all is made of the amax of the cast along the rows, if that has scales of its own.
    """
    if granularity == "squares":
        return both_ways.blockwise_128x128_both(x)[2:]
    if granularity == "tensorwise":
        return _tensorwise_columns(x, rows if beside in ("tensorwise", "axiswise") else None)
    casts: dict[str, Callable[[torch.Tensor], Cast]] = {
        "axiswise": cast_fp8_columns.rowwise_dim1,
        "blockwise": cast_blocks.blockwise_1x128_dim1,
        "mxfp8": cast_blocks.mxfp8_dim1,
    }
    return casts[granularity](x)


def _tensorwise_columns(x: torch.Tensor, rows: Cast | None) -> Cast:
    largest = LARGEST[E4M3]
    if not x.numel():
        scale = x.new_zeros((), dtype=torch.float32) / largest
        return x.new_empty((x.shape[1], x.shape[0]), dtype=E4M3), scale
    scales, factor = (rows[1], largest) if rows is not None else (None, 1.0)
    if scales is None:
        scales = cast_tensorwise.partial_maxima(x).view(torch.float32)
    bits = cast_fp8_columns.spread_largest(scales, factor, x.shape[1])
    q, scale = cast_fp8_columns.transpose_with_maxima(x, E4M3, bits, power_of_two=False)
    return q, scale[0, 0]


def _takes_maxima(x: torch.Tensor, rows: str, columns: str) -> bool:
    return rows == columns == "axiswise" and cast_fp8_columns.is_large(x)


def rows_first_by_kernels(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    """What `cast_rows_first` returns on a GPU."""
    if _takes_maxima(x, rows, columns):
        return list(cast_fp8_columns.rowwise_dim0_and_maxima(x))
    return list(cast_rows(x, rows))


def _rows_first_by_reference(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    casts = list(reference.cast_rows(x, rows))
    if _takes_maxima(x, rows, columns):  # as on a GPU, where the columns' cast reads them
        casts.append(x.abs().amax(0, keepdim=True).float().view(torch.int32))
    return casts


def columns_later_by_kernels(
    x: torch.Tensor, maxima: torch.Tensor | None, _after: torch.Tensor, rows: str, columns: str
) -> list[torch.Tensor]:
    """What `cast_columns_later` returns on a GPU."""
    if maxima is None:
        return list(cast_columns(x, columns, None, ""))
    if columns == "axiswise":
        return list(cast_fp8_columns.transpose_with_maxima(x, E4M3, maxima, power_of_two=False))
    return list(cast_columns(x, columns, (x, maxima), rows))


def maxima_for_columns(casts: list[torch.Tensor], rows: str, columns: str) -> torch.Tensor | None:
    """Maxima of columns or scales of rows that the cast along the columns reuses; None: neither.

    casts: what `cast_rows_first` returned. The largest scale of the rows gives the amax of x.
    """
    if len(casts) > 2:
        return casts[2]
    return casts[1] if columns == "tensorwise" and rows in ("tensorwise", "axiswise") else None


def amax_of_maxima(maxima: torch.Tensor, columns: str) -> torch.Tensor:
    """Largest magnitudes, fp32 [] or [1, cols], of what `maxima_for_columns` returned.

    They differ from those of x by the roundings of a division by 448 and a product with it.
    """
    if columns == "axiswise":
        return maxima.view(torch.float32)
    return maxima.amax() * LARGEST[E4M3] if maxima.numel() else maxima.sum()


def cast_by_kernels(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    """What `cast` returns on a GPU."""
    if rows and rows == columns:
        return list(_BOTH[rows](x))
    by_rows = cast_rows(x, rows) if rows else None
    by_columns = cast_columns(x, columns, by_rows, rows) if columns else None
    return [*(by_rows or ()), *(by_columns or ())]


def _cast_by_reference(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    by_rows = reference.cast_rows(x, rows) if rows else ()
    return [*by_rows, *(reference.cast_columns(x, columns) if columns else ())]


def _layer_norm_by_reference(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    rows: str,
    columns: str,
    keep: bool,
) -> list[torch.Tensor]:
    y = functional.layer_norm(x, x.shape[1:], weight, bias, eps)
    return [*_cast_by_reference(y, rows, columns), *([y] if keep else [])]


def layer_norm_by_kernels(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    rows: str,
    columns: str,
    keep: bool,
) -> list[torch.Tensor]:
    """What `layer_norm_cast` returns on a GPU."""

    def fused(**options: Unpack[CastOptions]) -> Sequence[torch.Tensor]:
        return cast_fused.layer_norm(x, weight, bias, eps=eps, **options)

    def norm() -> torch.Tensor:
        return functional.layer_norm(x, x.shape[1:], weight, bias, eps)

    is_short = x.shape[1] <= cast_fused.MOST_COLUMNS["layer_norm"]
    return _cast_beside(norm, fused if is_short else None, rows, columns, keep)


def _sigmoid_grad_by_reference(
    grad: torch.Tensor, s: torch.Tensor, rows: str, columns: str, keep: bool
) -> list[torch.Tensor]:
    y = reference.sigmoid_grad(grad, s)
    return [*_cast_by_reference(y, rows, columns), *([y] if keep else [])]


def sigmoid_grad_by_kernels(
    grad: torch.Tensor, s: torch.Tensor, rows: str, columns: str, keep: bool
) -> list[torch.Tensor]:
    """What `sigmoid_grad_cast` returns on a GPU."""

    def fused(**options: Unpack[CastOptions]) -> Sequence[torch.Tensor]:
        return cast_fused.sigmoid_grad(grad, s, **options)

    def gradient() -> torch.Tensor:
        y: torch.Tensor = torch.ops.aten.sigmoid_backward(grad, s)
        return y

    is_short = s.shape[1] <= cast_fused.MOST_COLUMNS["sigmoid_grad"]
    return _cast_beside(gradient, fused if is_short else None, rows, columns, keep)


def _cast_beside(
    compute: Callable[[], torch.Tensor],
    fused: Callable[..., Sequence[torch.Tensor]] | None,
    rows: str,
    columns: str,
    keep: bool,
) -> list[torch.Tensor]:
    """Casts of y, and y if it is to be kept.

    compute   returns y
    fused     computes y and casts its rows in one kernel; None where they are too long for it
    """
    if fused is None or rows not in _FUSED:
        y = compute()
        return [*cast_by_kernels(y, rows, columns), *([y] if keep else [])]
    is_read_again = columns not in ("", rows)
    casts = fused(kind=_FUSED[rows], both=columns == rows, keep=keep or is_read_again)
    if not is_read_again:
        return list(casts)
    q, scale, y = casts
    by_columns = cast_columns(y, columns, (q, scale), rows)
    return [q, scale, *by_columns, *([y] if keep else [])]


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
    if a.is_cuda and by == "cublaslt" and granularity != "blockwise":
        return _cublaslt_product(a, b, scale_a, scale_b, accumulation)
    c: torch.Tensor = _product(a, b, scale_a, scale_b, granularity, accumulation)
    return c


def _cublaslt_product(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    accumulation: str,
) -> torch.Tensor:
    m, n = a.shape[0], b.shape[0]
    if not a.numel() or not n:
        return torch.zeros(m, n, dtype=torch.bfloat16, device=a.device)
    if scale_a.numel() != 1 or scale_b.numel() != 1:  # cuBLASLt mixes no kinds of scale
        scale_a = scale_a.reshape(-1, 1).expand(m, 1).contiguous()
        scale_b = scale_b.reshape(1, -1).expand(1, n).contiguous()
    fast = accumulation == "fast"
    return torch._scaled_mm(
        a, b.t(), scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast
    )


def product_by_kernels(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    granularity: str,
    accumulation: str,
) -> torch.Tensor:
    """What kernels.gemm makes of these operands."""
    if granularity == "blockwise":
        return fp8_gemm_blockwise.gemm(a, b, scale_a, scale_b)
    sums: Accumulation = "fast" if accumulation == "fast" else "slow"
    return fp8_gemm.gemm(a, b, scale_a, scale_b, accumulation=sums)


def _cast_with_amax_by_reference(
    x: torch.Tensor, amax: torch.Tensor, both: bool
) -> list[torch.Tensor]:
    q, scale = reference.cast_with_amax(x.float(), amax)
    if not both:
        return [q, scale]
    by_columns = q.t().clone(memory_format=torch.contiguous_format)
    return [q, scale, by_columns, scale.clone()]


def cast_with_amax_by_kernels(
    x: torch.Tensor, amax: torch.Tensor, both: bool
) -> list[torch.Tensor]:
    """What `cast_with_amax` returns on a GPU."""
    return list((both_ways.tensorwise_both if both else cast_tensorwise.tensorwise)(x, amax=amax))


def _like_rows_first(x: torch.Tensor, rows: str, columns: str) -> list[torch.Tensor]:
    casts = like_cast(x, rows, *x.shape)
    if _takes_maxima(x, rows, columns):
        casts.append(x.new_empty((1, x.shape[1]), dtype=torch.int32))
    return casts


def _like_casts_and_kept(
    y: torch.Tensor, rows: str, columns: str, keep: bool
) -> list[torch.Tensor]:
    return like_both(y, rows, columns) + ([y.new_empty(y.shape)] if keep else [])


def _like_product(a: torch.Tensor, b: torch.Tensor, *_: Any) -> torch.Tensor:
    if a.is_cuda:
        return like_product(a, b)
    return a.new_empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16)


def _of_gradients(function: Callable[..., Any], of_fakes: bool = False) -> Callable[..., Any]:
    """The function, for an operator with one keyword more: `gradient_of`, a tensor or None.

    It says that a gradient is cast, and is a tensor on which that gradient depends. Rounding to fp8
    has no derivative, so nothing is cast where a gradient is to be differentiated again. Nor does
    torch.compile differentiate twice: its backward pass refuses to if it reads a tensor that wants
    a gradient, such as this one.
    """

    def call(*arguments: Any, gradient_of: torch.Tensor | None = None) -> Any:
        if gradient_of is not None and torch.is_grad_enabled() and not of_fakes:
            raise RuntimeError(
                "a float8 layer cannot be differentiated twice: its gradient was asked for with "
                "create_graph=True, as for a gradient penalty, a Hessian or an hvp. Give this "
                "layer the recipe high_precision, or leave it a torch.nn.Linear"
            )
        return function(*arguments)

    return call


# x [rows, cols] is bf16, fp16 or fp32 with contiguous rows.
cast: Final = define(
    "cast(Tensor x, str rows, str columns, *, Tensor? gradient_of=None) -> Tensor[]",
    _of_gradients(replayed(cast_by_kernels)),
    _of_gradients(like_both, of_fakes=True),
    _of_gradients(_cast_by_reference),
)
# amax: fp32 []. Whoever calls it computes that together with x.
cast_with_amax: Final = define(
    "cast_with_amax(Tensor x, Tensor amax, bool both, *, Tensor? gradient_of=None) -> Tensor[]",
    _of_gradients(replayed(cast_with_amax_by_kernels)),
    _of_gradients(
        lambda x, _amax, both: like_both(x, "tensorwise", "tensorwise" if both else ""),
        of_fakes=True,
    ),
    _of_gradients(_cast_with_amax_by_reference),
)
# A copy of `value`. It stands in the backward pass, because it wants a gradient: `after`.
copied_after: Final = define(
    "copied_after(Tensor value, Tensor after) -> Tensor",
    lambda value, _after: value.clone(),
    lambda value, _after: torch.empty_like(value),
)
# `maxima`: see maxima_for_columns, from a cast of granularity `rows`. `after` is not read: it is a
# gradient, without which torch.compile would run this in the forward pass and keep what it makes.
cast_rows_first: Final = define(
    "cast_rows_first(Tensor x, str rows, str columns) -> Tensor[]",
    replayed(rows_first_by_kernels),
    _like_rows_first,
    _rows_first_by_reference,
)
cast_columns_later: Final = define(
    "cast_columns_later(Tensor x, Tensor? maxima, Tensor after, str rows, str columns) -> Tensor[]",
    replayed(columns_later_by_kernels),
    lambda x, _maxima, _after, _rows, columns: like_cast(x, columns, *x.t().shape),
    lambda x, _maxima, _after, _rows, columns: list(reference.cast_columns(x, columns)),
)
# The norm is taken along the rows of x.
layer_norm_cast: Final = define(
    "layer_norm_cast(Tensor x, Tensor? weight, Tensor? bias, float eps, str rows, str columns, "
    "bool keep) -> Tensor[]",
    replayed(layer_norm_by_kernels),
    lambda x, _weight, _bias, _eps, *how: _like_casts_and_kept(x, *how),
    _layer_norm_by_reference,
)
# s is what the sigmoid returned.
sigmoid_grad_cast: Final = define(
    "sigmoid_grad_cast(Tensor grad, Tensor s, str rows, str columns, bool keep, *, "
    "Tensor? gradient_of=None) -> Tensor[]",
    _of_gradients(replayed(sigmoid_grad_by_kernels)),
    _of_gradients(lambda grad, _s, *how: _like_casts_and_kept(grad, *how), of_fakes=True),
    _of_gradients(_sigmoid_grad_by_reference),
)
_product: Final = define(
    "product(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, str granularity, "
    "str accumulation) -> Tensor",
    product_by_kernels,
    _like_product,
    lambda a, b, scale_a, scale_b, *_: reference.product(a, b, scale_a, scale_b),
)
