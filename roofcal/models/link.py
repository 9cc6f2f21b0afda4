"""Time of collectives between the GPUs of one language model.

Equation: roofcal.ops.probe_link.model. Rate and latency are the calibrated ones of all_reduce,
all_gather and send (world size 2). Without them a share of the datasheet's rate is assumed: 0.7 and
12 us, the figures of the notebook on MI300X inference; 0.5 to 0.9 and 6 to 24 us are our guess of
how far that may be off.
"""

from dataclasses import dataclass
from typing import Final, Literal

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.core.times import CallTime, Duration, Rate
from roofcal.core.units import GB
from roofcal.models.errors import PredictError
from roofcal.ops.probe_link.model import (
    UncertainLine,
    calibrated_line,
    calibrated_world_sizes,
    share,
)

Source = Literal["auto", "datasheet", "calibrated"]
SOURCES: Final[tuple[Source, ...]] = ("auto", "datasheet", "calibrated")
ASSUMED_SHARE: Final = Rate(0.7, 0.5, 0.9)
ASSUMED_LATENCY: Final = Duration(12e-6, 6e-6, 24e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How the GPUs of a model are joined.

    lines       by (collective, world size)
    provenance  where they come from, in words; None where no GPUs are joined
    """

    lines: dict[tuple[str, int], UncertainLine]
    provenance: str | None

    def collective(self, name: str, world_size: int, count_bytes: float) -> CallTime:
        """all_reduce or all_gather of so many bytes among `world_size` GPUs."""
        return self._time((name, world_size), share(name, world_size) * count_bytes)

    def send(self, count_bytes: float) -> CallTime:
        """So many bytes from one GPU to another."""
        return self._time(("send", 2), count_bytes)

    def _time(self, key: tuple[str, int], count_bytes: float) -> CallTime:
        line = self.lines[key]
        moving = line.rate.seconds(count_bytes)
        bound = "link" if moving.value_s >= line.latency.value_s else "link latency"
        return CallTime(duration=line.latency + moving, bound_by=bound)


def link_of(
    calibration: Calibration, spec: DeviceSpec, source: Source, tensor: int, pipeline: int
) -> Link:
    """The link of a model spread over tensor x pipeline GPUs.

    Raises PredictError for a calibration without the world size where it must be the source, and
    for a datasheet without a link.
    """
    keys = joined_pairs(tensor, pipeline)
    if not keys:
        return Link(lines={}, provenance=None)
    if source != "datasheet":
        lines = {key: line for key in keys if (line := calibrated_line(calibration, *key))}
        if len(lines) == len(keys):
            return Link(lines=lines, provenance="link: times of collectives are calibrated")
        if source == "calibrated":
            missing = [key for key in keys if key not in lines]
            raise PredictError(_not_calibrated(calibration, missing))
    return assumed_link(spec, keys, why="" if source == "datasheet" else "not calibrated, ")


def joined_pairs(tensor: int, pipeline: int) -> list[tuple[str, int]]:
    """(collective, world size) of everything that tensor x pipeline GPUs exchange."""
    pairs = [("all_reduce", tensor), ("all_gather", tensor)] if tensor > 1 else []
    return pairs + ([("send", 2)] if pipeline > 1 else [])


def link_rate(spec: DeviceSpec) -> float:
    """Bytes per second one way by the datasheet; raises PredictError where it states no link."""
    if spec.link_bytes_per_s is None:
        raise PredictError(
            f"config/devices/{spec.device}.yaml states no link_gb_per_s; give --tp 1 --pp 1"
        )
    return spec.link_bytes_per_s


def _not_calibrated(calibration: Calibration, missing: list[tuple[str, int]]) -> str:
    lacking = ", ".join(f"{name} of {size} GPUs" for name, size in missing)
    collectives = dict.fromkeys(name for name, _ in missing)
    calibrated = sorted(
        (size, name) for name in collectives for size in calibrated_world_sizes(calibration, name)
    )
    calibrated_sizes = ", ".join(f"{size} ({name})" for size, name in calibrated) or "none"
    return (
        f"the calibration of {calibration.device} has no link constants for {lacking}; "
        f"world sizes it has: {calibrated_sizes}; give --link auto to use the datasheet"
    )


def assumed_link(spec: DeviceSpec, keys: list[tuple[str, int]], why: str = "") -> Link:
    """ASSUMED_SHARE of the datasheet's rate; raises PredictError where it states no link."""
    peak = link_rate(spec)
    share, latency = ASSUMED_SHARE, ASSUMED_LATENCY
    rate = Rate(share.value * peak, share.low * peak, share.high * peak)
    provenance = (
        f"link: {why}assumed {share.value:g} ({share.low:g} to {share.high:g}) of the datasheet's "
        f"{peak / GB:.0f} GB/s one way, {latency.value_s * 1e6:.0f} us "
        f"({latency.low_s * 1e6:.0f} to {latency.high_s * 1e6:.0f}) each"
    )
    line = UncertainLine(rate=rate, latency=latency)
    return Link(lines=dict.fromkeys(keys, line), provenance=provenance)
