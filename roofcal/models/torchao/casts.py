"""Bytes that the casts of a linear move, kernel by kernel, and their seconds.

    t(kernel) = max(bytes / bandwidth / fraction, 2 us)      t(cast) = sum over its kernels

A training cast reads bf16 and writes what the forward and the backward pass need, along both
dimensions. `fused` means that the op before leaves the tensor in registers, so that the first
kernel need not read it. An inference linear casts its activation alone; its weights were cast
before.

Source: get_tensor_memory_traffic_ovhd_s of the seed document torchao_roofline_utils; of torchao
0.18.0 mxfp8_cublas_rceil, mxfp8_32x32_*, mxfp4_cutlass, blockwise (1 x 128 scales of activations,
128 x 128 of weights, four bytes each) and get_inference_tensor_memory_traffic_ovhd_s.
docs/models.md lists what is odd in torchao and kept here.
"""

from dataclasses import dataclass
from typing import Final

from roofcal.models.torchao.constants import Constants, Maximum, Size, check_name

ROLES: Final = ("input", "weight", "grad_output")
_BF16, _FP8, _FP4 = 2, 1, 0.5  # bytes per element
_SCALE: Final = 4  # bytes of a scale in fp32
_BLOCK: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
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


_MXFP8: Final = _by_role((_FUSED_FP8, _TO_FP8), (_FUSED_FP8, _TO_FP8))

KERNELS: Final[dict[str, _Casts]] = {
    "tensorwise": _by_role(
        (_AMAX, _REDUCE, _cast(2 * _FP8)),  # both layouts at once
        (_AMAX, _REDUCE, _TO_FP8, _TO_FP8),  # one in the forward, one in the backward pass
    ),
    "rowwise": _by_role(
        (_cast(_FP8 + _BF16, fusible=True), _TO_FP8),  # cast and transpose, cast of the transpose
        (_FUSED_FP8, _TRANSPOSE, _TO_FP8),
    ),
    "rowwise_with_gw_hp": _by_role(
        (_FUSED_FP8,),  # the backward pass takes bf16 of it
        (_TO_FP8, _REDUCE, _TO_FP8),  # the second with one scale for all, the maximum of the rows'
    ),
    "mxfp8_emulated": _MXFP8,
    "mxfp8_cutlass": _MXFP8,
    "mxfp8_cublas": _MXFP8,
    "mxfp8_cublas_rceil": _MXFP8,
    "mxfp8_32x32_flexible_gemm_layout": _by_role((_FUSED_FP8,), (_FUSED_FP8,)),
    "mxfp8_32x32_weight": _by_role(
        (_FUSED_FP8, _TO_FP8), (_TO_FP8, Kernel(reads=_FP8, writes=_FP8))
    ),
    "mxfp4_cutlass": _by_role((_FUSED_FP4, _TO_FP4), (_FUSED_FP4, _TO_FP4)),
    "blockwise": _by_role((_FUSED_TILES, _TO_TILES), (_TO_SQUARES, _TO_SQUARES)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationCast:
    """The cast of an inference linear: bytes per element of each kernel.

    row_scales   the last kernel writes one fp32 scale per row
    block        the last kernel writes a scale of one byte per so many elements of a row
    """

    kernels: tuple[float, ...]
    row_scales: bool = False
    block: int | None = None


ACTIVATION_CASTS: Final[dict[str, ActivationCast]] = {
    "tensorwise": ActivationCast(kernels=(2, 3)),
    "rowwise": ActivationCast(kernels=(3,), row_scales=True),
    "mxfp8": ActivationCast(kernels=(3,), block=32),
    "mxfp4": ActivationCast(kernels=(2.5,), block=32),
    "nvfp4": ActivationCast(kernels=(4.5,), block=16),  # amax 2, cast 2.5
    "nvfp4_static": ActivationCast(kernels=(2.5,), block=16),
    "nvfp4_no_global_scale": ActivationCast(kernels=(2.5,), block=16),
}


def cast_bytes(recipe: str, role: str, rows: Size, cols: Size, fused: bool = False) -> list[Size]:
    """Bytes of each kernel of the training cast of a rows x cols tensor.

    Raises PredictError for an unknown recipe or role.
    """
    check_name("recipe of casts", recipe, KERNELS)
    check_name("tensor role", role, ROLES)
    elements = rows * cols
    return [kernel.moves(fused) * elements for kernel in KERNELS[recipe][role]]


def activation_bytes(recipe: str, rows: Size, cols: Size) -> list[Size]:
    """Bytes of each kernel of an inference cast; raises PredictError for an unknown recipe."""
    check_name("recipe of inference casts", recipe, ACTIVATION_CASTS)
    cast = ACTIVATION_CASTS[recipe]
    moved = [width * (rows * cols) for width in cast.kernels]
    if cast.row_scales:
        moved[-1] = moved[-1] + _SCALE * rows
    if cast.block is not None:
        moved[-1] = moved[-1] + rows * (cols // cast.block)
    return moved


def traffic_s(constants: Constants, moved: Size) -> Size:
    """Seconds of moving `moved` bytes at the achievable bandwidth."""
    return moved / constants.dram_bytes_per_s / constants.dram_fraction


def kernel_s(constants: Constants, moved: Size, maximum: Maximum) -> Size:
    """Seconds of a kernel that moves `moved` bytes and computes next to nothing."""
    seconds: Size = maximum(traffic_s(constants, moved), constants.launch_s)
    return seconds


def cast_s(
    constants: Constants,
    recipe: str,
    role: str,
    sizes: tuple[Size, Size, Size],
    fused: bool,
    maximum: Maximum,
) -> Size:
    """Seconds of the cast of one tensor of a training linear of (M, K, N), all its kernels.

    Raises PredictError for an unknown recipe or role.
    """
    check_name("tensor role", role, ROLES)
    m, k, n = sizes
    rows, cols = {"input": (m, k), "weight": (k, n), "grad_output": (m, n)}[role]
    first, *others = cast_bytes(recipe, role, rows, cols, fused)
    total = kernel_s(constants, first, maximum)
    for moved in others:
        total = total + kernel_s(constants, moved, maximum)
    return total


def casts_s(
    constants: Constants,
    recipe: str,
    sizes: tuple[Size, Size, Size],
    fused: bool,
    maximum: Maximum,
) -> Size:
    """Seconds of the casts of input, weight and grad_output; raises as cast_s does."""
    return (
        cast_s(constants, recipe, "input", sizes, fused, maximum)
        + cast_s(constants, recipe, "weight", sizes, False, maximum)
        + cast_s(constants, recipe, "grad_output", sizes, fused, maximum)
    )
