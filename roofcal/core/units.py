"""SI and binary multiples; everything inside roofcal is in SI (seconds, bytes, hertz, watts)."""

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
