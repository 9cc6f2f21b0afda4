"""Casts to fp8 of what a norm or an activation returns, without writing it in between.

    layer_norm   y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias
    rms_norm     y = x / sqrt(mean(x^2) + eps) * weight
    silu_mul     y = gate * sigmoid(gate) * up
    sigmoid_grad y = grad * s * (1 - s), the gradient through s = sigmoid(x)

The layers of kernels.linear use layer_norm and sigmoid_grad. rms_norm and silu_mul are public API
for layers of language models, which read these casts; no op of the study measures them.

Shapes: x, gate, up, grad, s [rows, cols] bf16, fp16 or fp32 with contiguous rows of up to 32768
columns (norms: 16384); weight, bias [cols] of those types. y is computed in fp32, rounded once to
the type of x, and cast with scales of one of these kinds:

    rowwise           q [rows, cols]  scale [rows, 1] fp32
    blockwise_1x128   q [rows, cols]  scale [rows, ceil(cols/128)] fp32
    mxfp8_floor       q [rows, cols]  scale [rows, ceil(cols/32)] e8m0, see kernels.cast.blocks
    mxfp8_ceil        the same, scales rounded up

Scales of blockwise_1x128 lie transposed in memory (kernels.common.fp8_scales.new_block_scales),
others in rows. Arithmetic of the scales: kernels.common.fp8_scales.

`both` adds the cast along the columns, transposed: y is then written, and read once more; the
maxima of its columns come from the registers of the first pass. Bytes moved: each input once, q and
the scales, and y where `keep` or `both` asks for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypedDict, Unpack

import torch
import triton
import triton.language as tl

from kernels.cast.blocks import cast_along_columns, empty_blocks, store_blocks, with_e8m0
from kernels.cast.columns import PersistentConfig, rowwise_dim1, stages_ahead, transpose_with_maxima
from kernels.cast.rows import RowsConfig, rows_tile
from kernels.cast.tiles import E4M3, empty_rowwise, like_both, load_tile
from kernels.common.architecture import compute_units, has_ptx, is_amd_build, shared_memory_bytes
from kernels.common.checks import CASTABLE, check_matrix, dtype_names, largest_fp8_value
from kernels.common.fp8_scales import BLOCK, MX_BLOCK, fill_with_scale_of_zeros, magnitude
from kernels.common.operators import operator

Outputs = tuple[torch.Tensor, ...]
# kind of scale -> (elements of a block, None: the row; its name in kernels.cast.blocks)
KINDS: Final[dict[str, tuple[int | None, str]]] = {
    "rowwise": (None, "fp32"),
    "blockwise_1x128": (BLOCK, "fp32"),
    "mxfp8_floor": (MX_BLOCK, "floor"),
    "mxfp8_ceil": (MX_BLOCK, "ceil"),
}

# Whole rows stay in registers; a layer norm of 32768 columns would spill on NVIDIA GPUs.
MOST_COLUMNS: Final = {
    "rms_norm": 16384,
    "layer_norm": 16384,
    "silu_mul": 32768,
    "sigmoid_grad": 32768,
}
# 8192^2 and 16384^2 bf16 on an H200, in us: norms with 64 elements per thread, layer norm 65.0 and
# 295, rms norm 58.1 and 232, against 71.0, 293 and 58.2, 247 with 32; silu_mul with 16 takes 89.9
# and 344, with 32 90.6 and 371. Without PTX (rounding to bf16 in pairs, a sigmoid of four
# instructions) layer norm takes 505 at 16384^2.
_ROWS: Final = RowsConfig(least_elements=4096, most_rows=64, elements_per_thread=32, most_warps=32)
ROWS_OF: Final = {
    "rms_norm": replace(_ROWS, elements_per_thread=64),
    "layer_norm": replace(_ROWS, elements_per_thread=64),
    "silu_mul": replace(_ROWS, elements_per_thread=16),
    "sigmoid_grad": replace(_ROWS, elements_per_thread=16),  # not measured: has two inputs, too
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BothConfig:
    """How y is cast while the maxima of its columns are taken."""

    rows: RowsConfig
    programs: PersistentConfig


# With the maxima of columns from the same pass. Layer norm takes 181 and 681 with two rows ahead of
# the one that is cast, 199 and 814 with none; rows ahead need shared memory.
ROOM_FOR_ROWS_AHEAD: Final = 200 << 10  # bytes of shared memory
BOTH_WITH_ROWS_AHEAD: Final = BothConfig(
    rows=replace(_ROWS, elements_per_thread=64),
    programs=PersistentConfig(warps_per_unit=8, stages=3, most_bytes_ahead=65536),
)
BOTH: Final = BothConfig(
    rows=_ROWS, programs=PersistentConfig(warps_per_unit=16, stages=1, most_bytes_ahead=65536)
)
BOTH_MOST_COLUMNS: Final = 16384  # the columns' maxima of longer rows would spill as well
BOTH_LEAST_ELEMENTS: Final = 1 << 25  # a smaller y is cast along its columns by another pass


@triton.jit
def _sigmoid(x, PTX: tl.constexpr):
    if PTX:
        e = tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x * -1.4426950408889634], tl.float32, True, 1
        )
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [1.0 + e], tl.float32, True, 1
        )
    else:  # noqa: RET505 (both branches are traced without it)
        return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _rounded(x, T: tl.constexpr, PTX: tl.constexpr):
    """x in the type T; two at a time where PTX, which Triton's own conversion does not."""
    if PTX and T == tl.bfloat16:  # noqa: SIM300 (T is a constexpr)
        return tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,r,r", [x], tl.bfloat16, True, 2
        )
    else:  # noqa: RET505 (both branches are traced without it)
        return x.to(T)


