"""Break-even points of two runs that moved: from which M a linear is faster than in bf16."""

import csv
import math
from typing import Any, Final

from roofcal.compare.errors import CompareError
from roofcal.core.paths import RunFolder

_KEYS: Final = ("recipe", "pass", "casts", "n", "k")
_ENDS: Final = ("breakeven_m", "breakeven_m_low", "breakeven_m_high")

Ends = tuple[float, float, float]


def read_breakeven(run: RunFolder) -> dict[tuple[str, ...], Ends] | None:
    """(m, low, high) of every linear of breakeven.csv, infinity for never; None without a file.

    Raises CompareError for a file that is no such table.
    """
    path = run.breakeven_file
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as stream:
        try:
            rows = {_key(row): _ends(row) for row in csv.DictReader(stream)}
        except (KeyError, ValueError, TypeError, UnicodeDecodeError) as error:
            raise CompareError(
                f"{path}: line is no row of a break-even map ({error}); delete it and run "
                "`make study` again"
            ) from None
    return rows


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in _KEYS)


def _ends(row: dict[str, str]) -> Ends:
    m, low, high = (float(row[name]) if row[name] else math.inf for name in _ENDS)
    return m, low, high


def moved(a: dict[tuple[str, ...], Ends], b: dict[tuple[str, ...], Ends]) -> list[dict[str, Any]]:
    """Linears of both maps whose break-even M has another best estimate, m None for never.

    `clear` where the 95 % intervals do not overlap. Those come first.
    """
    rows = [_row(key, a[key], b[key]) for key in a if key in b and a[key][0] != b[key][0]]
    return sorted(rows, key=lambda row: not row["clear"])


def _row(key: tuple[str, ...], a: Ends, b: Ends) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(_KEYS, key, strict=True))
    row |= {"n": int(row["n"]), "k": int(row["k"])}
    for end, values in (("a", a), ("b", b)):
        names = (f"m_{end}", f"m_{end}_low", f"m_{end}_high")
        row |= {n: None if math.isinf(v) else int(v) for n, v in zip(names, values, strict=True)}
    return row | {"clear": a[2] < b[1] or b[2] < a[1]}
