"""Links between devices: bandwidth by size as measured, and what was fitted to it."""

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from roofcal.core.records import Calibration
from roofcal.ops.probe_link.model import COLLECTIVES, share
from roofcal.ops.probe_link.spec import OP as PROBE
from roofcal.points.roofs import constants_of
from roofcal.report.data.tidy import ok_rows
from roofcal.report.kit.columns import count, number, texts
from roofcal.report.kit.numbers import MICROSECONDS

OP: Final = PROBE.name
SYMMETRIC: Final = "symm_mem"
_SYMMETRIC_SUFFIX: Final = f"_{SYMMETRIC}"
_METHODS: Final = ("graph", "wall")  # the first that was measured, as roofcal.ops.probe_link.fit

LINK_CONSTANTS: Final = (
    *texts("collective", "by"),
    count("world_size", "devices"),
    number("rate", "rate", "GB/s", 1e-9),
    number("rate_low", "low", "GB/s", 1e-9),
    number("rate_high", "high", "GB/s", 1e-9),
    number("latency", "latency", MICROSECONDS, 1e6),
    number("latency_low", "low", MICROSECONDS, 1e6),
    number("latency_high", "high", MICROSECONDS, 1e6),
)
_KINDS: Final = {"bytes_per_s": "rate", "latency_s": "latency"}
_KEYS: Final = ("collective", "by", "world_size")


def link_constants(calibration: Calibration | None) -> pd.DataFrame:
    """One row per collective, provider and world size: rate and latency with their intervals."""
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for name, constant in constants_of(calibration).items():
        prefix, *parts = name.split(".")
        if prefix != "link" or len(parts) != 3 or parts[2] not in _KINDS:
            continue
        collective, size, kind = parts[0], int(parts[1]), _KINDS[parts[2]]
        # symmetric memory is in the name of a constant, the library in its evidence
        library = "gloo" if "provider gloo" in constant.evidence else "nccl"
        is_symmetric = collective.endswith(_SYMMETRIC_SUFFIX) or collective == "send"
        provider = SYMMETRIC if is_symmetric else library
        key = (collective.removesuffix(_SYMMETRIC_SUFFIX), provider, size)
        row = rows.setdefault(key, dict(zip(_KEYS, key, strict=True)))
        row[kind] = constant.value
        row[f"{kind}_low"], row[f"{kind}_high"] = constant.ci95_low, constant.ci95_high
    order = list(COLLECTIVES.values())
    ordered = sorted(rows, key=lambda key: (order.index(key[0]), key[1], key[2]))
    columns = [column.key for column in LINK_CONSTANTS]
    return pd.DataFrame([rows[key] for key in ordered], columns=columns)


def link_curves(frame: pd.DataFrame | None) -> pd.DataFrame:
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


def fit_of_curve(
    constants: pd.DataFrame, recipe: str, provider: str, world_size: int
) -> Mapping[str, float] | None:
    """The row of `link_constants` behind a curve; None for a curve that was not fitted."""
    rows = constants[
        (constants["collective"] == COLLECTIVES[recipe])
        & (constants["by"] == provider)
        & (constants["world_size"] == world_size)
    ]
    return None if rows.empty else dict(rows.iloc[0])
