"""The datasheet's roofline: what no program can beat if the datasheet is right.

t = max(flops / peak, bytes / bandwidth)          (Williams, Waterman, Patterson, 2009)
"""

from collections.abc import Sequence

from roofcal.devices import DeviceSpec
from roofcal.ops import BY_NAME
from roofcal.records import PlanPoint, Prediction

MODEL = "datasheet"


def predict(points: Sequence[PlanPoint], spec: DeviceSpec | None) -> list[Prediction]:
    """A prediction per point whose math rate the datasheet lists; [] without a datasheet."""
    if spec is None:
        return []
    return [found for point in points if (found := _one(point, spec)) is not None]


def _one(point: PlanPoint, spec: DeviceSpec) -> Prediction | None:
    work = BY_NAME[point.op].work(point.recipe, point.shape)
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
