"""Achieved bandwidth: memory streams, and ops that move data without computing."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops.probe_copy.spec import OP as STREAMS
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import ok_rows, row_of_largest, standard_rows
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import absence
from roofcal.report.kit.charts import MUTED, Picture
from roofcal.report.kit.numbers import binary, count_of, scaled
from roofcal.report.section import Item, Section

OP: Final = STREAMS.name
_TITLES: Final = {
    "cold": "cold: the data comes from memory",
    "hot": "hot: one buffer again and again",
}


def show(analysis: Analysis) -> Iterator[Item]:
    """Memory streams, then each op that computes nothing."""
    calibration, spec = analysis.run.calibration, analysis.spec
    streams = analysis.frames.get(OP)
    if streams is None or streams.empty:
        yield absence("The memory probe was not measured.")
    else:
        yield draw_streams(streams, calibration, spec, analysis.cache_bytes)
    for op in analysis.studies:
        yield draw_casts(analysis.frames[op], calibration, spec)


def draw_streams(
    frame: pd.DataFrame,
    calibration: Calibration | None,
    spec: DeviceSpec | None,
    cache_bytes: float | None,
) -> Picture | None:
    """Cold and hot streams beside each other; None without a stream that has a time."""
    rows = ok_rows(frame[frame["repeat"] == 0])
    rows = rows[(rows["dram_bytes"] > 0) & (rows["method"] == "graph")]
    if rows.empty:
        return None
    rows = rows.assign(size=rows["size_bytes"], panel=rows["cache"].map(_TITLES))
    rows = charts.in_order(rows, cache=list(_TITLES))
    return _picture("streams", rows, "buffer size", calibration, spec, cache_bytes or 0.0)


def draw_casts(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per provider; None for an op that computes, or without a point with a time."""
    rows = standard_rows(frame)
    rows = rows[(rows["dram_bytes"] > 0) & (rows["flops"] == 0)]
    if rows.empty:
        return None
    rows = rows.assign(size=rows["dram_bytes"], panel=rows["provider"])
    rows = rows.sort_values("panel", kind="stable")
    return _picture("cast_bandwidth", rows, "least bytes moved", calibration, spec)


def _picture(
    key: str,
    rows: pd.DataFrame,
    x_title: str,
    calibration: Calibration | None,
    spec: DeviceSpec | None,
    cache_bytes: float | None = None,
) -> Picture:
    """The bandwidths of datasheet and calibration, and rows by `size` in bytes, by `panel`.

    cache_bytes: size of the cache, for streams alone: their points are joined by lines. Casts have
    none: shapes of equal bytes and another aspect are other points.
    """
    drawn = charts.thinned(rows)
    points = drawing.styled_points(drawn)
    points = points.assign(series=points["recipe"] + " by " + points["provider"])
    levels, level_entries = drawing.bandwidth_levels(calibration, spec)
    legend = [*drawing.point_legend(drawn), *level_entries]
    layers = [charts.Layer("level", table="levels")]
    tables = {"points": points, "levels": levels}
    if cache_bytes is not None:
        layers.append(charts.Layer("line", detail="series", size=1.4))
        layers.append(charts.Layer("upright", table="cache"))
        tables["cache"] = charts.line_at(cache_bytes, "size", MUTED).assign(recipe="cache")
        label = f"cache {binary(cache_bytes)} (upright)"
        legend.append(charts.LegendEntry("recipe", "cache", label=label, colour=MUTED))
    op, best = str(rows["op"].iloc[0]), row_of_largest(rows, "achieved_bytes_per_s")
    return Picture(
        key=key,
        op=op,
        x=charts.Axis("size", x_title, "bytes"),
        y=charts.Axis("achieved_bytes_per_s", "B/s", "linear"),
        layers=[*layers, charts.Layer("dots")],
        tables=tables,
        panels=charts.facets(rows, "panel"),
        tips=drawing.point_tips(drawing.BYTES_TIP, drawing.TIME_TIP),
        legend=legend,
        alt=f"Achieved bandwidth of {op} against size.",
        facts=f"{count_of(len(rows), 'point')}. Highest: {best['recipe']} by {best['provider']} at "
        f"{binary(float(best['size']))}, {scaled(float(best['achieved_bytes_per_s']), 'B/s')} "
        f"({best['cache']}).",
    )


SECTION = Section("Bandwidth", "roofs", show)
