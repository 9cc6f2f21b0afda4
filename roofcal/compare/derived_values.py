"""What moved among the values that are derived from runs: constants and break-even points."""

import csv
import math
from collections.abc import Mapping
from typing import Any, Final

from roofcal.compare.observations import CompareError
from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import CODE, Calibration, Ceiling
from roofcal.core.visits.differences import error_of_difference
from roofcal.ops.constants import family_of_constant

_LINEAR: Final = ("recipe", "pass", "casts", "n", "k")  # columns that name a linear
_ENDS: Final = ("breakeven_m", "breakeven_m_low", "breakeven_m_high")

Linear = tuple[str, ...]
Interval = tuple[float, float, float]  # best estimate and ends, infinity for never


def read_constants(run: RunFolder) -> Mapping[str, Ceiling] | None:
    """The constants of a run's calibration, None without one; RecordsError for a bad file."""
    path = run.calibration_file
    return read_single_record(path, Calibration).constants if path.is_file() else None


def moved_constants(
    a: Mapping[str, Ceiling], b: Mapping[str, Ceiling], threshold: float
) -> list[dict[str, Any]]:
    """Constants whose difference has a 95 % interval without 0, and is above `threshold` of A's.

    With a hundred constants some five move by chance. The largest changes come first;
    then names that became others (`choice_a`, `choice_b`), which have no `change`; last constants
    of one calibration alone, which have None for the value of the other.
    """
    rows = []
    for name in sorted({*a, *b}):
        row = _constant_row(name, a.get(name), b.get(name))
        is_small = row["change"] is not None and abs(row["change"]) < threshold
        if row["moved"] and not is_small:
            rows.append(row)
    return sorted(rows, key=_largest_first)


def _largest_first(row: dict[str, Any]) -> tuple[bool, bool, float]:
    is_of_one = row["a"] is None or row["b"] is None
    return is_of_one, row["change"] is None, -abs(row["change"] or 0.0)


def _constant_row(name: str, a: Ceiling | None, b: Ceiling | None) -> dict[str, Any]:
    row: dict[str, Any] = {"constant": name, "unit": next(c.unit for c in (a, b) if c)}
    row |= {
        f"choice_{end}": family_of_constant(name, constant) if constant else None
        for end, constant in (("a", a), ("b", b))
    }
    for end, constant in (("a", a), ("b", b)):
        row |= {
            end: constant.value if constant else None,
            f"{end}_low": constant.ci95_low if constant else None,
            f"{end}_high": constant.ci95_high if constant else None,
        }
    if a is None or b is None:
        return row | {"change": None, "moved": True}
    if row["unit"] == CODE:  # names have no distance
        return row | {"change": None, "moved": a.value != b.value}
    change = b.value / a.value - 1 if a.value else None
    difference = b.value - a.value
    below, above = error_of_difference(*((c.value, c.ci95_low, c.ci95_high) for c in (b, a)))
    return row | {"change": change, "moved": bool(difference > below or -difference > above)}


def read_breakeven(run: RunFolder) -> dict[Linear, Interval] | None:
    """(M, low, high) of every linear of breakeven.csv, infinity for never; None without a file.

    Raises CompareError for a file that is no such table.
    """
    path = run.breakeven_file
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as stream:
        try:
            return {_linear_of_row(row): _interval_of_row(row) for row in csv.DictReader(stream)}
        except (KeyError, ValueError, TypeError, UnicodeDecodeError, csv.Error) as error:
            raise CompareError(
                f"{path}: a line is no row of a break-even map ({error}); delete the file and run "
                "`make study` again"
            ) from None


def _linear_of_row(row: dict[str, str]) -> Linear:
    int(row["n"]), int(row["k"])  # raises here, where the file is still named
    return tuple(row[name] for name in _LINEAR)


def _interval_of_row(row: dict[str, str]) -> Interval:
    m, low, high = (float(row[name]) if row[name] else math.inf for name in _ENDS)
    return m, low, high


def moved_breakevens(
    a: Mapping[Linear, Interval], b: Mapping[Linear, Interval]
) -> list[dict[str, Any]]:
    """Linears of both maps whose break-even M has another best estimate, M None for never.

    `clear` where the 95 % intervals do not overlap. Those come first.
    """
    moved = [linear for linear in a if linear in b and a[linear][0] != b[linear][0]]
    rows = [_breakeven_row(linear, a[linear], b[linear]) for linear in moved]
    return sorted(rows, key=lambda row: not row["clear"])


def _breakeven_row(linear: Linear, a: Interval, b: Interval) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(_LINEAR, linear, strict=True))
    row |= {"n": int(row["n"]), "k": int(row["k"])}
    for end, values in (("a", a), ("b", b)):
        names = (f"m_{end}", f"m_{end}_low", f"m_{end}_high")
        row |= {n: None if math.isinf(v) else int(v) for n, v in zip(names, values, strict=True)}
    return row | {"clear": a[2] < b[1] or b[2] < a[1]}
