"""Roofs: the least time that a datasheet or a calibration allows some work.

Both are max(flops / rate, bytes / bandwidth) (Williams, Waterman, Patterson, 2009).
"""

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.core.work import Work

_CEILING = ".ceiling_flops_per_s"
_STREAMS = ("dram_read_bytes_per_s", "dram_write_bytes_per_s", "dram_copy_bytes_per_s")


class CalibratedRoof:
    """The most that the calibration says a device does: upper ends of its intervals."""

    def __init__(self, calibration: Calibration | None) -> None:
        constants = calibration.constants if calibration else {}
        self.flops_per_s: dict[str, float] = {}  # by recipe, of its fastest provider
        for name, constant in constants.items():
            if name.endswith(_CEILING):
                recipe = name.removesuffix(_CEILING).rpartition(".")[2]
                known = self.flops_per_s.get(recipe, 0.0)
                self.flops_per_s[recipe] = max(known, constant.ci95_high)
        self.bytes_per_s = max(
            (constants[name].ci95_high for name in _STREAMS if name in constants), default=None
        )

    def seconds(self, recipe: str, work: Work) -> float | None:
        """Least time of some work; None where a part of it has no ceiling."""
        rate = self.flops_per_s.get(recipe)
        if self.bytes_per_s is None or (work.flops and rate is None):
            return None
        math = work.flops / rate if rate else 0.0
        return max(math, work.dram_bytes / self.bytes_per_s)


def datasheet_seconds(work: Work, spec: DeviceSpec | None) -> float | None:
    """Least time of some work by a datasheet; None without it, without its rate, without work."""
    if spec is None:
        return None
    rate = spec.peak_flops_per_s.get(work.math_dtype) if work.math_dtype else None
    if work.flops and rate is None:
        return None
    math = work.flops / rate if rate else 0.0
    return max(math, work.dram_bytes / spec.dram_bytes_per_s) or None
