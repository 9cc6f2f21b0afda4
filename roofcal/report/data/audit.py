"""What should not be: points faster than a roof above them, and points that have no time.

A point below the time of its roof says that the roof is wrong (datasheet of another card, a ceiling
fitted on too few probes), that the data never came from memory (warm cache), or that the clock was
read wrongly (broken timer). Hot points are left out: their data stays in the cache on purpose.
"""

from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.report.data.tidy import axes_of, ok_rows

VIOLATION_COLUMNS: Final = ("bound", "bound_s", "factor", "cause")
_TIMER_FACTOR: Final = 1.5  # further beyond a datasheet than any rounding or boost clock reaches
_OWN: Final = ("method", "cache", "distribution")


def violations(frame: pd.DataFrame, cache_bytes: float | None = None) -> pd.DataFrame:
    """Points whose whole interval lies below the least time of a roof, worst first.

    bound   datasheet or calibrated (the upper ends of the intervals of its ceilings)
    factor  bound_s / median_s, above 1
    cause   the most likely one; `cache_bytes`, the last-level cache, tells a warm cache
    """
    rows = ok_rows(frame)
    rows = rows[rows["cache"] == "cold"]
    named = {"datasheet": "datasheet_s", "calibrated": "calibrated_bound_s"}
    parts = [_faster(rows, bound, column, cache_bytes) for bound, column in named.items()]
    keep = ["op", "provider", "recipe", *axes_of(frame), *_OWN, "regime", "median_s", "ci95_high_s"]
    columns = [*keep, *VIOLATION_COLUMNS, "achieved_flops_per_s", "achieved_bytes_per_s"]
    columns += ["sm_clock_hz", "point_id"]
    found = pd.concat([part for part in parts if not part.empty] or [parts[0]], ignore_index=True)
    return found.sort_values(["bound", "factor"], ascending=False)[columns].reset_index(drop=True)


def _faster(rows: pd.DataFrame, bound: str, column: str, cache_bytes: float | None) -> pd.DataFrame:
    some = rows[rows["ci95_high_s"] < rows[column]]
    found = some.assign(bound=bound, bound_s=some[column], factor=some[column] / some["median_s"])
    causes = [_cause(row, bound, cache_bytes) for row in found.to_dict("records")]
    return found.assign(cause=pd.Series(causes, index=found.index, dtype=object))


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


def not_ok(frame: pd.DataFrame) -> pd.DataFrame:
    """Points without a time: what was planned, its status and its reason."""
    columns = [
        "op",
        "provider",
        "recipe",
        *axes_of(frame),
        *_OWN,
        "status",
        "reason",
        "sweeps",
        "point_id",
    ]
    return frame.loc[frame["status"] != "ok", columns].reset_index(drop=True)


def reasons(missing: pd.DataFrame) -> pd.DataFrame:
    """not_ok, counted; reasons that differ in numbers alone are one, shown as one point has it."""
    keys = ["op", "status", "provider", "recipe"]
    axes = axes_between(missing)
    kind = missing["reason"].fillna("").str.replace(r"\d[\d.,]*", "#", regex=True)
    rows = []
    for values, group in missing.groupby([*keys, kind], sort=True):
        first = group.iloc[0]
        example = " x ".join(str(first[axis]) for axis in axes)
        row = dict(zip(keys, values[:-1], strict=True))
        rows.append(row | {"reason": first["reason"], "count": len(group), "example": example})
    table = pd.DataFrame(rows, columns=[*keys, "reason", "count", "example"])
    return table.sort_values(
        ["count", *keys], ascending=[False, True, True, True, True], kind="stable"
    ).reset_index(drop=True)


def axes_between(missing: pd.DataFrame) -> list[str]:
    """The op's own axes among the columns of not_ok or violations."""
    names = list(missing.columns)
    return names[names.index("recipe") + 1 : names.index("method")]


def roofs_beaten(table: pd.DataFrame) -> pd.DataFrame:
    """violations, counted: roof, op, cause, points, and the largest factor."""
    groups = table.groupby(["bound", "op", "cause"], sort=True)["factor"]
    counted = groups.agg(points="size", worst="max").reset_index()
    return counted.sort_values(["bound", "points"], ascending=False).reset_index(drop=True)


def worst_factor(table: pd.DataFrame, bound: str) -> float | None:
    """The largest factor by which a bound was beaten, None where none was."""
    factors = table.loc[table["bound"] == bound, "factor"].to_numpy(dtype=float)
    return float(np.max(factors)) if len(factors) else None
