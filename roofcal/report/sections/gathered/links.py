"""Links between devices in the report: measured size -> bandwidth, and what was fitted to it."""

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from roofcal.core.records import Calibration
from roofcal.ops.probe_link.model import COLLECTIVES, share
from roofcal.ops.probe_link.spec import OP as PROBE
from roofcal.report.data.tidy import ok_rows
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, in_unit, text

OP: Final = PROBE.name
SYMMETRIC: Final = "symm_mem"
_TAIL: Final = f"_{SYMMETRIC}"
_METHODS: Final = ("graph", "wall")  # as roofcal.ops.probe_link.fit prefers them


def _rate(key: str, label: str) -> Column:
    return Column(key=key, label=label, kind="number", unit="GB/s", show=in_unit(1e-9, 3))


def _latency(key: str, label: str) -> Column:
    return Column(key=key, label=label, kind="number", unit="\N{MICRO SIGN}s", show=in_unit(1e6, 3))


CONSTANTS: Final[tuple[Column, ...]] = (
    text("collective", "collective"),
    text("by", "by"),
    count("world_size", "devices"),
    _rate("rate", "rate"),
    _rate("rate_low", "low"),
    _rate("rate_high", "high"),
    _latency("latency", "latency"),
    _latency("latency_low", "low"),
    _latency("latency_high", "high"),
)


def constants(calibration: Calibration | None) -> pd.DataFrame:
    """One row per collective, provider and world size: rate and latency with their intervals."""
    known = calibration.constants if calibration else {}
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for name, constant in known.items():
        parts = name.split(".")
        if parts[0] != "link" or len(parts) != 4:
            continue
        key = (parts[1].removesuffix(_TAIL), _by(parts[1], constant.evidence), int(parts[2]))
        kind = {"bytes_per_s": "rate", "latency_s": "latency"}.get(parts[3])
        if kind is None:
            continue
        row = rows.setdefault(key, dict(zip(("collective", "by", "world_size"), key, strict=True)))
        ends = ("", constant.value), ("_low", constant.ci95_low), ("_high", constant.ci95_high)
        row |= {f"{kind}{end}": value for end, value in ends}
    order = list(COLLECTIVES.values())
    ordered = sorted(rows, key=lambda key: (order.index(key[0]), key[1], key[2]))
    return pd.DataFrame([rows[key] for key in ordered], columns=[c.key for c in CONSTANTS])


def _by(name: str, evidence: str) -> str:
    """The provider: symmetric memory by name, the library's as the evidence has it."""
    if name.endswith(_TAIL) or name == "send":
        return SYMMETRIC
    return "gloo" if "provider gloo" in evidence else "nccl"


def curves(frame: pd.DataFrame | None) -> pd.DataFrame:
    """Timed rows of the probe by one method, with `moved_bytes` over a link and `rate` of them."""
    if frame is None or frame.empty:
        return pd.DataFrame()
    rows = ok_rows(frame[frame["repeat"] == 0])
    method = next((m for m in _METHODS if (rows["method"] == m).any()), None)
    rows = rows[rows["method"] == method]
    shares = [
        share(COLLECTIVES[str(recipe)], int(size))
        for recipe, size in zip(rows["recipe"], rows["world_size"], strict=True)
    ]
    moved = rows["size_bytes"] * pd.Series(shares, index=rows.index, dtype="float64")
    return rows.assign(moved_bytes=moved, rate=moved / rows["median_s"])


def fit_of(
    fitted: pd.DataFrame, recipe: str, provider: str, world_size: int
) -> Mapping[str, float] | None:
    """The row of `constants` behind a curve; None where it was not fitted."""
    some = fitted[
        (fitted["collective"] == COLLECTIVES[recipe])
        & (fitted["by"] == provider)
        & (fitted["world_size"] == world_size)
    ]
    return None if some.empty else dict(some.iloc[0])
