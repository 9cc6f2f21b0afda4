"""What should not be: points faster than a roof allows, and points without a time.

A point below the time of its roof has one of three causes: the roof is wrong (datasheet of another
card, a ceiling fitted on too few probes), the data never came from memory (warm cache), or the
clock was read wrongly (broken timer). Hot points are left out: their data stays in the cache on
purpose.
"""

from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.points.columns import INTERVAL_HOLDS, PROTOCOL
from roofcal.report.data.tidy import axes_of, ok_rows

VIOLATION_COLUMNS: Final = ("bound", "bound_s", "factor", "cause")
_TIMER_FACTOR: Final = 1.5  # further beyond a datasheet than any rounding or boost clock reaches


def violations(frame: pd.DataFrame, cache_bytes: float | None = None) -> pd.DataFrame:
    """Points whose whole interval is faster than a roof allows, worst first.

    bound   datasheet or calibrated (the upper ends of the intervals of its ceilings)
    factor  bound_s / median_s, above 1
    cause   the most likely one

    Args:
        frame: tidy frame of an op.
        cache_bytes: size of the last-level cache, which is needed to recognise a warm cache.
    """
    rows = ok_rows(frame)
    rows = rows[rows["cache"] == "cold"]
    roofs = {"datasheet": "datasheet_s", "calibrated": "calibrated_bound_s"}
    parts = []
    for bound, column in roofs.items():
        faster = rows[rows["ci95_high_s"] < rows[column]]
        factor = faster[column] / faster["median_s"]
        faster = faster.assign(bound=bound, bound_s=faster[column], factor=factor)
        causes = [_cause(row, bound, cache_bytes) for row in faster.to_dict("records")]
        parts.append(faster.assign(cause=pd.Series(causes, index=faster.index, dtype=object)))
    head = ["op", "provider", "recipe", *axes_of(frame), *PROTOCOL, "regime"]
    columns = [*head, "median_s", "ci95_high_s", INTERVAL_HOLDS, *VIOLATION_COLUMNS]
    columns += ["achieved_flops_per_s"]
    columns += ["achieved_bytes_per_s", "sm_clock_hz", "point_id"]
    both = pd.concat([part for part in parts if not part.empty] or [parts[0]], ignore_index=True)
    return both.sort_values(["bound", "factor"], ascending=False)[columns].reset_index(drop=True)


def _cause(row: dict[Any, Any], bound: str, cache_bytes: float | None) -> str:
    """The first cause that fits, most certain first."""
    if cache_bytes and 0 < row["rotating_bytes"] <= 2 * cache_bytes:
        return "warm cache: the rotating copies are not twice the last-level cache"
    if row["distribution"] == "zeros":
        return "zeros: they draw less power than the random data of the calibration"
    if bound == "calibrated":
        return "ceiling too low: no probe ran this fast"
    if row["factor"] > _TIMER_FACTOR:
        return "broken timer, or work that was not done"
    return "wrong datasheet: this rate was observed, the datasheet says less"


def worst_factor(violations: pd.DataFrame, bound: str) -> float | None:
    """The largest factor by which a bound was beaten, None if it was not beaten."""
    factors = violations.loc[violations["bound"] == bound, "factor"].to_numpy(dtype=float)
    return float(np.max(factors)) if len(factors) else None


def not_ok(frame: pd.DataFrame) -> pd.DataFrame:
    """Points without a result: what was planned, its status and its reason."""
    head = ["op", "provider", "recipe", *axes_of(frame), *PROTOCOL]
    columns = [*head, "status", "reason", "sweeps", "point_id"]
    return frame.loc[frame["status"] != "ok", columns].reset_index(drop=True)
