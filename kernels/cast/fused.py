"""Casts to fp8 of what a norm or an activation makes, without writing it in between.

    rms_norm     y = x / sqrt(mean(x^2) + eps) * weight
    layer_norm   y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias
    sigmoid      y = 1 / (1 + exp(-x))
    silu_mul     y = gate * sigmoid(gate) * up
    sigmoid_grad y = grad * s * (1 - s), what comes back through s = sigmoid(x)

Shapes: x, gate, up, grad, s [rows, cols] bf16, fp16 or fp32 with contiguous rows of up to 32768
columns (norms: 16384); weight, bias [cols] of those types. y is made in fp32, rounded once to the
type of x, and cast with scales of one of these kinds:

    rowwise           q [rows, cols]  scale [rows, 1] fp32
    blockwise_1x128   q [rows, cols]  scale [rows, ceil(cols/128)] fp32
    mxfp8_floor       q [rows, cols]  scale [rows, ceil(cols/32)] e8m0, see kernels.cast.blocks
    mxfp8_ceil        the same, scales rounded up

Scales of blockwise_1x128 lie transposed in memory (kernels.common.fp8_scales.new_block_scales),
others in rows. `power_of_two` rounds fp32 scales up, those along the rows and with `both` of the
columns.

`both` adds the cast along the columns, transposed: y is then written, and read once more; the
maxima of its columns come from the registers of the first pass.

Arithmetic of the scales: kernels.common.fp8_scales. Bytes: each input once, q and the scales, and y
where `keep` or `both` asks for it.
"""

from functools import cache
from typing import Any, Final

import torch
import triton
import triton.language as tl

from kernels.cast.blocks import BLOCK, MX_BLOCK, _cast_blocks, _empty, _named, along_columns
from kernels.cast.columns import _empty_pair, rowwise_dim1, stages_of, transposed
from kernels.cast.rows import rows_tile
from kernels.common import configs
from kernels.common.fp8_scales import (
    INPUTS,
    check_matrix,
    check_target,
    compute_units,
    fill_as_of_zeros,
    magnitude,
)

Outputs = tuple[torch.Tensor, ...]
# kind of scale -> (elements of a block, None: the row; its name in cast_blocks)
KINDS: Final[dict[str, tuple[int | None, str]]] = {
    "rowwise": (None, "fp32"),
    "blockwise_1x128": (BLOCK, "fp32"),
    "mxfp8_floor": (MX_BLOCK, "floor"),
    "mxfp8_ceil": (MX_BLOCK, "ceil"),
}


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
    spread = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(x * x, axis=1) / COLS + eps))
    at = col[None, :] + tl.zeros(x.shape, dtype=tl.int32)
    made = x * spread[:, None]
    if weight is not None:
        made = made * tl.load(weight + at, mask=at < COLS, other=0.0).to(tl.float32)
    if bias is not None:
        made += tl.load(bias + at, mask=at < COLS, other=0.0).to(tl.float32)
    return made


