"""Bytes that the casts of a training linear move, and their seconds.

    t(kernel) = max(bytes / bandwidth / fraction, 2 us)      t(cast) = sum over its kernels

Source: get_tensor_memory_traffic_ovhd_s of the seed document torchao_roofline_utils; the recipes
that it lacks are those of torchao 0.18.0 (constants.py names the file): mxfp8_cublas_rceil,
mxfp8_32x32_*, mxfp4_cutlass, and blockwise (1 x 128 scales of activations, 128 x 128 of weights,
four bytes each).

Every cast reads bf16 and writes what the forward and the backward pass need, along both dimensions.
`fused` means: the op before leaves the tensor in registers, so that the first kernel need not read
it. What is odd in torchao and kept:
- a fused kernel that moves nothing (tensorwise's amax), and the kernel that reduces amax to one
  number and moves nothing in any case, cost 2 us each
- fusion saves nothing for a weight of rowwise_with_gw_hp or mxfp8_32x32_weight, and something for
  one of every other recipe of the seed; the linear asks it for no weight at all
- scales are written by blockwise alone; no cast counts reading them
- mxfp8_emulated, _cutlass and _cublas are one and the same
- mxfp8_32x32_weight reads bf16 twice for activations, fp8 the second time for weights
- the rates are those of one board for every kernel, be it launch- or latency-bound
"""

from dataclasses import dataclass
from typing import Final

from roofcal.models.torchao.constants import Constants
from roofcal.models.torchao.names import check_known
from roofcal.models.torchao.sizes import Maximum, Size

ROLES: Final = ("input", "weight", "grad_output")
_BF16, _FP8, _FP4 = 2, 1, 0.5  # bytes per element
_SCALE: Final = 4  # bytes of a blockwise scale, fp32
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
_TO_TILES_AHEAD, _TO_TILES = (_cast(_FP8 + _SCALE / _BLOCK, fusible=f) for f in (True, False))
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
    "blockwise": _by_role((_TO_TILES_AHEAD, _TO_TILES), (_TO_SQUARES, _TO_SQUARES)),
}


def kernels(recipe: str, role: str) -> tuple[Kernel, ...]:
    """Kernels of the cast of a tensor; raises PredictError for an unknown recipe or role."""
    check_known("recipe of casts", recipe, KERNELS)
    check_known("tensor role", role, ROLES)
    return KERNELS[recipe][role]


def cast_bytes(recipe: str, role: str, rows: Size, cols: Size, fused: bool = False) -> list[Size]:
    """Bytes of each kernel of the cast of a rows x cols tensor."""
    elements = rows * cols
    return [kernel.moves(fused) * elements for kernel in kernels(recipe, role)]


def traffic_s(constants: Constants, moved: Size) -> Size:
    """Seconds to move so many bytes at the bandwidth that is achievable."""
    return moved / constants.dram_bytes_per_s / constants.dram_fraction


def kernel_s(constants: Constants, moved: Size, maximum: Maximum) -> Size:
    """Seconds of a kernel that moves so many bytes and computes next to nothing."""
    seconds: Size = maximum(traffic_s(constants, moved), constants.launch_s)
    return seconds
