"""What torchao assumes of a device: peaks, bandwidth, achievable fractions, launch.

Two sets of torchao's own figures, by name, and one rule for every other device.

torchao-2025    the seed document torchao_roofline_utils: H100, B200, MI300X. Its H100 is a custom
                board with 2.4 TB/s (a usual nvidia-h100-sxm has 3.35). 0.78 and 0.92 were observed
                on that H100 and copied to the B200; the MI300X's 0.47 and 0.72 were measured.
torchao-0.18.0  torchao/testing/training/roofline_utils.py of the wheel torchao 0.18.0 (PyPI). New:
                B300 with fractions measured on it, GB200. The B200's bandwidth is computed from bus
                width and clock. The MI300X has the H100's fractions again: 0.78 and 0.92.
                Its RTX 5090 is left out: it has no fractions, so that torchao itself fails there,
                and its bandwidth is printed a thousand times too large.
datasheet       any device: peaks and bandwidth of config/devices/<device>.yaml, the fractions that
                torchao-2025 has for the vendor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roofcal.core.devices import DeviceSpec
from roofcal.models.errors import PredictError
from roofcal.models.torchao.names import check_known

LAUNCH_S: Final = 2e-6  # a kernel of one element, measured on an H100; a floor under every kernel
DATASHEET: Final = "datasheet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """A device as torchao sees it.

    name               the set they are from
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


def constants_named(name: str, device: str) -> Constants:
    """torchao's own figures of a device; raises PredictError with the sets or devices there are."""
    check_known("set of constants", name, SETS)
    check_known(f"device of {name}", device, SETS[name])
    return SETS[name][device]


def from_datasheet(spec: DeviceSpec) -> Constants:
    """The rule for devices that torchao does not list; see the module."""
    math_fraction, dram_fraction = _VENDOR_FRACTIONS[spec.vendor]
    rates = {f: r for f, r in spec.peak_flops_per_s.items() if f in ("bf16", "fp8", "fp4")}
    return Constants(
        name=DATASHEET,
        device=spec.device,
        peak_flops_per_s=rates,
        dram_bytes_per_s=spec.dram_bytes_per_s,
        math_fraction=math_fraction,
        dram_fraction=dram_fraction,
    )


def choose_constants(device: str, name: str | None, spec: DeviceSpec | None) -> Constants:
    """Constants of the set `name`, or without a name of the first that has the device.

    The order: torchao-2025, torchao-0.18.0, datasheet. Raises PredictError where none has it.
    """
    if name not in (None, DATASHEET):
        check_known("set of constants", name, [*SETS, DATASHEET])
        return constants_named(name, device)
    listed = [rows[device] for rows in SETS.values() if device in rows and name is None]
    if listed:
        return listed[0]
    if spec is None:
        known = sorted({device for rows in SETS.values() for device in rows})
        raise PredictError(
            f"torchao: unknown device '{device}': there is no config/devices/{device}.yaml; "
            f"torchao lists {', '.join(known)}"
        )
    return from_datasheet(spec)
