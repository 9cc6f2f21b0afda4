"""Calibrated rooflines for low-precision GEMMs: plan, measure, calibrate, predict, report.

`roofcal.predict`, `advise`, `breakeven`, `llm`, `load` and `devices` answer in Python what the
commands answer in a shell (roofcal/api.py). `roofcal.time_products` measures.
"""

from importlib import import_module
from typing import Any, Final

__version__ = "0.4.0"

_API: Final = (
    *("predict", "advise", "breakeven", "llm", "llm_compare", "llm_curve", "llm_sweep"),
    *("load", "devices", "time_products"),
)


def __getattr__(name: str) -> Any:
    """A function of roofcal.api, imported when it is first used: `import roofcal` takes 1 ms."""
    if name in _API:
        return getattr(import_module("roofcal.api"), name)
    raise AttributeError(f"module 'roofcal' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])
