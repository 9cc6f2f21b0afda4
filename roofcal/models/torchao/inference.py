"""torchao's inference linear: cast the activation, then one product.

Source: get_inference_tensor_memory_traffic_ovhd_s of torchao 0.18.0 (constants.py names the file).
Weights were cast before. The activation of M x K is read in bf16; scales are written, one fp32 per
row, or one byte per 32 (mxfp8, mxfp4) or 16 (nvfp4) elements of a row. Odd, and kept:
- a row's scales are rounded down: the last, shorter block has none
- tensorwise has no 2 us for the kernel that reduces amax, as the training cast has
- nvfp4 with its dynamic global scale reads the activation twice, and both kernels are one: a single
  2 us floor
"""

from dataclasses import dataclass
from typing import Final

from roofcal.models.torchao.constants import Constants
from roofcal.models.torchao.names import check_known
from roofcal.models.torchao.products import product_s
from roofcal.models.torchao.sizes import Maximum, Size
from roofcal.models.torchao.traffic import kernel_s

_ROW_SCALE: Final = 4  # bytes, fp32


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """Bytes per element of each kernel of the cast; the last also writes the scales.

    row_scales   one per row
    block        elements per scale of one byte
    """

    kernels: tuple[float, ...]
    row_scales: bool = False
    block: int | None = None


ACTIVATIONS: Final[dict[str, Activation]] = {
    "tensorwise": Activation(kernels=(2, 3)),
    "rowwise": Activation(kernels=(3,), row_scales=True),
    "mxfp8": Activation(kernels=(3,), block=32),
    "mxfp4": Activation(kernels=(2.5,), block=32),
    "nvfp4": Activation(kernels=(4.5,), block=16),  # amax 2, cast 2.5
    "nvfp4_static": Activation(kernels=(2.5,), block=16),
    "nvfp4_no_global_scale": Activation(kernels=(2.5,), block=16),
}


def activation_bytes(recipe: str, rows: Size, cols: Size) -> list[Size]:
    """Bytes of each kernel; raises PredictError for an unknown recipe."""
    check_known("recipe of inference casts", recipe, ACTIVATIONS)
    cast = ACTIVATIONS[recipe]
    moved = [width * (rows * cols) for width in cast.kernels]
    if cast.row_scales:
        moved[-1] = moved[-1] + _ROW_SCALE * rows
    if cast.block is not None:
        moved[-1] = moved[-1] + rows * (cols // cast.block)
    return moved


def inference_linear_s(
    constants: Constants, recipe: str, sizes: tuple[Size, Size, Size], maximum: Maximum
) -> Size:
    """Seconds of the activation's cast (bf16: none) and the product of (M, K, N).

    Raises PredictError for an unknown recipe, and a device without a rate for its format.
    """
    check_known("recipe of inference linears", recipe, ["bf16", *ACTIVATIONS])
    m, k, _ = sizes
    total = product_s(constants, recipe, sizes, maximum)
    for moved in [] if recipe == "bf16" else activation_bytes(recipe, m, k):
        total = total + kernel_s(constants, moved, maximum)
    return total
