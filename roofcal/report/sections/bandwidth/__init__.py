"""Achieved bandwidth: memory streams, and ops that move data without computing."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

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
    """Cold and hot memory streams, then the providers of each op that computes nothing."""
    streams = analysis.frames.get(OP)
    if streams is None or streams.empty:
        yield absence("The memory probe was not measured.")
    else:
        rows = ok_rows(streams[streams["repeat"] == 0])
        rows = rows[(rows["dram_bytes"] > 0) & (rows["method"] == "graph")]
        rows = rows.assign(size=rows["size_bytes"], panel=rows["cache"].map(_TITLES))
        rows = charts.in_order(rows, cache=list(_TITLES))
        yield draw_bandwidth("streams", rows, "buffer size", analysis)
    for op in analysis.studies:
        rows = standard_rows(analysis.frames[op])
        rows = rows[(rows["dram_bytes"] > 0) & (rows["flops"] == 0)]
        rows = rows.assign(size=rows["dram_bytes"], panel=rows["provider"])
        rows = rows.sort_values("panel", kind="stable")
        yield draw_bandwidth("cast_bandwidth", rows, "least bytes moved", analysis)


def draw_bandwidth(
    key: str, rows: pd.DataFrame, x_title: str, analysis: Analysis
) -> Picture | None:
    """Rows by `size` in bytes, a panel per `panel`, below the bandwidths of datasheet and copies.

    Streams are joined by lines, beside the size of the cache. Casts are not: shapes of equal bytes
    and another aspect are other points. None without rows.
    """
    if rows.empty:
        return None
    drawn = charts.thinned(rows)
    points = drawing.styled_points(drawn)
    points = points.assign(series=points["recipe"] + " by " + points["provider"])
    levels, level_entries = drawing.bandwidth_levels(analysis.run.calibration, analysis.spec)
    legend = [*drawing.point_legend(drawn), *level_entries]
    layers = [charts.Layer("level", table="levels")]
    tables = {"points": points, "levels": levels}
    if key == "streams":
        cache_bytes = analysis.cache_bytes or 0.0
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
