"""The table of constants: one row per constant, in SI, and as people read it."""

import math
import re
from dataclasses import dataclass
from typing import Final

from roofcal.core.records import Ceiling
from roofcal.ops.gemm.model import BY_CODE

COLUMNS: Final = ("name", "value", "ci95_low", "ci95_high", "unit", "choice", "evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A constant. `choice` is what a constant of unit "code" stands for, None of other units."""

    name: str
    value: float
    ci95_low: float
    ci95_high: float
    unit: str
    choice: str | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A constant in text, to four digits, in a unit that fits it; no interval where it is exact."""

    name: str
    value: str
    interval: str
    unit: str
    evidence: str


def rows(constants: dict[str, Ceiling]) -> list[Row]:
    """The constants of the device, then those of each recipe, by name."""
    order = sorted(constants, key=lambda name: ("." in name, name))
    return [_row(name, constants[name]) for name in order]


def _row(name: str, constant: Ceiling) -> Row:
    return Row(
        name=name,
        value=constant.value,
        ci95_low=constant.ci95_low,
        ci95_high=constant.ci95_high,
        unit=constant.unit,
        choice=BY_CODE.get(int(constant.value)) if constant.unit == "code" else None,
        evidence=constant.evidence,
    )


def shown(row: Row) -> Shown:
    """A row for people; value and interval share one unit."""
    exact = row.ci95_low == row.ci95_high
    factor, unit = (1.0, "") if row.unit in ("1", "code") else _fitting(row.value, row.unit)
    counted = exact and row.value.is_integer() and factor == 1.0
    value = f"{row.value:.0f}" if counted else four_digits(row.value / factor)
    low, high = (four_digits(end / factor) for end in (row.ci95_low, row.ci95_high))
    return Shown(
        name=row.name,
        value=row.choice or value,
        interval="" if exact else f"{low} to {high}",
        unit=unit,
        evidence=re.sub(r"[{}']", "", row.evidence),  # a shape in Python's spelling
    )


_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""), (1e-3, "m"), (1e-6, "u"))
_SMALL: Final = ((1e-9, "n"), (1e-12, "p"))
_PREFIXED: Final = {u: u for u in ("B/s", "Hz", "s", "s/B", "W")} | {"flop/s": "FLOP/s"}


def _fitting(value: float, unit: str) -> tuple[float, str]:
    """(factor, unit with its prefix): (4.1e12, "B/s") -> (1e12, "TB/s")."""
    base, _, rest = unit.partition(" ")
    if base not in _PREFIXED or value == 0 or not math.isfinite(value):
        return 1.0, unit
    fits = [(f, p) for f, p in (*_PREFIXES, *_SMALL) if abs(value) >= 0.9995 * f]
    factor, prefix = fits[0] if fits else _SMALL[-1]
    return factor, f"{prefix}{_PREFIXED[base]} {rest}".rstrip()


def four_digits(value: float) -> str:
    """To four significant digits; whole digits stay, and no exponent: 12345.6 -> '12346'."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.4g}")  # 0.99996 has four digits as 1.000
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(rounded))))}f}"