@triton.jit
def _cast_rows(
    row,
    x,
    other,
    weight,
    bias,
    q,
    scale,
    y,
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
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """R whole rows from `row` on, in registers from their load to their cast; returns y of them."""
    m = row + tl.arange(0, R)
    col = tl.arange(0, BLOCK)
    inside = (m < ROWS)[:, None] & (col < COLS)[None, :]
    source = x + m.to(tl.int64)[:, None] * X_STRIDE + col[None, :]
    values = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
    if OP == "sigmoid":
        made = _sigmoid(values, PTX)
    elif other is not None:
        source = other + m.to(tl.int64)[:, None] * OTHER_STRIDE + col[None, :]
        beside = tl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
        beside = beside.to(tl.float32)
        if OP == "silu_mul":
            made = values * _sigmoid(values, PTX) * beside
        else:
            made = values * beside * (1.0 - beside)
    else:
        made = _normed(values, weight, bias, inside, col, COLS, eps, OP)
    made = _rounded(tl.where(inside, made, 0.0), x.dtype.element_ty, PTX)
    if y is not None:
        tl.store(y + m.to(tl.int64)[:, None] * COLS + col[None, :], made, mask=inside)
    _cast_blocks(made, q, scale, row, 0, ROWS, COLS, LARGEST, SCALES, SIZE, R, BLOCK)
    return made


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
    if largest is None:
        _cast_rows(
            *(tl.program_id(0) * R, x, other, weight, bias, q, scale, y, ROWS, COLS),
            *(X_STRIDE, OTHER_STRIDE, eps, LARGEST, OP, SCALES, SIZE, PTX, R, BLOCK),
        )
    else:
        found = tl.zeros((R, BLOCK), dtype=tl.int32)
        first, count = tl.program_id(0), tl.cdiv(ROWS, R)
        for step in tl.range(first, count, tl.num_programs(0), num_stages=STAGES):
            made = _cast_rows(
                *(step * R, x, other, weight, bias, q, scale, y, ROWS, COLS),
                *(X_STRIDE, OTHER_STRIDE, eps, LARGEST, OP, SCALES, SIZE, PTX, R, BLOCK),
            )
            found = tl.maximum(found, magnitude(made))
        col = tl.arange(0, BLOCK)
        tl.atomic_max(largest + col, tl.max(found, axis=0), mask=col < COLS, sem="relaxed")


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    eps: float = 1e-6,
    kind: str = "rowwise",
    keep: bool = False,
    both: bool = False,
    power_of_two: bool = False,
) -> Outputs:
    """(q, scale) of the rms norm; with `both` (q, scale) of its columns; with `keep` y.

    Raises ValueError for inputs that fp8_scales refuses, a weight that does not fit, rows that
    are too long, an unknown kind, or power_of_two beside one of mxfp8.
    """
    _check_vector("weight", weight, x)
    return _fused("rms_norm", x, dtype, kind, keep, both, power_of_two, weight=weight, eps=eps)


def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    eps: float = 1e-5,
    kind: str = "rowwise",
    keep: bool = False,
    both: bool = False,
    power_of_two: bool = False,
) -> Outputs:
    """(q, scale) of the layer norm, what follows and what it raises as rms_norm.

    weight, bias: None for none.
    """
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            _check_vector(name, vector, x)
    return _fused(
        "layer_norm", x, dtype, kind, keep, both, power_of_two, weight=weight, bias=bias, eps=eps
    )


def sigmoid(
    x: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    kind: str = "rowwise",
    keep: bool = False,
    both: bool = False,
    power_of_two: bool = False,
) -> Outputs:
    """(q, scale) of the sigmoid, what follows and what it raises as rms_norm."""
    return _fused("sigmoid", x, dtype, kind, keep, both, power_of_two)


def silu_mul(
    gate: torch.Tensor,
    up: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    kind: str = "rowwise",
    keep: bool = False,
    both: bool = False,
    power_of_two: bool = False,
) -> Outputs:
    """(q, scale) of silu(gate) * up, what follows and what it raises as rms_norm."""
    _check_pair(("gate", gate), ("up", up))
    return _fused("silu_mul", gate, dtype, kind, keep, both, power_of_two, other=up)


def sigmoid_grad(
    grad: torch.Tensor,
    s: torch.Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    kind: str = "rowwise",
    keep: bool = False,
    both: bool = False,
    power_of_two: bool = False,
) -> Outputs:
    """(q, scale) of grad * s * (1 - s), what follows and what it raises as rms_norm."""
    _check_pair(("grad", grad), ("s", s))
    return _fused("sigmoid_grad", grad, dtype, kind, keep, both, power_of_two, other=s)


def _fused(
    op: str,
    x: torch.Tensor,
    dtype: torch.dtype,
    kind: str,
    keep: bool,
    both: bool,
    power_of_two: bool,
    **more: Any,
) -> Outputs:
    check_matrix(x)
    largest = check_target(dtype, x)
    _check_columns(op, x)
    size, scales = _scales_of(kind, power_of_two)
    rows, cols = x.shape
    pair = _empty(x, dtype, scales, size) if size else _empty_pair(rows, cols, dtype, x)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device) if keep or both else None
    maxima = None
    large = x.numel() >= configs.FUSED_BOTH_LEAST_ELEMENTS
    if both and size is None and large and cols <= configs.BOTH_MOST_COLUMNS:
        maxima = torch.zeros((1, cols), dtype=torch.int32, device=x.device)
    if x.numel():
        _launch(op, x, (*pair, y, maxima), largest, (size, scales), more)
    elif pair[1].dtype == torch.float32:
        fill_as_of_zeros(pair[1], largest, power_of_two)
    made: Outputs = _named(pair)
    if y is not None and maxima is not None:
        made += transposed(y, dtype, maxima, power_of_two)
    elif y is not None and both and size:
        made += along_columns(y, dtype, scales, size)
    elif y is not None and both:
        made += rowwise_dim1(y, dtype, power_of_two=power_of_two)
    return (*made, y) if y is not None and keep else made


