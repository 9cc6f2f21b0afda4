"""The calibrated constants of a device as a table: value, interval, datasheet value, fraction."""

from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration, Ceiling
from roofcal.ops.constants import family_of_constant

COLUMNS: Final = (
    "group",
    "name",
    "label",
    "value",
    "ci95_low",
    "ci95_high",
    "unit",
    "datasheet",
    "fraction",
    "choice",
    "evidence",
    "headline",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What a constant is, for a reader; `datasheet` says what it compares with."""

    label: str
    datasheet: str | None = None
    headline: bool = False


_DEVICE: Final = {
    "compute_units": _Said(label="Compute units", datasheet="compute_units", headline=True),
    "launch_graph_s": _Said(label="Empty kernel in a graph", headline=True),
    "launch_eager_s": _Said(label="Empty kernel from the host", headline=True),
    **{
        f"{place}_{kind}_bytes_per_s": _Said(
            label=f"{said} bandwidth, {kind}",
            datasheet="dram_bytes_per_s" if place == "dram" else None,
            headline=True,
        )
        for place, said in (("dram", "Memory"), ("cache", "Cache"))
        for kind in ("read", "write", "copy")
    },
}
_RECIPE: Final = {
    "ceiling_flops_per_s": _Said(label="Fastest product", datasheet="peak", headline=True),
    "sustained_flops_per_s": _Said(label="Rate the power limit sustains", datasheet="peak"),
    "sustained_sm_clock_hz": _Said(label="Clock under load", headline=True),
    "sustained_power_w": _Said(label="Power under load", datasheet="power_limit_w", headline=True),
    "tile_family": _Said(label="Tiles the library chooses from"),
    "launch_s": _Said(label="Start of a product"),
    "tile_flops_per_s": _Said(label="Rate of one compute unit in a tile"),
    "load_bytes_per_s": _Said(label="Loads of one compute unit"),
    "l2_bytes_per_s": _Said(label="Loads of all units from cache"),
    "k_latency_s_per_byte": _Said(label="Latency along K"),
    "tile_flops_8_byte_per_s": _Said(label="Rate of one compute unit, rows on 8 bytes"),
    "k_latency_8_byte_s_per_byte": _Said(label="Latency along K, rows on 8 bytes"),
    "tile_flops_odd_per_s": _Said(label="Rate of one compute unit, other rows"),
    "k_latency_odd_s_per_byte": _Said(label="Latency along K, other rows"),
    "crowd_s_per_byte": _Said(label="Wait per unit that reads the same rows"),
    "wave_s": _Said(label="Start of a further wave"),
    "split_k_s": _Said(label="Price of splitting K"),
    "misaligned": _Said(label="Slow-down of misaligned rows"),
    "uneven": _Said(label="Slow-down of rows off 256 bytes"),
    "dram_bytes_per_s": _Said(label="Memory bandwidth in products", datasheet="dram_bytes_per_s"),
}
_CAST: Final = {
    "cast_family": _Said(label="How the provider's kernels block a cast"),
    "fixed_s": _Said(label="Start of a cast"),
    "bytes_per_s": _Said(label="Bandwidth of a large cast", datasheet="dram_bytes_per_s"),
    "cached_bytes_per_s": _Said(label="Bandwidth of a cached cast"),
    "misaligned": _Said(label="Slow-down of rows or columns off 16 elements"),
    "extra_columns": _Said(label="Columns that narrow matrices seem to have more"),
}
_MIXED: Final = {
    "narrow_family": _Said(label="How the provider's kernels cut a product with narrow weights"),
    "fixed_s": _Said(label="Start of a product with narrow weights"),
    "bytes_per_s": _Said(label="Bandwidth of narrow weights", datasheet="dram_bytes_per_s"),
    "weights_per_s": _Said(label="Weights turned to floats"),
    "flops_per_s": _Said(label="Rate of products with narrow weights"),
    "block_columns": _Said(label="Columns that a block's start and end cost"),
}
_LINK: Final = {
    "bytes_per_s": _Said(label="Rate of the link", datasheet="link_bytes_per_s"),
    "latency_s": _Said(label="Latency over the link"),
}
DEVICE_GROUP: Final = "device"


def constants_table(calibration: Calibration, spec: DeviceSpec | None) -> pd.DataFrame:
    """One row per constant, those of the device first, then by provider and recipe.

    datasheet and fraction (value / datasheet) are empty where the datasheet has no such figure or
    there is none; `choice` names what a constant of unit "code" stands for.
    """
    rows = [_row(name, constant, spec) for name, constant in calibration.constants.items()]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    order = {name: rank for rank, name in enumerate([*_DEVICE, *_RECIPE, *_CAST, *_MIXED, *_LINK])}
    device = table["group"] != DEVICE_GROUP
    rank = [order.get(str(name).rpartition(".")[2], len(order)) for name in table["name"]]
    sorted_ = table.assign(_device=device, _rank=rank).sort_values(
        ["_device", "group", "_rank", "name"], kind="stable"
    )
    return sorted_[list(COLUMNS)].reset_index(drop=True)


def _row(name: str, constant: Ceiling, spec: DeviceSpec | None) -> dict[str, Any]:
    head, _, tail = name.rpartition(".")
    op, *group = head.split(".")
    recipe = group[-1] if group else ""
    known = {"": _DEVICE, "cast": _CAST, "mixed_gemm": _MIXED, "link": _LINK}.get(op, _RECIPE)
    said = known.get(tail, _Said(label=tail.replace("_", " ")))
    datasheet = _datasheet(said.datasheet, recipe, spec)
    return {
        "group": " ".join(group) or DEVICE_GROUP,
        "name": name,
        "label": said.label,
        "value": constant.value,
        "ci95_low": constant.ci95_low,
        "ci95_high": constant.ci95_high,
        "unit": constant.unit,
        "datasheet": datasheet,
        "fraction": constant.value / datasheet if datasheet else None,
        "choice": family_of_constant(name, constant),
        "evidence": constant.evidence,
        "headline": said.headline,
    }


def _datasheet(kind: str | None, recipe: str, spec: DeviceSpec | None) -> float | None:
    """The datasheet's figure of a kind, in the unit of the constant."""
    if spec is None or kind is None:
        return None
    if kind == "peak":
        known = GEMM_RECIPES.get(recipe)
        return spec.peak_flops_per_s.get(known.math_dtype) if known else None
    return float(getattr(spec, kind))


def probe_errors_table(calibration: Calibration) -> pd.DataFrame:
    """Error of the fit on probes left out of it; fractions of the measured time.

    By op, provider and recipe, as the constants are named.
    """
    columns = ["op", "provider", "recipe", "count", "mape", "median", "p95"]
    rows = [
        dict(zip(columns, name.split("."), strict=False)) | dict(errors)
        for name, errors in calibration.probe_errors.items()
    ]
    return pd.DataFrame(rows).reindex(columns=columns)
