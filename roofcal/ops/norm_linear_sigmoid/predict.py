"""Linears between a norm and a sigmoid by the calibrated model; equations: the model beside.

The time is the sum of the linear's parts and of the passes, whose constants are the device's. The
datasheet's model answers by the least work of the whole op.
"""

from collections.abc import Sequence

from roofcal.core.environments import CALIBRATED
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.linear import predict as linear
from roofcal.ops.norm_linear_sigmoid.model import CONSTANTS, FILL, pass_seconds
from roofcal.ops.time_models import Model, Sources


def predict_composed(
    model: Model, points: Sequence[PlanPoint], sources: Sources
) -> list[Prediction]:
    """A prediction per point whose products and casts are calibrated."""
    return linear.predict_groups(model, points, sources, pass_times)


def why_unanswered(model: Model, point: PlanPoint, sources: Sources) -> str:
    """Whether a model lacks the passes or a part of the linear between them."""
    constants = sources.calibration.constants if sources.calibration else {}
    missing = [name for name in CONSTANTS if name not in constants]
    if model.MODEL != CALIBRATED:
        return (
            "it does not know the passes of norm and sigmoid, which --model calibrated knows "
            "(and datasheet, as least work); --op linear is the linear alone"
        )
    if missing:
        return f"its calibration has no {missing[0]}, which norm and sigmoid take; calibrate again"
    return linear.why_unanswered(model, point, sources)


def pass_times(model: Model, sources: Sources, m: Array, n: Array, k: Array) -> Times:
    """Seconds of norm, sigmoid and their gradients; KeyError unless the model is calibrated."""
    if model.MODEL != CALIBRATED or sources.calibration is None:
        raise KeyError(model.MODEL)
    constants = sources.calibration.constants
    ceilings = {name: constants[name] for name in CONSTANTS}
    ceilings |= {FILL: constants[FILL]} if FILL in constants else {}
    # A start is fast at the low end of its interval, a rate at the high one.
    ends = {
        name: (c.ci95_low, c.ci95_high) if c.unit == "s" else (c.ci95_high, c.ci95_low)
        for name, c in ceilings.items()
    }
    likely = pass_seconds({name: c.value for name, c in ceilings.items()}, m, n, k)
    low, high = (
        pass_seconds({name: pair[end] for name, pair in ends.items()}, m, n, k) for end in (0, 1)
    )
    return Times(total=likely, low=low, high=high, bound_by=["passes"] * len(m))
