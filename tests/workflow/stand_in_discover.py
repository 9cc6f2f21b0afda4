"""Stands in for roofcal/study/discover.py in the workflow tests: finds what devices.json lists."""

import json
from pathlib import Path

from roofcal.core.records import Environment


def left_out() -> list[str]:
    """What hidden.txt says of GPUs that are not measured."""
    file = Path("hidden.txt")
    return file.read_text().splitlines() if file.exists() else []


def discover(devices_folder: Path) -> list[Environment]:
    """One environment per entry of devices.json."""
    entries = json.loads(Path("devices.json").read_text())
    return [
        Environment(device_name="", compute_units=1, python="3.11", **entry) for entry in entries
    ]
