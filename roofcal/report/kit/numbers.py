"""Numbers as people read them. Tables keep the SI value beside them, for sorting."""

import math
from collections.abc import Iterable
from typing import Any, Final

from roofcal.core.units import MISSING, fitting_unit, format_bytes, significant, with_minus_sign

TIMES: Final = "\N{MULTIPLICATION SIGN}"
MICROSECONDS: Final = "\N{MICRO SIGN}s"
_SPACE: Final = "\N{NO-BREAK SPACE}"


def is_missing(value: object) -> bool:
    """Whether a cell of a frame is empty: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def percent(fraction: float, digits: int = 1, *, signed: bool = False) -> str:
    """0.1234 -> '12.3 %'; signed: '+12.3 %'."""
    if not math.isfinite(fraction):
        return MISSING
    return with_minus_sign(f"{100 * fraction:{'+' if signed else ''}.{digits}f}") + f"{_SPACE}%"


def times(ratio: float) -> str:
    """1.8432 -> '1.84x' with a multiplication sign."""
    return f"{ratio:.2f}{TIMES}" if math.isfinite(ratio) else MISSING


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """A value of an SI unit with a fitting prefix: (4.1e12, 'B/s') -> '4.10 TB/s'."""
    factor, prefixed = fitting_unit(value, unit)
    return f"{significant(value / factor, digits)}{_SPACE}{prefixed}".rstrip(_SPACE)


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


def axis_text(row: Any) -> str:
    """Sizes with their names: 'm = 16, n = 3,584, k = 8,192'."""
    return ", ".join(f"{axis} = {row[axis]:,}" for axis in "mnk")
