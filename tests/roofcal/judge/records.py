"""Some records of seed 1 on an H100, and the published run whose constants predict them."""

from functools import cache
from pathlib import Path
from typing import Final

from roofcal.core.devices import DeviceSpec, load_devices
from roofcal.core.paths import RunFolder
from roofcal.points.run import Run, load_run
from tests.paths import ROOT

SEED: Final = 1
JUDGED: Final = RunFolder.at(Path(__file__).parent / "seed1")


@cache
def published_run() -> Run:
    """The published H100."""
    return load_run(next((ROOT / "reports/published/nvidia-h100-sxm").iterdir()))


@cache
def h100() -> DeviceSpec:
    """Its datasheet."""
    return load_devices(ROOT / "config/devices")["nvidia-h100-sxm"]
