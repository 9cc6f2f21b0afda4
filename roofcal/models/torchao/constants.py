"""What torchao assumes of a device: peaks, bandwidth, achievable fractions, launch.

SETS holds torchao's own figures by name; docs/models.md says how they differ. Every other device
has the peaks and the bandwidth of its datasheet, and the fractions of torchao-2025 for its vendor.

The formulas of this package are written once for numbers, vectors and symbols. They compute with
+ * / // alone and take `maximum`, a function of two values: max for numbers, numpy.maximum for
vectors (float64, because products of three sizes leave int64), sympy.Max for symbols.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from roofcal.core.devices import DeviceSpec
from roofcal.core.names import did_you_mean
from roofcal.models.errors import PredictError

Size = TypeVar("Size", float, NDArray[np.float64])
Maximum: TypeAlias = Callable[[Any, Any], Any]

LAUNCH_S: Final = 2e-6  # a kernel of one element, measured on an H100; a floor under every kernel
DATASHEET: Final = "datasheet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """A device as torchao sees it.

    name               the set of constants
    peak_flops_per_s   dense rate by format of the operands: bf16, fp8, fp4
    math_fraction      of the peak that a large product reaches
    dram_fraction      of the bandwidth that a large pointwise kernel reaches
    """

    name: str
    device: str
    peak_flops_per_s: Mapping[str, float]
    dram_bytes_per_s: float
    math_fraction: float
    dram_fraction: float
    launch_s: float = LAUNCH_S


_HOPPER: Final = {"bf16": 989e12, "fp8": 1979e12}
_BLACKWELL: Final = {"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 9.0e15}
_BLACKWELL_ULTRA: Final = {"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 14e15}
_CDNA3: Final = {"bf16": 1307e12, "fp8": 2614e12}
_B200_BY_CLOCK: Final = 7680 / 8 * 3.996e9 * 2  # bits / 8 x clock x 2 transfers: 7.672 TB/s

# set -> device -> peaks, bandwidth, fraction of the peak, fraction of the bandwidth
_ROWS: Final = {
    "torchao-2025": {
        "nvidia-h100-sxm": (_HOPPER, 2.4e12, 0.78, 0.92),
        "nvidia-b200": (_BLACKWELL, 8.0e12, 0.78, 0.92),
        "amd-mi300x": (_CDNA3, 5.3e12, 0.47, 0.72),
    },
    "torchao-0.18.0": {
        "nvidia-h100-sxm": (_HOPPER, 2.4e12, 0.78, 0.92),
        "nvidia-b200": (_BLACKWELL, _B200_BY_CLOCK, 0.78, 0.92),
        "nvidia-b300": (_BLACKWELL_ULTRA, 8.0e12, 0.82, 0.84),
        "nvidia-gb200": (_BLACKWELL, 8.0e12, 0.78, 0.92),
        "amd-mi300x": (_CDNA3, 5.3e12, 0.78, 0.92),
    },
}
_VENDOR_FRACTIONS: Final = {"nvidia": (0.78, 0.92), "amd": (0.47, 0.72)}

SETS: Final[dict[str, dict[str, Constants]]] = {
    name: {
        device: Constants(
            name=name,
            device=device,
            peak_flops_per_s=peaks,
            dram_bytes_per_s=bandwidth,
            math_fraction=math_fraction,
            dram_fraction=dram_fraction,
        )
        for device, (peaks, bandwidth, math_fraction, dram_fraction) in rows.items()
    }
    for name, rows in _ROWS.items()
}


def check_name(kind: str, name: str, allowed: Iterable[str]) -> None:
    """Raises PredictError, with the nearest name and all there are, for one that is not allowed."""
    names = sorted(allowed)
    if name not in names:
        suggestion = did_you_mean(name, names, otherwise=";")
        raise PredictError(
            f"torchao: unknown {kind} '{name}'{suggestion} known: {', '.join(names)}"
        )


def from_datasheet(spec: DeviceSpec) -> Constants:
    """The constants of a device that torchao does not list."""
    math_fraction, dram_fraction = _VENDOR_FRACTIONS[spec.vendor]
    peaks = spec.peak_flops_per_s
    return Constants(
        name=DATASHEET,
        device=spec.device,
        peak_flops_per_s={
            dtype: peaks[dtype] for dtype in ("bf16", "fp8", "fp4") if dtype in peaks
        },
        dram_bytes_per_s=spec.dram_bytes_per_s,
        math_fraction=math_fraction,
        dram_fraction=dram_fraction,
    )


def choose_constants(device: str, name: str | None, spec: DeviceSpec | None) -> Constants:
    """Constants of the set `name`, or without a name of the first that has the device.

    The order: torchao-2025, torchao-0.18.0, datasheet. Raises PredictError where none has it.
    """
    if name not in (None, DATASHEET):
        check_name("set of constants", name, [*SETS, DATASHEET])
        check_name(f"device of {name}", device, SETS[name])
        return SETS[name][device]
    listed = [rows[device] for rows in SETS.values() if device in rows and name is None]
    if listed:
        return listed[0]
    if spec is None:
        devices = sorted({device for rows in SETS.values() for device in rows})
        raise PredictError(
            f"torchao: unknown device '{device}': there is no config/devices/{device}.yaml; "
            f"torchao lists {', '.join(devices)}"
        )
    return from_datasheet(spec)