@triton.jit
def _normed(x, weight, bias, inside, col, COLS, eps, OP: tl.constexpr):
    """The norm of rows x [R, BLOCK] in fp32; what lies outside is zero before it.

    Weights are loaded as often as there are rows: in the layout of x, so that they need not pass
    through shared memory.
    """
    if OP == "layer_norm":
        x = tl.where(inside, x - (tl.sum(x, axis=1) / COLS)[:, None], 0.0)
    inverse = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(x * x, axis=1) / COLS + eps))
    at = col[None, :] + tl.zeros(x.shape, dtype=tl.int32)
    y = x * inverse[:, None]
    if weight is not None:
        y = y * tl.load(weight + at, mask=at < COLS, other=0.0).to(tl.float32)
    if bias is not None:
        y += tl.load(bias + at, mask=at < COLS, other=0.0).to(tl.float32)
    return y


@triton.jit
def _cast_rows(
    row,
    operands,
    outputs,
    sizes,
    eps,
    LARGEST: tl.constexpr,
    OP: tl.constexpr,
    SCALES: tl.constexpr,
    SIZE: tl.constexpr,
    PTX: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """R whole rows from `row` on, in registers from their load to their cast; returns y of them."""
    x, other, weight, bias = operands
    q, scale, y = outputs
    ROWS, COLS, X_STRIDE, OTHER_STRIDE = sizes
    m = row + tl.arange(0, R)
    col = tl.arange(0, BLOCK)
    values, inside = load_tile(x, m, col, ROWS, COLS, X_STRIDE)
    values = values.to(tl.float32)
    if other is not None:
        partner, _ = load_tile(other, m, col, ROWS, COLS, OTHER_STRIDE)
        partner = partner.to(tl.float32)
        if OP == "silu_mul":
            result = values * _sigmoid(values, PTX) * partner
        else:
            result = values * partner * (1.0 - partner)
    else:
        result = _normed(values, weight, bias, inside, col, COLS, eps, OP)
    rounded = _rounded(tl.where(inside, result, 0.0), x.dtype.element_ty, PTX)
    if y is not None:
        tl.store(y + m.to(tl.int64)[:, None] * COLS + col[None, :], rounded, mask=inside)
    store_blocks(rounded, q, scale, row, 0, ROWS, COLS, LARGEST, SCALES, SIZE, R, BLOCK)
    return rounded


@triton.jit
def _fused_kernel(
    x,
    other,
    weight,
    bias,
    q,
    scale,
    y,
    largest,
    ROWS,
    COLS,
    X_STRIDE,
    OTHER_STRIDE,
    eps,
    LARGEST: tl.constexpr,
    OP: tl.constexpr,
    SCALES: tl.constexpr,
    SIZE: tl.constexpr,
    PTX: tl.constexpr,
    STAGES: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """R rows per program; with `largest` [COLS], zeros, every num_programs-th R rows."""
    operands = (x, other, weight, bias)
    outputs = (q, scale, y)
    sizes = (ROWS, COLS, X_STRIDE, OTHER_STRIDE)
    first = tl.program_id(0)
    if largest is None:
        row = first * R
        _cast_rows(row, operands, outputs, sizes, eps, LARGEST, OP, SCALES, SIZE, PTX, R, BLOCK)
    else:
        of_columns = tl.zeros((R, BLOCK), dtype=tl.int32)
        count = tl.cdiv(ROWS, R)
        for step in tl.range(first, count, tl.num_programs(0), num_stages=STAGES):
            row = step * R
            rounded = _cast_rows(
                row, operands, outputs, sizes, eps, LARGEST, OP, SCALES, SIZE, PTX, R, BLOCK
            )
            of_columns = tl.maximum(of_columns, magnitude(rounded))
        col = tl.arange(0, BLOCK)
        tl.atomic_max(largest + col, tl.max(of_columns, axis=0), mask=col < COLS, sem="relaxed")


class CastOptions(TypedDict, total=False):
    """What all fused casts take by keyword.

    kind          of the scales, one of KINDS; default: rowwise
    both          cast y along its columns as well, transposed
    keep          return y as well
    power_of_two  round fp32 scales up to powers of two, those of both casts
    units         as of kernels.common.architecture.compute_units, where maxima of columns are found
    """

    kind: str
    both: bool
    keep: bool
    power_of_two: bool
    units: int | None


_OPTIONS: Final = (
    "str kind='rowwise', bool both=False, bool keep=False, bool power_of_two=False, int? units=None"
)


_GRANULARITIES: Final = {None: "axiswise", BLOCK: "blockwise", MX_BLOCK: "mxfp8"}


def _like_fused(place: int) -> Callable[..., list[torch.Tensor]]:
    """`like` of an operator whose argument at this place is the type of the casts."""

    def like(
        x: torch.Tensor,
        *args: Any,
        kind: str = "rowwise",
        both: bool = False,
        keep: bool = False,
        **_: Any,
    ) -> list[torch.Tensor]:
        granularity = _GRANULARITIES[_blocks_of_kind(kind, False)[0]]
        dtype = args[place - 1] if len(args) >= place else E4M3
        casts = like_both(x, granularity, granularity if both else "", dtype)
        return [*casts, x.new_empty(x.shape)] if keep else casts

    return like


@operator(_like_fused(3), options=_OPTIONS)
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    eps: float = 1e-5,
    **options: Unpack[CastOptions],
) -> Outputs:
    """(q, scale) of the layer norm; then those along the columns with `both`, y with `keep`.

    weight, bias: None for none. Raises ValueError for inputs that kernels.common.checks refuses,
    vectors that do not fit, rows that are too long, an unknown kind, or power_of_two beside mxfp8.
    """
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            _check_vector(name, vector, x)
    operands = _Operands(x, weight=weight, bias=bias, eps=eps)
    return _fused("layer_norm", operands, dtype, **options)


@operator(_like_fused(2), options=_OPTIONS)
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    eps: float = 1e-6,
    **options: Unpack[CastOptions],
) -> Outputs:
    """(q, scale) of the RMS norm; more outputs and errors as layer_norm."""
    _check_vector("weight", weight, x)
    return _fused("rms_norm", _Operands(x, weight=weight, eps=eps), dtype, **options)


