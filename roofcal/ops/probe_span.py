"""How far shapes lie outside of the probes that a calibration was fitted on.

A span has the smallest and largest size of each axis of the probes of a provider and recipe, and
of their operations and bytes, because no probe has its largest size on all axes at once. The
distance of a shape is the number of doublings to the span, of the axis that is farthest outside.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final

import numpy as np

from roofcal.core.portable_math import log
from roofcal.core.records import Calibration, PlanPoint
from roofcal.core.times import Array
from roofcal.ops.spec import OpSpec

_LN2: Final = 0.6931471805599453
Span = Mapping[str, tuple[float, float]]
NOTICEABLE: Final = 0.05  # doublings: 3.5 % beyond the largest probe is no extrapolation


def probe_spans(op: OpSpec, points: Iterable[PlanPoint]) -> dict[str, Span]:
    """The span of the points of a probe op by "<op that it calibrates>.<provider>.<recipe>"."""
    spans: dict[str, dict[str, tuple[float, float]]] = {}
    for point in points:
        span = spans.setdefault(f"{op.folder}.{point.provider}.{point.recipe}", {})
        for name, size in extents(op, point.recipe, point.shape).items():
            low, high = span.get(name, (float(size), float(size)))
            span[name] = min(low, float(size)), max(high, float(size))
    return dict(spans)


def doublings_outside(
    calibration: Calibration, op: OpSpec, provider: str, recipe: str, sizes: Mapping[str, Any]
) -> Array | None:
    """Doublings from shapes to the span of their probes, 0 within; None where there were none.

    sizes: axis -> a size, or a vector of sizes.
    """
    span = calibration.probe_spans.get(f"{op.name}.{provider}.{recipe}", {})
    beyond = [
        np.maximum(size / span[name][1], span[name][0] / size)
        for name, size in extents(op, recipe, sizes).items()
        if name in span
    ]
    if not beyond:
        return None
    doublings = log(np.asarray(reduce(np.maximum, beyond), dtype=float)) / _LN2
    farther: Array = np.where(doublings > NOTICEABLE, doublings, 0.0)
    return farther


def extents(op: OpSpec, recipe: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What a span has of shapes: sizes by axis, least bytes, and operations of a product."""
    work = op.work(recipe, sizes)
    own = {axis: sizes[axis] for axis in op.axes} | {"bytes": work.dram_bytes}
    return own | ({} if work.math_dtype is None else {"flops": work.flops})
