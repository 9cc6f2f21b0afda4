"""The published H200 as `ask` reads it: its calibration and the folder with plans and tables."""

from functools import cache
from typing import Final

from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration
from roofcal.models.calibrations import read_calibration
from roofcal.ops.time_models import Sources
from tests.paths import ROOT

PUBLISHED: Final = RunFolder.at(next((ROOT / "reports/published/nvidia-h200").iterdir()))


@cache
def published_sources() -> Sources:
    return Sources(calibration=published_calibration())


@cache
def published_calibration() -> Calibration:
    return read_calibration(PUBLISHED.calibration_file, "nvidia-h200")
