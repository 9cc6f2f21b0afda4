"""torchao's roofline of one product or one cast, for comparison.

Formulas and constants of torchao's roofline_utils.py as it stood in 2025 (seed document
torchao_roofline_utils):

    product   t = max(flops / peak / 0.78, bytes / bandwidth / 0.92, 2 us), scales not counted
    cast      the sum over its kernels of max(bytes / bandwidth / 0.92, 2 us)

0.78 and 0.92 were observed on an H100 and copied for other NVIDIA cards; the MI300X has 0.47 and
0.72. torchao lists no other device and its H100 has the bandwidth of one custom board, so peak and
bandwidth are taken from the device's own datasheet here.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.devices import DeviceSpec
from roofcal.model.dtypes import BITS, nbytes
from roofcal.model.recipes import GEMM_RECIPES
from roofcal.predict.sources import Sources
from roofcal.predict.times import Array, Times
from roofcal.records import PlanPoint, Prediction

MODEL = "torchao"
LAUNCH_S: Final = 2e-6
_FRACTIONS: Final = {"nvidia": (0.78, 0.92), "amd": (0.47, 0.72)}
# Bytes per element of each kernel of a cast: bf16 is 2, fp8 is 1. dim1 first writes a transposed
# bf16 copy; `both` writes that copy beside the dim0 cast.
_CAST_KERNELS: Final = {
    "fp8_tensorwise": (2, 0, 3),
    "fp8_rowwise_dim0": (3,),
    "fp8_rowwise_dim1": (4, 3),
    "fp8_rowwise_both": (5, 3),
}


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes in bf16 and fp8 whose rate the datasheet lists."""
    rates = sources.spec.peak_flops_per_s if sources.spec else {}
    return tuple(
        name
        for name, recipe in GEMM_RECIPES.items()
        if recipe.math_dtype in ("bf16", "fp8") and recipe.math_dtype in rates
    )


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds of products; raises KeyError for a recipe it does not know here."""
    if sources.spec is None or recipe not in product_recipes(sources):
        raise KeyError(recipe)
    spec, dtypes = sources.spec, GEMM_RECIPES[recipe]
    math_fraction, memory_fraction = _FRACTIONS[spec.vendor]
    moved = BITS[dtypes.a.dtype] / 8 * (m + n) * k + BITS[dtypes.out] / 8 * m * n
    math = 2.0 * m * n * k / spec.peak_flops_per_s[dtypes.math_dtype] / math_fraction
    dram = moved / spec.dram_bytes_per_s / memory_fraction
    stacked = np.stack([math, dram, np.full_like(math, LAUNCH_S)])
    names = ("math", "dram", "launch")
    bound = [names[index] for index in stacked.argmax(axis=0)]
    return Times(total=stacked.max(axis=0), bound_by=bound)


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per product or cast in bf16 or fp8; [] without a datasheet."""
    spec = sources.spec
    if spec is None:
        return []
    found = (_product(p, spec) if p.op == "gemm" else _cast(p, spec) for p in points)
    return [prediction for prediction in found if prediction is not None]


def _product(point: PlanPoint, spec: DeviceSpec) -> Prediction | None:
    recipe = GEMM_RECIPES[point.recipe]
    rate = spec.peak_flops_per_s.get(recipe.math_dtype)
    if recipe.math_dtype not in ("bf16", "fp8") or rate is None:
        return None
    m, n, k = (point.shape[axis] for axis in "mnk")
    math_fraction, memory_fraction = _FRACTIONS[spec.vendor]
    moved = nbytes(recipe.a.dtype, (m + n) * k) + nbytes(recipe.out, m * n)
    math = 2.0 * m * n * k / rate / math_fraction
    dram = moved / spec.dram_bytes_per_s / memory_fraction
    return _prediction(point, math, dram, LAUNCH_S)


def _cast(point: PlanPoint, spec: DeviceSpec) -> Prediction | None:
    kernels = _CAST_KERNELS.get(point.recipe)
    if point.op != "cast" or kernels is None:
        return None
    elements = point.shape["rows"] * point.shape["cols"]
    rate = spec.dram_bytes_per_s * _FRACTIONS[spec.vendor][1]
    total = sum(max(width * elements / rate, LAUNCH_S) for width in kernels)
    return _prediction(point, 0.0, total, LAUNCH_S)


def _prediction(point: PlanPoint, math: float, dram: float, launch: float) -> Prediction:
    parts = {"math": math, "dram": dram, "launch": launch}
    return Prediction(
        point_id=point.point_id,
        model=MODEL,
        math_s=math,
        dram_s=dram,
        link_s=None,
        launch_s=launch,
        total_s=max(parts.values()),
        bound_by=max(parts, key=lambda name: parts[name]),
    )
