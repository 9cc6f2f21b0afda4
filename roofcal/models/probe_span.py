"""How far a shape lies outside of the probes that a calibration was fitted on, and what follows.

A span has the smallest and largest size of each axis of the probes of a provider and recipe, and
of their operations and bytes, because no probe has its largest size on all axes at once. The
distance of a shape is the number of doublings to the span, of the axis that is farthest outside.

The interval of a prediction outside is wider: its half-width, as a logarithm, grows by its own size
with every doubling, and the answer says "extrapolated". That is an assumption. On the study points
of the published H200 that lie a doubling and more outside, intervals as wide as inside cover 71 %
of casts and 58 % of products of narrow weights, the wider ones all and 83 %.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from roofcal.core.jsonl import read_records
from roofcal.core.paths import RunFolder
from roofcal.core.portable_math import exp, log
from roofcal.core.records import PlanPoint, Prediction
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.gemm.predict import LIBRARIES
from roofcal.ops.linear.model import parts_of
from roofcal.ops.spec import OpSpec, Shape

Span = Mapping[str, tuple[float, float]]
Spans = Mapping[tuple[str, str, str], Span]  # (op, provider, recipe)
NOTICEABLE: Final = 0.05  # doublings: 3.5 % beyond the largest probe is no extrapolation


def probe_spans(run: RunFolder, *ops: str) -> Spans:
    """The spans of the probes of ops, by the plans of a run; without a plan there are none."""
    spans: dict[tuple[str, str, str], dict[str, tuple[float, float]]] = {}
    for probe in OPS:
        op = probe.calibrates
        plan = run.plan_file(probe.name)
        if op is None or op not in ops or not plan.is_file():
            continue
        for point in read_records(plan, PlanPoint):
            span = spans.setdefault((op, point.provider, point.recipe), {})
            for name, size in _extents(probe, point.recipe, point.shape).items():
                low, high = span.get(name, (size, size))
                span[name] = min(low, size), max(high, size)
    return spans


def doublings_outside(
    spans: Spans, op: OpSpec, provider: str, recipe: str, shape: Shape
) -> float | None:
    """Doublings from a shape to the span of its probes, 0 within; None where there were none."""
    span = spans.get((op.name, provider, recipe))
    if span is None:
        return None
    ratios = [
        max(size / span[name][1], span[name][0] / size)
        for name, size in _extents(op, recipe, shape).items()
    ]
    farthest = float(log(np.array(max(ratios)))) / math.log(2.0)
    return farthest if farthest > NOTICEABLE else 0.0


def doublings_of_parts(spans: Spans, point: PlanPoint) -> float | None:
    """As doublings_outside, of the part of a linear or a gather that is farthest outside.

    Products are those of the library. None for other ops, and where no part has a span.
    """
    parts: list[tuple[str, str, str, Shape]] = []
    m, n, k = (point.shape.get(axis, 1) for axis in "mnk")
    if point.op == "all_gather_matmul":
        parts = [("gemm", library, point.recipe, point.shape) for library in LIBRARIES]
    elif point.op in ("linear", "norm_linear_sigmoid"):
        try:
            linear = parts_of(point.provider, point.recipe)
        except KeyError:  # no model has an answer for it either
            return None
        sides = {"output": (m, n, k), "grad_input": (m, k, n), "grad_weight": (n, k, m)}
        parts = [
            ("gemm", library, recipe, dict(zip("mnk", sides[name], strict=True)))
            for name, recipe in linear.products.items()
            for library in LIBRARIES
        ]
        tensors = {"x": (m, k), "w": (n, k), "grad_out": (m, n)}
        parts += [
            ("cast", linear.casts_by, cast, dict(zip(("rows", "cols"), tensors[name], strict=True)))
            for name, cast in linear.casts
        ]
    return farthest_outside(spans, parts)


def farthest_outside(spans: Spans, parts: Iterable[tuple[str, str, str, Shape]]) -> float | None:
    """As doublings_outside, of the (op, provider, recipe, shape) that is farthest outside."""
    outside = [
        doublings_outside(spans, BY_NAME[op], provider, recipe, shape)
        for op, provider, recipe, shape in parts
    ]
    known = [doublings for doublings in outside if doublings is not None]
    return max(known, default=None)


def widened_outside(
    points: Iterable[PlanPoint], predictions: Iterable[Prediction], run: RunFolder
) -> list[Prediction]:
    """Predictions of points by a model that was fitted on the probes of a run, widened outside."""
    point_of = {point.point_id: point for point in points}
    spans = probe_spans(run, "gemm", "cast", "mixed_gemm")
    return [
        widened(prediction, _doublings_of(spans, point_of[prediction.point_id]) or 0.0)
        for prediction in predictions
    ]


def _doublings_of(spans: Spans, point: PlanPoint) -> float | None:
    of_parts = doublings_of_parts(spans, point)
    if of_parts is not None:
        return of_parts
    return doublings_outside(spans, BY_NAME[point.op], point.provider, point.recipe, point.shape)


def widened(prediction: Prediction, doublings: float) -> Prediction:
    """The prediction with the interval of this module; one without an interval as it is."""
    if not doublings or prediction.low_s is None or prediction.high_s is None:
        return prediction
    total = prediction.total_s
    return replace(
        prediction,
        low_s=widened_end(total, prediction.low_s, doublings),
        high_s=widened_end(total, prediction.high_s, doublings),
    )


def widened_end(total_s: float, end_s: float, doublings: float) -> float:
    """An end of the interval around total_s at so many doublings outside of the probes."""
    return total_s * float(exp(log(np.array(end_s / total_s)) * (1 + doublings)))


def _extents(op: OpSpec, recipe: str, shape: Shape) -> dict[str, float]:
    work = op.work(recipe, shape)
    extents = {axis: float(shape[axis]) for axis in op.axes} | {"bytes": work.dram_bytes}
    return extents | ({"flops": work.flops} if work.flops else {})
