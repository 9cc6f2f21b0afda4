"""The datasheet's roofline: no program is faster, if the datasheet is right.

    t = max(flops / peak, bytes / bandwidth)          (Williams, Waterman, Patterson, 2009)

A gather is a third roof: the bytes that a device receives / its link in one direction. Weights in
fewer bits than the activations count as stored, with scales and zero points; their arithmetic runs
at the bf16 rate, and their conversion to bf16 is not modelled.
"""

from collections.abc import Sequence

import numpy as np

from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops import BY_NAME
from roofcal.ops.gemm.tiles import least_work
from roofcal.ops.time_models import Sources

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
    predictions = []
    for point in points:
        op, received = BY_NAME[point.op], 0.0
        if op.received_bytes is not None:
            sizes = (point.shape, point.world_size)
            received = op.received_bytes(point.provider, point.recipe, *sizes)
        link = received / spec.link_bytes_per_s if received and spec.link_bytes_per_s else None
        work = op.work_of(point.provider, point.recipe, point.shape)
        rate = spec.peak_flops_per_s.get(work.math_dtype) if work.math_dtype else None
        is_alone = point.provider in op.partial  # which does a part that has no other roof
        if (is_alone and link is None) or (work.math_dtype and rate is None):
            continue
        math = work.flops / rate if rate else 0.0
        dram = work.dram_bytes / spec.dram_bytes_per_s
        predictions.append(longest_part(point, MODEL, math_s=math, dram_s=dram, link_s=link))
    return predictions


def longest_part(
    point: PlanPoint,
    model: str,
    *,
    math_s: float,
    dram_s: float,
    link_s: float | None = None,
    launch_s: float | None = None,
) -> Prediction:
    """The prediction of parts that overlap entirely; None for a part that the model has not."""
    parts = {"math": math_s, "dram": dram_s, "link": link_s, "launch": launch_s}
    seconds = {name: part for name, part in parts.items() if part is not None}
    longest = max(seconds, key=lambda name: seconds[name])
    return Prediction(
        point_id=point.point_id,
        model=model,
        math_s=math_s,
        dram_s=dram_s,
        link_s=link_s,
        launch_s=launch_s,
        total_s=seconds[longest],
        bound_by=longest,
    )
