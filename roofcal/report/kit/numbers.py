"""Numbers as people read them. Tables keep the SI value beside them, for sorting."""

import math
from collections.abc import Iterable
from typing import Any, Final

from roofcal.core.units import SI_PREFIXES, format_bytes

MISSING: Final = "\N{EN DASH}"
TIMES: Final = "\N{MULTIPLICATION SIGN}"
MICROSECONDS: Final = "\N{MICRO SIGN}s"
_SPACE: Final = "\N{NO-BREAK SPACE}"


def is_missing(value: object) -> bool:
    """Whether a cell of a frame is empty: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def significant(value: float, digits: int = 3) -> str:
    """A number to some significant digits; whole digits are never rounded away.

    12345.6 -> '12,346', 1.23456 -> '1.23'.
    """
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return _with_minus_sign(f"{value:,.{min(decimals, 12)}f}")


def percent(fraction: float, digits: int = 1, *, signed: bool = False) -> str:
    """0.1234 -> '12.3 %'; signed: '+12.3 %'."""
    if not math.isfinite(fraction):
        return MISSING
    return _with_minus_sign(f"{100 * fraction:{'+' if signed else ''}.{digits}f}") + f"{_SPACE}%"


def times(ratio: float) -> str:
    """1.8432 -> '1.84x' with a multiplication sign."""
    return f"{ratio:.2f}{TIMES}" if math.isfinite(ratio) else MISSING


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """A value of an SI unit with a fitting prefix: (4.1e12, 'B/s') -> '4.10 TB/s'."""
    factor, prefixed = fitting_unit(value, unit)
    return f"{significant(value / factor, digits)}{_SPACE}{prefixed}".rstrip(_SPACE)


_PREFIXED: Final = ("flop/s", "B/s", "Hz", "s", "s/B", "W")
_SPELLING: Final = {"flop/s": "FLOP/s"}
# What people say instead of the next prefix: 1,400 TFLOP/s rather than 1.4 PFLOP/s.
_LARGEST: Final = {"flop/s": 1e12, "B/s": 1e12, "Hz": 1e6, "W": 1.0, "s": 1.0}


def fitting_unit(value: float, unit: str) -> tuple[float, str]:
    """(factor, prefixed unit) for a value; a unit that takes no prefix comes back as it is.

    Only the first word of a unit gets the prefix: 'flop/s per compute unit'.
    """
    base, _, qualifier = unit.partition(" ")
    if base not in _PREFIXED or not math.isfinite(value) or value == 0:
        return 1.0, "" if unit in ("1", "code") else unit
    largest = _LARGEST.get(base, math.inf)
    smallest = 1e-12 if base in ("s", "s/B") else 1.0
    for factor, prefix in SI_PREFIXES:
        # 0.9995 of a prefix is printed as 1,000 of the next smaller one by three digits.
        if factor <= largest and (abs(value) >= 0.9995 * factor or factor <= smallest):
            sign = prefix.replace("u", "\N{MICRO SIGN}")
            return factor, f"{sign}{_SPELLING.get(base, base)} {qualifier}".rstrip()
    raise AssertionError("the smallest prefix fits every value")


def binary(count: float) -> str:
    """Bytes with a binary prefix: 1048576 -> '1 MiB'."""
    return format_bytes(count).replace(" ", _SPACE)


def duration(seconds: float) -> str:
    """A wall time in words: 95 -> '1 min 35 s'."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f}{_SPACE}s" if seconds < 10 else f"{whole}{_SPACE}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """(1, 'point') -> '1 point', (1200, 'point') -> '1,200 points'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shape_text(sizes: Iterable[Any]) -> str:
    """Sizes along the axes of an op as people write them: '16 x 3,584 x 8,192' with the sign."""
    return f" {TIMES} ".join(f"{int(size):,}" for size in sizes)


def axis_text(row: Any, axes: Iterable[str] = ("m", "n", "k")) -> str:
    """Sizes with their names: 'm = 16, n = 3,584, k = 8,192'."""
    return ", ".join(f"{axis} = {row[axis]:,}" for axis in axes)


def _with_minus_sign(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")
