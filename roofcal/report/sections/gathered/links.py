"""Links between devices: bandwidth by size as measured, and what was fitted to it."""

from collections.abc import Hashable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops.probe_link.model import COLLECTIVES, METHODS, share
from roofcal.ops.probe_link.spec import OP as PROBE
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.points.roofs import constants_of
from roofcal.report.data.drawing import TIME_TIP, provider_legend, provider_marker
from roofcal.report.data.tidy import ok_rows, row_of_largest
from roofcal.report.kit import charts
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import keys_of, named, number
from roofcal.report.kit.numbers import MICROSECONDS, binary, count_of, scaled

OP: Final = PROBE.name
SYMMETRIC: Final = "symm_mem"

LINK_CONSTANTS: Final = (
    *named("collective", "by", "world_size"),
    number("rate", "rate", "GB/s", 1e-9),
    number("rate_low", "low", "GB/s", 1e-9),
    number("rate_high", "high", "GB/s", 1e-9),
    number("latency", "latency", MICROSECONDS, 1e6),
    number("latency_low", "low", MICROSECONDS, 1e6),
    number("latency_high", "high", MICROSECONDS, 1e6),
)
_KINDS: Final = {"bytes_per_s": "rate", "latency_s": "latency"}
_KEYS: Final = ("collective", "by", "world_size")
_COLOURS: Final = {2: charts.BLUE, 4: charts.GREEN, 8: charts.VERMILLION}  # of world sizes
_ORDER: Final = list(COLLECTIVES.values())
_CORNERS: Final = 60  # of the line of a fit


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
        name_alone = collective.removesuffix(f"_{SYMMETRIC}")
        is_symmetric = name_alone != collective or collective == "send"
        key = (name_alone, SYMMETRIC if is_symmetric else library, size)
        row = rows.setdefault(key, dict(zip(_KEYS, key, strict=True)))
        row[kind] = constant.value
        row[f"{kind}_low"], row[f"{kind}_high"] = constant.ci95_low, constant.ci95_high
    table = pd.DataFrame(rows.values(), columns=keys_of(LINK_CONSTANTS))
    return charts.in_order(table.sort_values(["by", "world_size"]), collective=_ORDER)


def link_curves(frame: pd.DataFrame | None) -> pd.DataFrame:
    """Timed rows of the probe by one method, with `moved_bytes` over a link and `rate` of them."""
    if frame is None or frame.empty:
        return pd.DataFrame()
    rows = ok_rows(frame[frame["repeat"] == 0])
    method = next((m for m in METHODS if (rows["method"] == m).any()), None)
    rows = rows[rows["method"] == method]
    shares = [
        share(COLLECTIVES[str(recipe)], int(size))
        for recipe, size in zip(rows["recipe"], rows["world_size"], strict=True)
    ]
    moved = rows["size_bytes"] * pd.Series(shares, index=rows.index, dtype="float64")
    return rows.assign(moved_bytes=moved, rate=moved / rows["median_s"])


def draw_links(
    rows: pd.DataFrame, constants: pd.DataFrame, spec: DeviceSpec | None
) -> Picture | None:
    """Bandwidth against size, measured and fitted, a panel per collective; None without rows.

    Args:
        rows: those of link_curves.
        constants: those of link_constants.
        spec: datasheet of the device.
    """
    if rows.empty:
        return None
    rows = rows.assign(
        devices=[f"{size} devices" for size in rows["world_size"]],
        colour=rows["world_size"].map(_COLOURS).fillna(charts.GREY),
        marker=[provider_marker(str(name)) for name in rows["provider"]],
    )
    fitted = constants.set_index(list(_KEYS)).to_dict("index")
    fits = [
        _fit_line(curve, fitted[key])
        for (recipe, *rest), curve in rows.groupby(["recipe", "provider", "world_size"])
        if (key := (COLLECTIVES[str(recipe)], *rest)) in fitted
    ]
    sizes = rows.drop_duplicates("devices").sort_values("world_size")
    legend = charts.swatches("devices", dict(zip(sizes["devices"], sizes["colour"], strict=True)))
    legend += provider_legend(rows["provider"])
    levels = pd.DataFrame(columns=["devices", "rate", "dashed", "colour"])
    if spec is not None and spec.link_bytes_per_s is not None:
        level = charts.line_at(spec.link_bytes_per_s, "rate", charts.MUTED, dashed=1)
        levels = level.assign(devices="datasheet")[[*levels]]
        label = f"datasheet, one way {scaled(spec.link_bytes_per_s, 'B/s')}"
        entry = charts.LegendEntry("devices", "datasheet", charts.MUTED, "", charts.DASH, label)
        legend.append(entry)
    best = row_of_largest(rows, "rate")
    return Picture(
        key="links",
        op=OP,
        x=charts.Axis("size_bytes", "bytes of the vector", "bytes"),
        y=charts.Axis("rate", "bytes over a link / time", "linear", "B/s"),
        layers=[
            charts.Layer("level", table="levels"),
            charts.Layer("line", table="fits", detail="series"),
            charts.Layer("dots"),
        ],
        tables={
            "points": rows,
            "fits": pd.concat(fits) if fits else pd.DataFrame(columns=["series"]),
            "levels": levels,
        },
        panels=[
            charts.Panel(title=recipe.replace("_", " "), where={"recipe": recipe}, height=230)
            for recipe in RECIPES
            if recipe in set(rows["recipe"])
        ],
        tips=(
            *charts.text_tips(devices="on", provider="provider"),
            charts.Tip("size_bytes", "vector", "si", "B"),
            charts.Tip("rate", "over a link", "si", "B/s"),
            TIME_TIP,
        ),
        legend=legend,
        alt="Bandwidth of collectives against size, dots measured, lines fitted.",
        facts=f"{count_of(len(rows), 'point')}. Highest: {best['recipe']} by {best['provider']} on "
        f"{best['world_size']} devices at {binary(float(best['size_bytes']))}, "
        f"{scaled(float(best['rate']), 'B/s')}.",
    )


def _fit_line(curve: pd.DataFrame, fit: Mapping[Hashable, Any]) -> pd.DataFrame:
    """Latency plus bytes over rate, over the sizes of a curve; dashed by symmetric memory."""
    first = curve.iloc[0]
    ends = (float(curve["size_bytes"].min()), float(curve["size_bytes"].max()))
    sizes = np.geomspace(*ends, _CORNERS)
    moved = sizes * share(COLLECTIVES[str(first["recipe"])], int(first["world_size"]))
    return pd.DataFrame(
        {
            **first[["recipe", "provider", "devices", "colour"]],
            "series": f"{first['provider']} {first['devices']}",
            "dashed": int(first["provider"] == SYMMETRIC),
            "size_bytes": sizes,
            "rate": moved / (fit["latency"] + moved / fit["rate"]),
        }
    )
