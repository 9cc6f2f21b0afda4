"""torchao's roofline as a model of time: the products and casts of a plan.

Peaks and bandwidth come from the device's own datasheet, fractions from its vendor
(constants.from_datasheet), because torchao lists few devices and its H100 is a custom board.
Products are those of linears.py without scales of blocks. Casts are made of kernels as in casts.py,
but the plan casts a tensor once, where a training linear casts it for both passes.

torchao has no model of weights in fewer bits than the activations. Such products get its fractions
and its shortest kernel: arithmetic at the bf16 rate, and the bytes of packed weights, scales, zero
points, activations and output. The conversion of weights to bf16 is not modelled.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.core.recipes import GEMM_RECIPES, RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.models.roofline import longest_part
from roofcal.models.torchao.casts import kernel_s, traffic_s
from roofcal.models.torchao.constants import Constants, from_datasheet
from roofcal.models.torchao.linears import product_parts
from roofcal.ops import BY_NAME
from roofcal.ops.time_models import Sources

MODEL = "torchao"
_FORMATS: Final = {"bf16": "bf16", "fp8_e4m3": "fp8"}  # our dtype of an operand -> torchao's
# Bytes per element of each kernel of a cast: bf16 is 2, fp8 is 1. dim1 first writes a transposed
# bf16 copy; `both` writes that copy beside the dim0 cast. Blocks take one kernel with fp32 scales.
_CAST_KERNELS: Final = {
    "fp8_tensorwise": (2, 0, 3),
    "fp8_rowwise_dim0": (3,),
    "fp8_rowwise_dim1": (4, 3),
    "fp8_rowwise_both": (5, 3),
    "fp8_blockwise_1x128": (3 + 4 / 128,),
    "fp8_blockwise_1x128_dim1": (3 + 4 / 128,),
    "fp8_blockwise_128x128": (3 + 4 / 128**2,),
}


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes in bf16 and fp8 whose rate the datasheet lists."""
    rates = sources.spec.peak_flops_per_s if sources.spec else {}
    return tuple(name for name in GEMM_RECIPES if _operand_format(name) in rates)


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds of products; raises KeyError for a recipe that it has no rate of."""
    if sources.spec is None or recipe not in product_recipes(sources):
        raise KeyError(recipe)
    constants, operand = from_datasheet(sources.spec), _operand_format(recipe)
    math, dram = product_parts(constants, operand, None, (m, k, n))
    stacked = np.stack([math, dram, np.full_like(math, constants.launch_s)])
    names = ("math", "dram", "launch")
    bound = [names[index] for index in stacked.argmax(axis=0)]
    return Times(total=stacked.max(axis=0), bound_by=bound)


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per product or cast in bf16 or fp8; none without a datasheet."""
    if sources.spec is None:
        return []
    constants = from_datasheet(sources.spec)
    predicted_by = {"product": _product, "cast": _cast}
    predictions = (
        predicted_by[computes](point, constants)
        for point in points
        if (computes := BY_NAME[point.op].computes) is not None
    )
    return [prediction for prediction in predictions if prediction is not None]


def _operand_format(recipe: str) -> str:
    """torchao's name of the format of both operands, "" for formats that it does not model."""
    a, b, out = RECIPES[recipe].a.dtype, RECIPES[recipe].b.dtype, RECIPES[recipe].out
    return _FORMATS.get(a, "") if a == b and out == "bf16" else ""


def _product(point: PlanPoint, constants: Constants) -> Prediction | None:
    if point.recipe in WEIGHT_ONLY_RECIPES:
        return _narrow_product(point, constants)
    operand = _operand_format(point.recipe)
    if operand not in constants.peak_flops_per_s:
        return None
    m, n, k = (float(point.shape[axis]) for axis in "mnk")
    math, dram = product_parts(constants, operand, None, (m, k, n))
    return _prediction(point, constants, math, dram)


def _narrow_product(point: PlanPoint, constants: Constants) -> Prediction | None:
    """A product whose weights are narrower than its activations."""
    work = BY_NAME[point.op].work(point.recipe, point.shape)
    rate = constants.peak_flops_per_s.get(str(work.math_dtype))
    if rate is None:
        return None
    math = work.flops / rate / constants.math_fraction
    return _prediction(point, constants, math, traffic_s(constants, work.dram_bytes))


def _cast(point: PlanPoint, constants: Constants) -> Prediction | None:
    widths = _CAST_KERNELS.get(point.recipe)
    if widths is None:
        return None
    elements = float(point.shape["rows"] * point.shape["cols"])
    total = sum(kernel_s(constants, width * elements, max) for width in widths)
    return _prediction(point, constants, 0.0, total)


def _prediction(point: PlanPoint, constants: Constants, math_s: float, dram_s: float) -> Prediction:
    launch = constants.launch_s
    return longest_part(point, MODEL, math_s=math_s, dram_s=dram_s, launch_s=launch)
