"""Roofs: the least time that a datasheet or a calibration allows some work.

Both are max(flops / rate, bytes / bandwidth) (Williams, Waterman, Patterson, 2009).
"""

from collections.abc import Mapping
from typing import Final, Literal

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import Work
from roofcal.core.records import Calibration, Ceiling

READ: Final = "dram_read_bytes_per_s"
COPY: Final = "dram_copy_bytes_per_s"
_CEILING: Final = ".ceiling_flops_per_s"
STREAMS: Final = (READ, "dram_write_bytes_per_s", COPY)


def constants_of(calibration: Calibration | None) -> Mapping[str, Ceiling]:
    """The constants of a calibration, none without one."""
    return calibration.constants if calibration else {}


def ceilings(
    calibration: Calibration | None, end: Literal["value", "ci95_high"] = "value"
) -> dict[str, float]:
    """Recipe -> the highest calibrated rate, FLOP/s, of its fastest provider.

    end: the constant itself, or the upper end of its interval.
    """
    rates: dict[str, float] = {}
    for name, constant in constants_of(calibration).items():
        if name.endswith(_CEILING):
            recipe = name.removesuffix(_CEILING).rpartition(".")[2]
            rates[recipe] = max(rates.get(recipe, 0.0), getattr(constant, end))
    return rates


def stream_rates(calibration: Calibration | None) -> list[Ceiling]:
    """Calibrated rates of reading, writing and copying memory, bytes per second."""
    constants = constants_of(calibration)
    return [constants[name] for name in STREAMS if name in constants]


class CalibratedRoof:
    """The most that the calibration allows a device: upper ends of the intervals."""

    def __init__(self, calibration: Calibration | None) -> None:
        self.flops_per_s = ceilings(calibration, "ci95_high")
        self.bytes_per_s = max((r.ci95_high for r in stream_rates(calibration)), default=None)

    def seconds(self, recipe: str, work: Work) -> float | None:
        """Least time of some work; None if a part of it has no ceiling."""
        rate = self.flops_per_s.get(recipe)
        if self.bytes_per_s is None or (work.flops and rate is None):
            return None
        return _least_seconds(work, rate, self.bytes_per_s)


def datasheet_seconds(work: Work, spec: DeviceSpec | None) -> float | None:
    """Least time of some work by a datasheet; None without it, without its rate, without work."""
    if spec is None:
        return None
    rate = spec.peak_flops_per_s.get(work.math_dtype) if work.math_dtype else None
    if work.flops and rate is None:
        return None
    return _least_seconds(work, rate, spec.dram_bytes_per_s) or None


def _least_seconds(work: Work, flops_per_s: float | None, bytes_per_s: float) -> float:
    math = work.flops / flops_per_s if flops_per_s else 0.0
    return max(math, work.dram_bytes / bytes_per_s)
