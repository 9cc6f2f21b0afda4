"""The time of one operator, and checks that all operators share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from roofcal.core.names import did_you_mean_or_all
from roofcal.core.wave_device import WaveDevice
from roofcal.models.errors import PredictError


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Seconds of one operator.

    parts     seconds of each part that the operator has, of launch, math, l2, lds, softmax, vector,
              dram, link and latency
    bound_by  the largest part
    """

    total_s: float
    bound_by: str
    parts: Mapping[str, float]


def kernel_time(device: WaveDevice, parts: Mapping[str, float]) -> OperatorTime:
    """One kernel: a launch, then the largest part, because the parts overlap."""
    all_parts = {"launch": device.launch_s, **parts}
    return OperatorTime(
        total_s=device.launch_s + max(parts.values()),
        bound_by=max(all_parts, key=lambda name: all_parts[name]),
        parts=all_parts,
    )


def stream_seconds(device: WaveDevice, moved_bytes: float) -> float:
    """Seconds in which a kernel moves `moved_bytes` to and from memory."""
    return moved_bytes / device.stream_bytes_per_s


def check_sizes(what: str, **sizes: int) -> None:
    """Raises PredictError unless all sizes are whole numbers from 1."""
    refused = [f"{name}={size!r}" for name, size in sizes.items() if not _is_size(size)]
    if refused:
        raise PredictError(f"{what}: {', '.join(refused)}: must be a whole number from 1")


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def divide(what: str, size: int, parts: int, among: str) -> int:
    """size / parts; raises PredictError where that leaves a remainder."""
    if size % parts:
        raise PredictError(
            f"{size} {what} do not divide among {parts} {among}; "
            f"{among} must be a divisor of {size}"
        )
    return size // parts


def described_value(
    device: WaveDevice,
    key: Literal["matrix_flops_per_clock", "activation_clocks_per_element"],
    name: str,
) -> float:
    """The value that a key of section `wave` has for a dtype or function.

    Raises PredictError, naming the file, where it has none.
    """
    values: Mapping[str, float] = getattr(device, key)
    if name not in values:
        nearest = did_you_mean_or_all(name, values)
        raise PredictError(
            f"config/devices/{device.device}.yaml: wave.{key} has no '{name}'{nearest}"
        )
    return values[name]
