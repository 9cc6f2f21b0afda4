"""Links by calibrated constants `link.<collective>.<world size>.*`; equation: the model beside."""

import math
from dataclasses import dataclass

from roofcal.core.records import Calibration
from roofcal.core.times import Duration, Rate
from roofcal.ops.probe_link.model import Fabric, Fabrics, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainLine:
    """Rate and latency of one collective in one world size, with the ends of their intervals."""

    rate: Rate
    latency: Duration

    def ends(self) -> tuple[Line, Line, Line]:
        """The line as it is likely, at the fast and at the slow ends of both intervals."""
        rate, latency = self.rate, self.latency
        return (
            Line(latency_s=latency.value_s, bytes_per_s=rate.value),
            Line(latency_s=latency.low_s, bytes_per_s=rate.high),
            Line(latency_s=latency.high_s, bytes_per_s=rate.low),
        )


def calibrated_line(
    calibration: Calibration, collective: str, world_size: int
) -> UncertainLine | None:
    """The line of a collective; None where it was not fitted for the world size."""
    prefix = f"link.{collective}.{world_size}."
    rate = calibration.constants.get(f"{prefix}bytes_per_s")
    latency = calibration.constants.get(f"{prefix}latency_s")
    if rate is None or latency is None:
        return None
    return UncertainLine(
        rate=Rate(rate.value, rate.ci95_low, rate.ci95_high),
        latency=Duration(latency.value, latency.ci95_low, latency.ci95_high),
    )


def calibrated_world_sizes(calibration: Calibration, collective: str) -> list[int]:
    """World sizes that a collective was fitted for, smallest first."""
    names = [name.split(".") for name in calibration.constants]
    return sorted({int(name[2]) for name in names if name[:2] == ["link", collective]})


def calibrated_fabrics(calibration: Calibration, world_size: int) -> Fabrics | None:
    """The fabric of one world size from constants of the link; None without an all-gather.

    What is fused takes the constants of all_gather_symm_mem and the latency of send; where one of
    them is missing, `direct` is None.
    """
    gather, direct, send = (
        calibrated_line(calibration, name, world_size)
        for name in ("all_gather", "all_gather_symm_mem", "send")
    )
    if gather is None:
        return None
    copy = calibration.constants.get("dram_copy_bytes_per_s")
    likely, fast, slow = (
        Fabric(
            library=gather.ends()[end],
            direct=direct.ends()[end] if direct and send else None,
            copy_latency_s=send.ends()[end].latency_s if send else 0.0,
            dram_bytes_per_s=copy_bytes_per_s,
        )
        for end, copy_bytes_per_s in enumerate(
            (copy.value, copy.ci95_high, copy.ci95_low) if copy else (math.inf,) * 3
        )
    )
    return Fabrics(likely=likely, fast=fast, slow=slow)
