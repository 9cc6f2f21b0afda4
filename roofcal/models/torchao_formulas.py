"""torchao's roofline of training and inference linears as sympy expressions, in seconds.

C[M,N] = A[M,K] @ B[K,N], as torchao writes it. A training linear is three products (output,
grad_input of M x N x K, grad_weight of K x M x N, in bf16 for rowwise_with_gw_hp) and the casts of
its three tensors; an inference linear is the cast of its activation and one product. Equations of
products and kernels: roofcal.models.torchao.

A training cast reads bf16 and writes what the forward and the backward pass need, along both
dimensions. `fused` means that the op before leaves the tensor in registers, so that the first
kernel need not read it. An inference linear casts its activation alone; its weights were cast
before.

Source: get_individual_gemm_time_sympy, get_gemm_time_sympy, get_float8_mem_sympy and
get_tensor_memory_traffic_ovhd_s of the seed document torchao_roofline_utils; of torchao 0.18.0 fp4
(mxfp4, nvfp4), blockwise (1 x 128 scales of activations, 128 x 128 of weights, four bytes each),
inference (get_inference_tensor_memory_traffic_ovhd_s), mxfp8_cublas_rceil and mxfp8_32x32_*.
docs/models.md lists what is odd in torchao and kept here.

No other module of roofcal imports sympy, which costs half a second; commands import this module
only where a formula is asked for.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import sympy

from roofcal.core.devices import DeviceSpec
from roofcal.core.names import did_you_mean
from roofcal.models.errors import PredictError
from roofcal.models.torchao import (
    BYTES,
    DATASHEET,
    SETS,
    Constants,
    from_datasheet,
    product_parts,
    traffic_s,
)

M, K, N = sympy.symbols("M K N", integer=True, positive=True)
ROLES: Final = ("input", "weight", "grad_output")
# Bytes per element.
_BF16, _FP8, _FP4 = (BYTES[name] for name in ("bf16", "fp8", "fp4"))
_SCALE: Final = 4  # bytes of a scale in fp32
_BLOCK: Final = 128


class Kernel(NamedTuple):
    """Bytes per element of the tensor that one kernel reads and writes.

    fusible   the op before can hand over what it reads
    """

    reads: float
    writes: float
    fusible: bool = False

    def moves(self, fused: bool) -> float:
        """Bytes per element."""
        return self.writes if fused and self.fusible else self.reads + self.writes


def _cast(writes: float, fusible: bool = False) -> Kernel:
    return Kernel(reads=_BF16, writes=writes, fusible=fusible)


_AMAX: Final = _cast(0, fusible=True)
_REDUCE: Final = Kernel(reads=0, writes=0)  # partial maxima to one: next to no bytes
_TRANSPOSE: Final = _cast(_BF16)
_FUSED_FP8, _TO_FP8 = _cast(_FP8, fusible=True), _cast(_FP8)
_FUSED_FP4, _TO_FP4 = _cast(_FP4, fusible=True), _cast(_FP4)
_FUSED_TILES, _TO_TILES = (_cast(_FP8 + _SCALE / _BLOCK, fusible=f) for f in (True, False))
_TO_SQUARES: Final = _cast(_FP8 + _SCALE / _BLOCK**2)

_Casts = dict[str, tuple[Kernel, ...]]


def _by_role(activation: tuple[Kernel, ...], weight: tuple[Kernel, ...]) -> _Casts:
    return {"input": activation, "weight": weight, "grad_output": activation}


_BF16_GRAD_WEIGHT: Final = "rowwise_with_gw_hp"  # whose grad_weight product is in bf16
_ROW_SCALES: Final = "rowwise"  # whose activation has one fp32 scale per row
_MXFP8: Final = tuple(f"mxfp8_{name}" for name in ("emulated", "cutlass", "cublas", "cublas_rceil"))
_MXFP8_32X32: Final = ("mxfp8_32x32_flexible_gemm_layout", "mxfp8_32x32_weight")

KERNELS: Final[dict[str, _Casts]] = {
    "tensorwise": _by_role(
        (_AMAX, _REDUCE, _cast(2 * _FP8)),  # both layouts at once
        (_AMAX, _REDUCE, _TO_FP8, _TO_FP8),  # one in the forward, one in the backward pass
    ),
    "rowwise": _by_role(
        (_cast(_FP8 + _BF16, fusible=True), _TO_FP8),  # cast and transpose, cast of the transpose
        (_FUSED_FP8, _TRANSPOSE, _TO_FP8),
    ),
    _BF16_GRAD_WEIGHT: _by_role(
        (_FUSED_FP8,),  # the backward pass takes bf16 of it
        (_TO_FP8, _REDUCE, _TO_FP8),  # the second with one scale for all, the maximum of the rows'
    ),
    **dict.fromkeys(_MXFP8, _by_role((_FUSED_FP8, _TO_FP8), (_FUSED_FP8, _TO_FP8))),
    _MXFP8_32X32[0]: _by_role((_FUSED_FP8,), (_FUSED_FP8,)),
    _MXFP8_32X32[1]: _by_role((_FUSED_FP8, _TO_FP8), (_TO_FP8, Kernel(reads=_FP8, writes=_FP8))),
    "mxfp4_cutlass": _by_role((_FUSED_FP4, _TO_FP4), (_FUSED_FP4, _TO_FP4)),
    "blockwise": _by_role((_FUSED_TILES, _TO_TILES), (_TO_SQUARES, _TO_SQUARES)),
}


# The cast of an inference linear: bytes per element of each kernel. The last one writes the scales.
ACTIVATION_CASTS: Final[dict[str, tuple[float, ...]]] = {
    "tensorwise": (2, 3),
    _ROW_SCALES: (3,),
    "mxfp8": (3,),
    "mxfp4": (2.5,),
    "nvfp4": (4.5,),  # amax 2, cast 2.5
    "nvfp4_static": (2.5,),
    "nvfp4_no_global_scale": (2.5,),
}
# recipe -> format of the operands of its products, elements per scale (None: scales not counted)
FORMATS: Final[dict[str, tuple[str, int | None]]] = {
    "bf16": ("bf16", None),
    **dict.fromkeys(("tensorwise", "rowwise", _BF16_GRAD_WEIGHT, "blockwise"), ("fp8", None)),
    **dict.fromkeys(("mxfp8", *_MXFP8, *_MXFP8_32X32), ("fp8", 32)),
    **dict.fromkeys(("mxfp4", "mxfp4_cutlass"), ("fp4", 32)),
    **dict.fromkeys(("nvfp4", "nvfp4_static", "nvfp4_no_global_scale"), ("fp4", 16)),
}
TRAINING_RECIPES: Final = ("bf16", *KERNELS)
INFERENCE_RECIPES: Final = ("bf16", *ACTIVATION_CASTS)


def product_expression(constants: Constants, recipe: str) -> sympy.Expr:
    """The forward product.

    Raises PredictError for an unknown recipe and for a device without a rate of its format.
    """
    check_name("recipe of products", recipe, FORMATS)
    return _product(constants, *FORMATS[recipe], M, K, N)


def cast_expression(constants: Constants, recipe: str, role: str, fused: bool) -> sympy.Expr:
    """The cast of one tensor of a training linear, all its kernels.

    Raises PredictError for an unknown recipe or role.
    """
    check_name("tensor role", role, ROLES)
    check_name("recipe of casts", recipe, KERNELS)
    elements = {"input": M * K, "weight": K * N, "grad_output": M * N}[role]
    moved = [kernel.moves(fused) * elements for kernel in KERNELS[recipe][role]]
    return sympy.Add(*(_kernel(constants, part) for part in moved))


def linear_expression(constants: Constants, recipe: str, fused: bool) -> sympy.Expr:
    """Forward and backward of a linear; bf16 has no casts.

    fused: the op before each activation and gradient leaves it in registers; weights never are.
    Raises PredictError for an unknown recipe and for a device without a rate of its format.
    """
    check_name("recipe of linears", recipe, TRAINING_RECIPES)
    last = FORMATS["bf16" if recipe == _BF16_GRAD_WEIGHT else recipe]
    output = product_expression(constants, recipe)
    grad_input = _product(constants, *FORMATS[recipe], M, N, K)
    products = output + grad_input + _product(constants, *last, K, M, N)
    if recipe == "bf16":
        return products
    fuses = {"input": fused, "weight": False, "grad_output": fused}
    return products + sympy.Add(
        *(cast_expression(constants, recipe, *one) for one in fuses.items())
    )


def inference_expression(constants: Constants, recipe: str) -> sympy.Expr:
    """The activation's cast (bf16 has none) and the product; raises as linear_expression does."""
    check_name("recipe of inference linears", recipe, INFERENCE_RECIPES)
    total = product_expression(constants, recipe)
    if recipe == "bf16":
        return total
    moved, (_, block) = [width * (M * K) for width in ACTIVATION_CASTS[recipe]], FORMATS[recipe]
    if recipe == _ROW_SCALES:
        moved[-1] = moved[-1] + _SCALE * M
    if block is not None:  # scales of one byte
        moved[-1] = moved[-1] + M * (K // block)
    return total + sympy.Add(*(_kernel(constants, part) for part in moved))


def evaluate(expression: sympy.Expr, m: int, k: int, n: int) -> float:
    """Seconds at one shape."""
    return float(expression.subs({M: m, K: k, N: n}))


def _product(
    constants: Constants, operand: str, block: int | None, m: Any, k: Any, n: Any
) -> sympy.Expr:
    math, dram = product_parts(constants, operand, block, (m, k, n))
    return sympy.Max(sympy.Max(math, dram), constants.launch_s)


def _kernel(constants: Constants, moved: Any) -> sympy.Expr:
    """A kernel that moves so many bytes and computes next to nothing."""
    return sympy.Max(traffic_s(constants, moved), constants.launch_s)


def check_name(kind: str, name: str, allowed: Iterable[str]) -> None:
    """Raises PredictError, with the nearest name and all there are, for one that is not allowed."""
    names = sorted(allowed)
    if name not in names:
        suggestion = did_you_mean(name, names, otherwise=";")
        raise PredictError(
            f"torchao: unknown {kind} '{name}'{suggestion} known: {', '.join(names)}"
        )


def choose_constants(device: str, name: str | None, spec: DeviceSpec | None) -> Constants:
    """Constants of the set `name`, or without a name of the first that has the device.

    The order: torchao-2025, torchao-0.18.0, datasheet. Raises PredictError where none has it.
    """
    if name not in (None, DATASHEET):
        check_name("set of constants", name, [*SETS, DATASHEET])
        check_name(f"device of {name}", device, SETS[name])
        return SETS[name][device]
    listed = [rows[device] for rows in SETS.values() if device in rows and name is None]
    if listed:
        return listed[0]
    if spec is None:
        devices = sorted({device for rows in SETS.values() for device in rows})
        raise PredictError(
            f"torchao: unknown device '{device}': there is no config/devices/{device}.yaml; "
            f"torchao lists {', '.join(devices)}"
        )
    return from_datasheet(spec)
