"""SI and binary multiples; everything inside roofcal is in SI (seconds, bytes, hertz, watts)."""

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
GB: Final = 10**9
TERA: Final = 10**12


def format_bytes(count: float) -> str:
    """A byte count with a binary prefix: 1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def format_seconds(seconds: float) -> str:
    """A duration with a fitting prefix: 3.2e-6 -> '3.2 us'."""
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds:.4g} s"
