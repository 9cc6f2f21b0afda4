"""The datasheet's roofline: what no program can beat if the datasheet is right.

t = max(flops / peak, bytes / bandwidth)          (Williams, Waterman, Patterson, 2009)

Weights in fewer bits than the activations (op mixed_gemm) count as stored, with scales and zero
points; their arithmetic runs at the bf16 rate. Turning them to bf16 is not modelled.
"""

from collections.abc import Sequence

import numpy as np

from roofcal.devices import DeviceSpec
from roofcal.model.recipes import GEMM_RECIPES
from roofcal.ops import BY_NAME
from roofcal.ops.gemm.time_model import least_work
from roofcal.predict.sources import Sources
from roofcal.predict.times import Array, Times
from roofcal.records import PlanPoint, Prediction

MODEL = "datasheet"


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes of op gemm whose math rate the datasheet lists."""
    rates = sources.spec.peak_flops_per_s if sources.spec else {}
    return tuple(name for name, recipe in GEMM_RECIPES.items() if recipe.math_dtype in rates)


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds of products; raises KeyError for a recipe whose rate the datasheet lacks."""
    if sources.spec is None:
        raise KeyError(recipe)
    flops, moved = least_work(recipe, m, n, k)
    math = flops / sources.spec.peak_flops_per_s[GEMM_RECIPES[recipe].math_dtype]
    dram = moved / sources.spec.dram_bytes_per_s
    bound = np.where(math >= dram, "math", "dram").tolist()
    return Times(total=np.maximum(math, dram), bound_by=bound)


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point whose math rate the datasheet lists; [] without a datasheet."""
    spec = sources.spec
    if spec is None:
        return []
    return [found for point in points if (found := _one(point, spec)) is not None]


def _one(point: PlanPoint, spec: DeviceSpec) -> Prediction | None:
    op = BY_NAME[point.op]
    if point.provider in op.partial:
        return None
    work = op.work(point.recipe, point.shape)
    rate = spec.peak_flops_per_s.get(work.math_dtype) if work.math_dtype else None
    if work.math_dtype and rate is None:
        return None
    math = work.flops / rate if rate else 0.0
    dram = work.dram_bytes / spec.dram_bytes_per_s
    return Prediction(
        point_id=point.point_id,
        model=MODEL,
        math_s=math,
        dram_s=dram,
        link_s=None,
        launch_s=None,
        total_s=max(math, dram),
        bound_by="math" if math >= dram else "dram",
    )
