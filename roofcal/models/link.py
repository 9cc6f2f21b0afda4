"""Time of collectives between the GPUs of one model.

    all-reduce  2 (w - 1) / w * bytes / rate + latency     (ring; Patarasuk and Yuan, 2009)
    all-gather    (w - 1) / w * bytes / rate + latency     bytes: of the gathered result
    send                        bytes / rate + latency

as roofcal.ops.probe_link.model, to which they are calibrated, has it.

Rate and latency come from the constants `link.<collective>.<world size>.bytes_per_s` and
`.latency_s` of the calibration, collectives being all_reduce, all_gather and send (world size 2).
Without them a share of the datasheet's rate is assumed: 0.7 and 12 us, the figures of the notebook
on MI300X inference; 0.5 to 0.9 and 6 to 24 us are our guess of how far that may be off.
"""

from dataclasses import dataclass
from typing import Final, Literal

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.core.times import Duration, Priced, Rate
from roofcal.core.units import GB
from roofcal.models.errors import PredictError
from roofcal.ops.probe_link.model import share
from roofcal.ops.probe_link.predict import UncertainLine, calibrated_line

Source = Literal["auto", "datasheet", "calibrated"]
SOURCES: Final[tuple[Source, ...]] = ("auto", "datasheet", "calibrated")
ASSUMED_SHARE: Final = Rate(0.7, 0.5, 0.9)
ASSUMED_LATENCY: Final = Duration(12e-6, 6e-6, 24e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How GPUs are joined: a line per (collective, world size), and where they come from."""

    lines: dict[tuple[str, int], UncertainLine]
    says: str | None

    def collective(self, name: str, world_size: int, count_bytes: float) -> Priced:
        """all_reduce or all_gather of so many bytes among `world_size` GPUs."""
        return self._priced((name, world_size), share(name, world_size) * count_bytes)

    def send(self, count_bytes: float) -> Priced:
        """So many bytes from one GPU to another."""
        return self._priced(("send", 2), count_bytes)

    def _priced(self, key: tuple[str, int], count_bytes: float) -> Priced:
        line = self.lines[key]
        moving = line.rate.seconds(count_bytes)
        bound = "link" if moving.value_s >= line.latency.value_s else "link latency"
        return Priced(duration=line.latency + moving, bound_by=bound)


def link_of(
    calibration: Calibration, spec: DeviceSpec, source: Source, tensor: int, pipeline: int
) -> Link:
    """The link of a model spread over tensor x pipeline GPUs.

    Raises PredictError for a calibration without the world size where it must be the source, and
    for a datasheet without a link.
    """
    keys = [("all_reduce", tensor), ("all_gather", tensor)] if tensor > 1 else []
    keys += [("send", 2)] if pipeline > 1 else []
    if not keys:
        return Link(lines={}, says=None)
    if source != "datasheet":
        found = {key: line for key in keys if (line := calibrated_line(calibration, *key))}
        if len(found) == len(keys):
            return Link(lines=found, says="link: calibrated")
        if source == "calibrated":
            missing = [key for key in keys if key not in found]
            raise PredictError(_not_calibrated(calibration, missing))
    return _assumed(spec, keys, calibrated=source != "datasheet")


def _not_calibrated(calibration: Calibration, missing: list[tuple[str, int]]) -> str:
    wanted = ", ".join(f"{name} of {size} GPUs" for name, size in missing)
    names = [name.split(".") for name in calibration.constants if name.startswith("link.")]
    asked = {name for name, _ in missing}
    known = sorted({(int(size), name) for _, name, size, *_ in names if name in asked})
    has = ", ".join(f"{size} ({name})" for size, name in known) or "none"
    return (
        f"the calibration of {calibration.device} has no link constants for {wanted}; "
        f"world sizes it has: {has}; give --link auto to use the datasheet"
    )


def _assumed(spec: DeviceSpec, keys: list[tuple[str, int]], *, calibrated: bool) -> Link:
    peak = spec.link_bytes_per_s
    if peak is None:
        raise PredictError(
            f"config/devices/{spec.device}.yaml states no link_gb_per_s; give --tp 1 --pp 1"
        )
    share = ASSUMED_SHARE
    line = UncertainLine(
        rate=Rate(share.value * peak, share.low * peak, share.high * peak), latency=ASSUMED_LATENCY
    )
    why = "not calibrated, " if calibrated else ""
    latency = ASSUMED_LATENCY
    says = (
        f"link: {why}assumed {share.value:g} ({share.low:g} to {share.high:g}) of the datasheet's "
        f"{peak / GB:.0f} GB/s one way, {latency.value_s * 1e6:.0f} us "
        f"({latency.low_s * 1e6:.0f} to {latency.high_s * 1e6:.0f}) each"
    )
    return Link(lines=dict.fromkeys(keys, line), says=says)
