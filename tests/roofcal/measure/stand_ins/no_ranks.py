"""Stands in for roofcal.measure.ranks where processes cannot join each other; all else is real."""

import runpy
from pathlib import Path
from typing import Any

REAL = Path(__file__).parents[4] / "roofcal/measure/ranks.py"
globals().update(runpy.run_path(str(REAL)))


class Ranks:
    def __init__(self, *_: Any) -> None:
        raise OSError("no network")
