"""What a linear between a norm and a sigmoid consists of: the linear, and four passes over memory.

    norm             reads x, writes y                                4 bytes per element of x
    sigmoid          reads z, writes s                                4 bytes per element of z
    its gradient     reads grad and s, writes grad * s * (1 - s)      6 bytes per element of z
    gradient of the norm  reads grad_y and x, writes grad_x           6 bytes per element of x

Products and casts are those of op linear (roofcal.ops.linear.model.parts_of). A cast that is fused
to the norm saves reading y once; where the tensor is cast along its columns too, y is written and
read all the same (kernels.cast.fused), and that adds up to the bytes above. So these hold for fused
and separate passes alike.

A pass takes the start of a kernel of many programs that reads memory once, for which our cast along
the rows stands, and its bytes at the speed of a copy: from the cache as far as they fit, because
the kernel before has just written or read them, else from memory. Their constants are the device's,
so that the calibrated model alone predicts the op; the datasheet's answers by the least work of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from roofcal.core.environments import CALIBRATED
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.linear import model as linear
from roofcal.ops.time_models import Model, Sources

# Pass -> (tensor with the sizes it runs over, bytes per element).
PASSES: Final[dict[str, tuple[str, int]]] = {
    "norm": ("x", 4),
    "sigmoid": ("z", 4),
    "sigmoid_gradient": ("z", 6),
    "norm_gradient": ("x", 6),
}
START: Final = "cast.triton.fp8_rowwise_dim0.fixed_s"
FILL: Final = "cast.triton.fp8_rowwise_dim0.fill_s"  # a calibration may lack it: then it is 0
CONSTANTS: Final = (START, "cache_bytes", "cache_copy_bytes_per_s", "dram_copy_bytes_per_s")
_CACHE_SHARE: Final = 0.75  # as casts have it
PAGE = replace(
    linear.PAGE,
    meaning="forward and backward of sigmoid(layer_norm(x) wᵀ)",
    title="Linears between a norm and a sigmoid",
    time_includes="Times are those of forward and backward, and include norm, sigmoid and the "
    "casts of x, w and the gradient of the output.",
)


def pass_seconds(constants: Mapping[str, float], m: Array, n: Array, k: Array) -> Array:
    """Seconds of all passes; constants: CONSTANTS, KeyError for a missing one, and perhaps FILL."""
    start = constants[START] + constants.get(FILL, 0.0)
    elements = {"x": m * k, "z": m * n}
    total = np.zeros_like(m)
    for tensor, count in PASSES.values():
        moved = elements[tensor] * count
        cached = np.minimum(1.0, _CACHE_SHARE * constants["cache_bytes"] / moved)
        per_byte = cached / constants["cache_copy_bytes_per_s"]
        per_byte = per_byte + (1 - cached) / constants["dram_copy_bytes_per_s"]
        total = total + start + moved * per_byte
    return total


def predict_composed(
    model: Model, points: Sequence[PlanPoint], sources: Sources
) -> list[Prediction]:
    """A prediction per point whose products and casts are calibrated."""
    return linear.predict_composed(model, points, sources, pass_times)


def why_unanswered(model: Model, point: PlanPoint, sources: Sources) -> str:
    """Whether a model lacks the passes or a part of the linear between them."""
    constants = sources.calibration.constants if sources.calibration else {}
    missing = [name for name in CONSTANTS if name not in constants]
    if model.MODEL != CALIBRATED:
        return (
            "it does not know the passes of norm and sigmoid, which --by calibrated knows "
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
