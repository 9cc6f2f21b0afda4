"""Constants of two calibrations that moved."""

import math
from collections.abc import Mapping
from typing import Any

from roofcal.core.jsonl import read_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, Ceiling


def read_constants(run: RunFolder) -> Mapping[str, Ceiling] | None:
    """The constants of a run's calibration.jsonl, None without one; RecordsError: a bad file."""
    path = run.calibration_file
    found = read_records(path, Calibration) if path.is_file() else []
    return found[0].constants if found else None


def moved(
    a: Mapping[str, Ceiling], b: Mapping[str, Ceiling], threshold: float
) -> list[dict[str, Any]]:
    """Constants whose difference has a 95 % interval without 0, and is above `threshold` of A's.

    The interval of a difference comes from those of the two (Zou and Donner, Statistics in Medicine
    27, 2008). With a hundred constants some five move by chance. A constant of one calibration
    alone has None for the value of the other; those come last, the largest changes first.
    """
    rows = []
    for name in sorted({*a, *b}):
        row = _row(name, a.get(name), b.get(name))
        small = row["change"] is not None and abs(row["change"]) < threshold
        if row["moved"] and not small:
            rows.append(row)
    return sorted(rows, key=lambda row: (row["change"] is None, -abs(row["change"] or 0.0)))


def _row(name: str, a: Ceiling | None, b: Ceiling | None) -> dict[str, Any]:
    known = a or b
    row: dict[str, Any] = {"constant": name, "unit": known.unit if known else None}
    for end, one in (("a", a), ("b", b)):
        row |= {
            end: one.value if one else None,
            f"{end}_low": one.ci95_low if one else None,
            f"{end}_high": one.ci95_high if one else None,
        }
    if a is None or b is None:
        return row | {"change": None, "moved": True}
    change = b.value / a.value - 1 if a.value else None
    return row | {"change": change, "moved": _differ(a, b)}


def _differ(a: Ceiling, b: Ceiling) -> bool:
    low = b.value - a.value - math.hypot(b.value - b.ci95_low, a.ci95_high - a.value)
    high = b.value - a.value + math.hypot(b.ci95_high - b.value, a.value - a.ci95_low)
    return low > 0 or high < 0