@operator(_like_fused(2), options=_OPTIONS)
def silu_mul(
    gate: torch.Tensor,
    up: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    **options: Unpack[CastOptions],
) -> Outputs:
    """(q, scale) of silu(gate) * up; more outputs and errors as layer_norm."""
    _check_pair(("gate", gate), ("up", up))
    return _fused("silu_mul", _Operands(gate, other=up), dtype, **options)


@operator(_like_fused(2), options=_OPTIONS)
def sigmoid_grad(
    grad: torch.Tensor,
    s: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    **options: Unpack[CastOptions],
) -> Outputs:
    """(q, scale) of grad * s * (1 - s); more outputs and errors as layer_norm."""
    _check_pair(("grad", grad), ("s", s))
    return _fused("sigmoid_grad", _Operands(grad, other=s), dtype, **options)


class _Operands(NamedTuple):
    """What an op reads: a matrix, and another one or vectors along its rows."""

    x: torch.Tensor
    other: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    eps: float = 0.0


def _fused(
    op: str,
    operands: _Operands,
    dtype: torch.dtype,
    *,
    kind: str = "rowwise",
    both: bool = False,
    keep: bool = False,
    power_of_two: bool = False,
    units: int | None = None,
) -> Outputs:
    x = operands.x
    check_matrix(x)
    largest = largest_fp8_value(dtype, x)
    if x.shape[1] > MOST_COLUMNS[op]:
        raise ValueError(f"x: wanted at most {MOST_COLUMNS[op]} columns for {op}, got {x.shape[1]}")
    size, scales = _blocks_of_kind(kind, power_of_two)
    rows, cols = x.shape
    cast = empty_blocks(x, dtype, scales, size) if size else empty_rowwise(rows, cols, dtype, x)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device) if keep or both else None
    maxima = None
    is_large = x.numel() >= BOTH_LEAST_ELEMENTS
    if both and size is None and is_large and cols <= BOTH_MOST_COLUMNS:
        maxima = torch.zeros((1, cols), dtype=torch.int32, device=x.device)
    if x.numel():
        _launch(op, operands, (*cast, y, maxima), largest, size, scales, units)
    elif cast[1].dtype == torch.float32:
        fill_with_scale_of_zeros(cast[1], largest, power_of_two)
    outputs: Outputs = with_e8m0(cast)
    if y is not None and both:
        if maxima is not None:
            outputs += transpose_with_maxima(y, dtype, maxima, power_of_two)
        elif size:
            outputs += cast_along_columns(y, dtype, scales, size)
        else:
            outputs += rowwise_dim1(y, dtype, power_of_two=power_of_two, units=units)
    return (*outputs, y) if y is not None and keep else outputs


