"""Numbers as people read them. Tables keep the SI value beside them, for sorting."""

import math
from typing import Final

MISSING: Final = "\N{EN DASH}"
_MINUS: Final = "\N{MINUS SIGN}"


def significant(value: float, digits: int = 3, *, plain: bool = False) -> str:
    """A number to some significant digits; whole digits are never rounded away.

    12345.6 -> '12,346', 1.23456 -> '1.23'. plain: no separators, ASCII minus, exponents allowed.
    """
    if plain:
        return f"{value:.{digits}g}"
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return _signed(f"{value:,.{min(decimals, 12)}f}")


def percent(fraction: float, digits: int = 1, *, signed: bool = False) -> str:
    """0.1234 -> '12.3 %'; signed: '+12.3 %'."""
    if not math.isfinite(fraction):
        return MISSING
    return _signed(f"{100 * fraction:{'+' if signed else ''}.{digits}f}") + "\N{NO-BREAK SPACE}%"


def is_missing(value: object) -> bool:
    """Whether a cell of a frame holds nothing: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def times(ratio: float) -> str:
    """1.8432 -> '1.84x' with a multiplication sign."""
    return f"{ratio:.2f}\N{MULTIPLICATION SIGN}" if math.isfinite(ratio) else MISSING


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """A value of an SI unit with a fitting prefix: (4.1e12, 'B/s') -> '4.10 TB/s'."""
    factor, shown = fitting(value, unit)
    return f"{significant(value / factor, digits)}\N{NO-BREAK SPACE}{shown}".rstrip(
        "\N{NO-BREAK SPACE}"
    )


_PREFIXES: Final = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "\N{MICRO SIGN}"),
    (1e-9, "n"),
    (1e-12, "p"),
)
_PREFIXED: Final = ("flop/s", "B/s", "Hz", "s", "s/B", "W")
_SHOWN: Final = {"flop/s": "FLOP/s"}
# What people say instead of the next prefix: 1,400 TFLOP/s rather than 1.4 PFLOP/s.
_LARGEST: Final = {"flop/s": 1e12, "B/s": 1e12, "Hz": 1e6, "W": 1.0, "s": 1.0}


def fitting(value: float, unit: str) -> tuple[float, str]:
    """(factor, unit with prefix) for a value; units that take no prefix come back as they are."""
    base, _, rest = unit.partition(" ")
    if base not in _PREFIXED or not math.isfinite(value) or value == 0:
        return 1.0, "" if unit in ("1", "code") else unit
    most = _LARGEST.get(base, math.inf)
    allowed = [(factor, prefix) for factor, prefix in _PREFIXES if factor <= most]
    smallest = 1e-12 if base in ("s", "s/B") else 1.0
    for factor, prefix in allowed:
        if abs(value) >= 0.9995 * factor or factor <= smallest:
            shown = f"{prefix}{_SHOWN.get(base, base)}"
            return factor, f"{shown} {rest}".rstrip()
    raise AssertionError("the last prefix fits everything")


def binary(count: float) -> str:
    """Bytes with a binary prefix: 1048576 -> '1 MiB'."""
    for prefix in ("", "Ki", "Mi", "Gi"):
        if count < 1024:
            return f"{_trim(count)}\N{NO-BREAK SPACE}{prefix}B"
        count /= 1024
    return f"{_trim(count)}\N{NO-BREAK SPACE}TiB"


def _trim(value: float) -> str:
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """A wall time in words: 95 -> '1 min 35 s'."""
    whole = round(seconds)
    if whole < 60:
        return (
            f"{seconds:.1f}\N{NO-BREAK SPACE}s" if seconds < 10 else f"{whole}\N{NO-BREAK SPACE}s"
        )
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """(1, 'point') -> '1 point', (1200, 'point') -> '1,200 points'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _signed(text: str) -> str:
    return text.replace("-", _MINUS)
