"""What joins the devices of one machine, by models of time that know a link.

calibrated  constants `link.<name>.<world size>.*`: all_gather, and for what is fused
            all_gather_symm_mem and the latency of send
wave        the collectives of roofcal.models.wave, for NCCL and symmetric memory alike
"""

import math
from dataclasses import dataclass
from typing import Final

from roofcal.core.records import Calibration
from roofcal.core.wave_device import WaveDevice
from roofcal.models import link as llm_link
from roofcal.models.sources import Sources
from roofcal.models.wave.collectives import used_bytes_per_s
from roofcal.ops.all_gather_matmul.model import Fabric, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabrics:
    """A link as it is, and at the fast and the slow ends of its intervals, where it has any."""

    likely: Fabric
    fast: Fabric | None = None
    slow: Fabric | None = None


_FREE: Final = Fabric(library=Line(latency_s=0.0, bytes_per_s=math.inf))
NO_LINK: Final = Fabrics(likely=_FREE, fast=_FREE, slow=_FREE)  # for what gathers nothing


def fabrics_of(model: str, sources: Sources, world_size: int) -> Fabrics | None:
    """What a model knows of the link among so many devices; None where that is nothing."""
    if model == "wave" and sources.wave is not None:
        return _described(sources.wave, world_size)
    if model == "calibrated" and sources.calibration is not None:
        return _calibrated(sources.calibration, world_size)
    return None


def world_sizes(calibration: Calibration) -> list[int]:
    """World sizes whose all-gather was calibrated, smallest first."""
    names = [name.split(".") for name in calibration.constants]
    return sorted({int(name[2]) for name in names if name[:2] == ["link", "all_gather"]})


def _described(device: WaveDevice, world_size: int) -> Fabrics | None:
    if world_size > device.link_ranks:
        return None
    line = Line(
        latency_s=device.link_latency_s * math.log2(world_size),
        bytes_per_s=used_bytes_per_s(device, world_size),
    )
    fabric = Fabric(
        library=line,
        direct=line,
        copy_latency_s=device.link_latency_s,
        dram_bytes_per_s=device.stream_bytes_per_s,
    )
    return Fabrics(likely=fabric)


def _calibrated(calibration: Calibration, world_size: int) -> Fabrics | None:
    names = ("all_gather", "all_gather_symm_mem", "send")
    lines = {n: llm_link.calibrated_line(calibration, n, world_size) for n in names}
    gather = lines["all_gather"]
    if gather is None:
        return None
    direct, send = (lines[name] for name in names[1:])
    copy = calibration.constants.get("dram_copy_bytes_per_s")
    rates = (copy.value, copy.ci95_high, copy.ci95_low) if copy else (math.inf,) * 3

    def at(end: int) -> Fabric:
        return Fabric(
            library=_line(gather, end),
            direct=_line(direct, end) if direct and send else None,
            copy_latency_s=_line(send, end).latency_s if send else 0.0,
            dram_bytes_per_s=rates[end],
        )

    return Fabrics(likely=at(0), fast=at(1), slow=at(2))


def _line(line: llm_link.Line, end: int) -> Line:
    """A line as it is (0), or with latency and rate at the ends that are fast (1), slow (2)."""
    latency, rate = line.latency, line.rate
    return Line(
        latency_s=(latency.value_s, latency.low_s, latency.high_s)[end],
        bytes_per_s=(rate.value, rate.high, rate.low)[end],
    )