def _launch(
    op: str,
    operands: _Operands,
    outputs: tuple[torch.Tensor | None, ...],
    largest: float,
    size: int | None,
    scales: str,
    units: int | None,
) -> None:
    """Fill (q, scale, y, maxima of columns); the last two unless they are None."""
    x, other = operands.x, operands.other
    rows, cols = x.shape
    both = outputs[-1] is not None
    has_room_for_rows_ahead = shared_memory_bytes(x) >= ROOM_FOR_ROWS_AHEAD
    with_maxima = BOTH_WITH_ROWS_AHEAD if has_room_for_rows_ahead else BOTH
    tile = rows_tile(cols, with_maxima.rows if both else ROWS_OF[op])
    block, warps = max(tile.block, size or 1), tile.num_warps
    if is_amd_build():  # a warp has 64 threads there, and a program at most 1024
        warps = max(1, warps // 2)
    programs = triton.cdiv(rows, tile.rows)
    if both:
        per_unit = max(1, with_maxima.programs.warps_per_unit // warps)
        programs = min(programs, compute_units(x, units) * per_unit)
    _fused_kernel[(programs,)](
        x,
        other,
        operands.weight,
        operands.bias,
        *outputs,
        rows,
        cols,
        x.stride(0),
        0 if other is None else other.stride(0),
        operands.eps,
        LARGEST=largest,
        OP=op,
        SCALES=scales,
        SIZE=size or block,
        PTX=has_ptx(x),
        STAGES=stages_ahead(block * tile.rows * x.element_size(), with_maxima.programs),
        R=tile.rows,
        BLOCK=block,
        num_warps=warps,
    )


def _blocks_of_kind(kind: str, power_of_two: bool) -> tuple[int | None, str]:
    """(elements of a block, None: the row; kind of scales in kernels.cast.blocks)."""
    if kind not in KINDS:
        raise ValueError(f"kind: wanted {', '.join(KINDS)}, got {kind}")
    if not power_of_two:
        return KINDS[kind]
    if kind.startswith("mxfp8"):
        raise ValueError(f"power_of_two: wanted False for {kind} (it is anyway), got True")
    return KINDS[kind][0], "power_of_two"


def _check_pair(first: tuple[str, torch.Tensor], second: tuple[str, torch.Tensor]) -> None:
    (first_name, x), (name, other) = first, second
    check_matrix(other)
    if other.shape != x.shape or other.dtype != x.dtype or other.device != x.device:
        raise ValueError(f"{name}: wanted {_described(x)} as {first_name}, got {_described(other)}")


def _check_vector(name: str, vector: torch.Tensor, x: torch.Tensor) -> None:
    check_matrix(x)
    fits = vector.shape == x.shape[1:] and vector.is_contiguous() and vector.dtype in CASTABLE
    if not fits or vector.device != x.device:
        wanted = f"bfloat16, float16 or float32 [{x.shape[1]}] on {x.device}, contiguous"
        raise ValueError(f"{name}: wanted {wanted}, got {_described(vector)} on {vector.device}")


def _described(x: torch.Tensor) -> str:
    return f"{dtype_names(x.dtype)} {list(x.shape)}"
