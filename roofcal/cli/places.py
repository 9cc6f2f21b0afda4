"""Where a command finds datasheets, published and own results, below the current folder."""

import argparse
from typing import TYPE_CHECKING, TypeAlias

from roofcal.core.paths import CLAIMS, CONFIG, DEVICES, PUBLISHED, RESULTS

__all__ = ["CLAIMS", "CONFIG", "DEVICES", "PUBLISHED", "RESULTS", "Commands"]

if TYPE_CHECKING:
    from roofcal.core.devices import DeviceSpec

# What add_subparsers gives; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def datasheet(device: str) -> "DeviceSpec | None":
    """The datasheet of a device id, or None where nobody wrote one."""
    from roofcal.core.devices import load_devices

    return load_devices(DEVICES).get(device)
