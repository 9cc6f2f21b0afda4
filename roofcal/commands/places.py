"""Where a command finds datasheets, published and own results, below the current folder."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from roofcal.devices import DeviceSpec
    from roofcal.predict.wave.device import WaveDevice

CONFIG: Final = Path("config")
DEVICES: Final = Path("config/devices")
WAVE: Final = Path("config/wave")
CLAIMS: Final = Path("config/claims")
PUBLISHED: Final = Path("reports/published")
RESULTS: Final = Path("results")

# What add_subparsers gives; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def datasheet(device: str) -> "DeviceSpec | None":
    """The datasheet of a device id, or None where nobody wrote one."""
    from roofcal.devices import load_devices

    return load_devices(DEVICES).get(device)


def wave_device(device: str) -> "WaveDevice | None":
    """The wave model's description of a device id, or None where nobody wrote one."""
    from roofcal.predict.wave.load import load_wave_device

    path = WAVE / f"{device}.yaml"
    return load_wave_device(path) if path.is_file() else None
