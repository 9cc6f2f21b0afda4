"""SI and binary multiples; everything inside roofcal is in SI (seconds, bytes, hertz, watts)."""

import math
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
MEGA: Final = 10**6
GB: Final = 10**9
TERA: Final = 10**12

# Factor and letter of every SI prefix in use, the largest first.
SI_PREFIXES: Final = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
    (1e-9, "n"),
    (1e-12, "p"),
    (1e-15, "f"),
    (1e-18, "a"),
    (1e-21, "z"),
    (1e-24, "y"),
)


def format_bytes(count: float) -> str:
    """A byte count with a binary prefix: 1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def format_seconds(seconds: float) -> str:
    """A duration with the prefix that leaves at least one whole digit: 3.2e-6 -> '3.2 us'."""
    small = [(factor, prefix) for factor, prefix in SI_PREFIXES if 1e-9 <= factor <= 1]
    factor, prefix = next((pair for pair in small if seconds >= pair[0]), small[-1])
    return f"{seconds / factor:.4g} {prefix}s"


# --- numbers in tables for people ----------------------------------------------------------------

MISSING: Final = "\N{EN DASH}"
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
    smallest = SI_PREFIXES[-1][0] if base in ("s", "s/B") else 1.0
    for factor, prefix in SI_PREFIXES:
        # 0.9995 of a prefix is printed as 1,000 of the next smaller one by three digits.
        if factor <= largest and (abs(value) >= 0.9995 * factor or factor <= smallest):
            sign = prefix.replace("u", "\N{MICRO SIGN}")
            return factor, f"{sign}{_SPELLING.get(base, base)} {qualifier}".rstrip()
    raise AssertionError("the smallest prefix fits every value")


def significant(value: float, digits: int = 3) -> str:
    """A number to some significant digits; whole digits are never rounded away.

    12345.6 -> '12,346', 1.23456 -> '1.23'.
    """
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # once rounded: 9.9996 is 10.00
    decimals = max(0, digits - 1 - exponent)
    return with_minus_sign(f"{value:,.{min(decimals, 12)}f}")


def with_minus_sign(text: str) -> str:
    """The text of a number, with a typographic minus sign."""
    return text.replace("-", "\N{MINUS SIGN}")


def with_interval(value: float, low: float, high: float, unit: str) -> tuple[str, str, str]:
    """(value, '<low> to <high>', unit) to four digits, in a prefixed unit that fits the value.

    A value that is exact has no interval, ''. A whole one has all its digits.
    """
    factor, prefixed = fitting_unit(value, unit)
    if low == high and float(value).is_integer() and factor == 1.0:
        return f"{value:,.0f}", "", prefixed
    shown, *ends = (significant(number / factor, 4) for number in (value, low, high))
    return shown, "" if low == high else " to ".join(ends), prefixed
