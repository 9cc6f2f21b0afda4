"""Seconds with their intervals: of many points at once, and of one call.

Ends of intervals add up as the values do. Errors of parts hardly correlate (on an H200 by -0.02 to
-0.08), but a sum errs also by what runs between and beside its parts: half-widths that add as
squares held 45 of 55 linears of the study, added ends 53. Linears whose parts are known to be
shorter beside each other are the exception: `with_independent_ends` of roofcal.ops.linear.model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Value = float | Array  # of a constant: one number, or an array that broadcasts with those of points


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What a model of time answers: seconds of many points, vectors of equal length.

    low, high   ends of the 95 % interval; None for a model that states none
    bound_by    the name of the largest part of each
    beyond      how far the points lie outside the probed range; None where that is unknown
    """

    total: Array
    low: Array | None = None
    high: Array | None = None
    bound_by: list[str]
    beyond: "BeyondProbes | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondProbes:
    """How far points lie outside the probed range of a calibration, vectors of equal length.

    doublings    log2 of the distance to the nearest probed size, on the farthest axis; 0 inside
    is_unprobed  whether no probe is of the same kind, such as rows off 16 bytes
    """

    doublings: Array
    is_unprobed: NDArray[np.bool_]

    def farther(self, other: "BeyondProbes") -> "BeyondProbes":
        """For points made of two parts, whichever part lies farther outside."""
        return BeyondProbes(
            doublings=np.maximum(self.doublings, other.doublings),
            is_unprobed=self.is_unprobed | other.is_unprobed,
        )


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds of one call: value and ends of the 95 % interval."""

    value_s: float
    low_s: float
    high_s: float

    def __add__(self, other: "Duration") -> "Duration":
        return Duration(
            self.value_s + other.value_s, self.low_s + other.low_s, self.high_s + other.high_s
        )

    def __mul__(self, factor: float) -> "Duration":
        return Duration(self.value_s * factor, self.low_s * factor, self.high_s * factor)

    def rate(self, amount: float) -> "Rate":
        """An amount per so many seconds."""
        return Rate(amount / self.value_s, amount / self.high_s, amount / self.low_s)

    def longer(self, other: "Duration") -> "Duration":
        """The longer of two that run at the same time, end by end."""
        return Duration(
            max(self.value_s, other.value_s),
            max(self.low_s, other.low_s),
            max(self.high_s, other.high_s),
        )


NO_TIME = Duration(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Rate:
    """Something per second: value and ends of the 95 % interval, all above zero."""

    value: float
    low: float
    high: float

    def seconds(self, amount: float) -> Duration:
        """How long an amount takes."""
        return Duration(amount / self.value, amount / self.high, amount / self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTime:
    """Seconds of one call, and the name of the part that takes longest.

    provider     whose kernel it is; "" where the model knows none
    doublings    how far it lies beyond the probes, 0 within
    is_unprobed  whether no probe is of its kind
    """

    duration: Duration
    bound_by: str
    provider: str = ""
    doublings: float = 0.0
    is_unprobed: bool = False