def _launch(
    op: str,
    x: torch.Tensor,
    made: tuple[torch.Tensor | None, ...],
    largest: float,
    blocks: tuple[int | None, str],
    more: dict[str, Any],
) -> None:
    rows, cols = x.shape
    size, scales = blocks
    both = made[-1] is not None
    for_both, persistent = configs.FUSED_BOTH[_has_room(x)]
    block, at_once, warps = rows_tile(cols, for_both if both else configs.FUSED[op])
    block = max(block, size or 1)
    if torch.version.hip is not None:  # a warp has 64 threads there, and a program at most 1024
        warps = max(1, warps // 2)
    programs = triton.cdiv(rows, at_once)
    if both:
        most = compute_units(x) * max(1, persistent.warps_per_unit // warps)
        programs = min(programs, most)
    other = more.get("other")
    _fused_kernel[(programs,)](
        *(x, other, more.get("weight"), more.get("bias"), *made, rows, cols),
        *(x.stride(0), 0 if other is None else other.stride(0), more.get("eps", 0.0)),
        LARGEST=largest,
        OP=op,
        SCALES=scales,
        SIZE=size or block,
        PTX=_has_ptx(x),
        STAGES=stages_of(block * at_once * x.element_size(), persistent),
        R=at_once,
        BLOCK=block,
        num_warps=warps,
    )


def _has_room(x: torch.Tensor) -> bool:
    """Whether a program on x's GPU has shared memory for rows ahead of the one it casts."""
    return x.is_cuda and _shared_memory(x.get_device()) >= configs.ROOM_FOR_ROWS_AHEAD


@cache
def _shared_memory(device: int) -> int:
    """Bytes of shared memory that a program may have; kept, for asking takes microseconds."""
    most: int = triton.runtime.driver.active.utils.get_device_properties(device)["max_shared_mem"]
    return most


def _has_ptx(x: torch.Tensor) -> bool:
    """Whether x is on an NVIDIA GPU; Triton's interpreter knows no PTX either."""
    return x.is_cuda and torch.version.hip is None


def _scales_of(kind: str, power_of_two: bool) -> tuple[int | None, str]:
    """(elements of a block, None: the row; SCALES of kernels.cast.blocks)."""
    if kind not in KINDS:
        raise ValueError(f"kind: wanted {', '.join(KINDS)}, got {kind}")
    if not power_of_two:
        return KINDS[kind]
    if kind.startswith("mxfp8"):
        raise ValueError(f"power_of_two: wanted False for {kind} (it is anyway), got True")
    return KINDS[kind][0], "power_of_two"


def _check_columns(op: str, x: torch.Tensor) -> None:
    most = configs.FUSED_MOST_COLUMNS[op]
    if x.shape[1] > most:
        raise ValueError(f"x: wanted at most {most} columns for {op}, got {x.shape[1]}")


def _check_pair(first: tuple[str, torch.Tensor], second: tuple[str, torch.Tensor]) -> None:
    (as_has, x), (name, other) = first, second
    check_matrix(other)
    if other.shape != x.shape or other.dtype != x.dtype or other.device != x.device:
        raise ValueError(f"{name}: wanted {_told(x)} as {as_has}, got {_told(other)}")


def _check_vector(name: str, vector: torch.Tensor, x: torch.Tensor) -> None:
    check_matrix(x)
    fits = vector.shape == x.shape[1:] and vector.is_contiguous() and vector.dtype in INPUTS
    if not fits or vector.device != x.device:
        wanted = f"bfloat16, float16 or float32 [{x.shape[1]}] on {x.device}, contiguous"
        raise ValueError(f"{name}: wanted {wanted}, got {_told(vector)} on {vector.device}")


def _told(x: torch.Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
