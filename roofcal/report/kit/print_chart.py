"""Charts on paper: every panel of a chart beside or below the others, drawn with Matplotlib."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator, LogLocator, MaxNLocator, NullLocator

from roofcal.report.kit import styles
from roofcal.report.kit.charts import Axis, Chart, Layer, LegendEntry
from roofcal.report.kit.numbers import binary, percent

_MARGIN_PX: Final = 62  # of a panel above and below its plot: title, ticks, title of the axis
_LEGEND_PX: Final = 20  # of a line of the legend
_LETTERS: Final = 118  # of a line of text, over the whole width
_MOST_ABREAST: Final = 6  # entries in a line of the legend
_PX_PER_PT: Final = 96 / 72
_MOST_TICKS: Final = 12  # over the whole width
_STROKES: Final[dict[bool, Any]] = {False: "-", True: styles.DASHED}


def print_chart(chart: Chart) -> Figure:
    """The chart as a figure; equal charts give equal figures."""
    widest = max(panel.width for panel in chart.panels)
    room = max(1, int(styles.WIDTH_PX // widest)) if widest else chart.columns
    across = min(chart.columns, len(chart.panels), room)
    heights = [
        max(panel.height for panel in chart.panels[first : first + across])
        for first in range(0, len(chart.panels), across)
    ]
    abreast = _entries_abreast(chart.legend)
    legend_px = _LEGEND_PX * -(-len(chart.legend) // abreast) if len(chart.legend) > 1 else 0
    with styles.look():
        figure = styles.new_figure(sum(heights) + _MARGIN_PX * len(heights) + legend_px)
        panels = styles.panel_grid(figure, len(chart.panels), across, height_ratios=heights)
        for place, (axes, panel) in enumerate(zip(panels, chart.panels, strict=True)):
            _scale(axes.xaxis, chart.x, _MOST_TICKS // across)
            _scale(axes.yaxis, chart.y, _MOST_TICKS)
            for layer in chart.layers:
                rows = chart.rows_of(layer.table, panel)
                _draw(axes, layer, _within(chart.y, rows), chart.x, chart.y)
            for drawn, axis in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
                if axis.scale == "log":  # at places that what was drawn decides
                    drawn.set_major_locator(FixedLocator(_round_ticks(*drawn.get_view_interval())))
            if chart.y.scale == "linear":
                axes.set_ylim(bottom=0)
            axes.set_title(panel.title or panel.choice)
            axes.set_ylabel(chart.y.title if place % across == 0 else "")
            axes.set_xlabel(chart.x.title if place + across >= len(panels) else "")
        if len(chart.legend) > 1:
            styles.legend(figure, [_handle(entry) for entry in chart.legend], abreast, 1.8)
    return figure


def _within(y: Axis, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows; those beyond an axis of ratios lie on its ends."""
    if y.scale != "ratio" or y.key not in rows:
        return rows
    return rows.assign(**{y.key: rows[y.key].clip(y.ticks[0], y.ticks[-1])})


def _scale(drawn: Any, axis: Axis, most_ticks: int) -> None:
    """Scale and ticks of an axis of Matplotlib; a map of cells places its own."""
    if axis.scale in ("log", "bytes", "count", "ratio"):
        set_scale = getattr(drawn.axes, f"set_{drawn.axis_name}scale")
        set_scale("log", base=2 if axis.scale in ("bytes", "count") else 10)
        drawn.set_minor_locator(NullLocator())
    match axis.scale:
        case "linear" | "log":
            space = "\N{NO-BREAK SPACE}" if axis.unit else ""
            drawn.set_major_formatter(EngFormatter(axis.unit, sep=space))
        case "bytes" | "count":
            drawn.set_major_locator(LogLocator(base=2, numticks=most_ticks))
            styles.show_ticks(drawn, binary if axis.scale == "bytes" else "{:,g}".format)
        case "percent":
            show = partial(percent, digits=1, signed=True)
            styles.show_ticks(drawn, show, most_ticks)
        case "ratio":
            set_limits = getattr(drawn.axes, f"set_{drawn.axis_name}lim")
            set_limits(axis.ticks[0] / 1.05, axis.ticks[-1] * 1.05)
            styles.fixed_ticks(drawn, axis.ticks)


def _round_ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high: decades, or closer ones within less than a decade."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) > 1:
            return inside
    return [tick for tick in MaxNLocator(3).tick_values(low, high) if low <= tick <= high]


def _draw(axes: Axes, layer: Layer, rows: pd.DataFrame, x: Axis, y: Axis) -> None:
    """A layer in a panel; rows: those that the panel draws."""
    match layer.mark:
        case "dots":
            for (colour, marker), own in rows.groupby(["colour", "marker"], sort=False):
                size = (layer.size or 55) / _PX_PER_PT**2
                places = (own[x.key], own[y.key])
                styles.dots(axes, *places, str(colour), size, edge=0.4, marker=marker, zorder=3)
        case "line":
            for own in _series(rows, layer.detail):
                ordered = own.sort_values(x.key)
                _line(axes.plot, ordered.iloc[0], layer, ordered[x.key], ordered[y.key])
        case "level" | "upright":
            through = axes.axhline if layer.mark == "level" else axes.axvline
            for _, row in rows.iterrows():
                _line(through, row, layer, row[(y if layer.mark == "level" else x).key])
        case "interval":
            axes.vlines(rows[x.key], rows[layer.low], rows[layer.high], colors=list(rows["colour"]))
        case "area":
            for own in _series(rows, layer.detail):
                ordered, colour = own.sort_values(x.key), own["colour"].iloc[0]
                ends = (ordered[layer.low], ordered[layer.high])
                axes.fill_between(ordered[x.key], *ends, color=colour, alpha=0.13, linewidth=0)
        case "tolerance":
            for _, row in rows.iterrows():
                axes.axhspan(row[layer.low], row[layer.high], color=styles.GRID, linewidth=0)
                axes.axhline(row[layer.detail], color=styles.MUTED, linewidth=0.8)
        case "cells":
            _cells(axes, rows, x, y)


def _series(rows: pd.DataFrame, detail: str) -> list[pd.DataFrame]:
    return [own for _, own in rows.groupby(detail, sort=False)] if detail else [rows]


def _line(draw: Any, row: "pd.Series[Any]", layer: Layer, *places: Any) -> None:
    dashes = _STROKES[row.get("dashed") == 1]
    width = (layer.size or 1.4) / _PX_PER_PT
    draw(*places, color=row["colour"], linestyle=dashes, linewidth=width)


def _cells(axes: Axes, rows: pd.DataFrame, x: Axis, y: Axis) -> None:
    across, down = (
        [name for name in axis.order if name in set(rows[axis.key])]
        if axis.order is not None
        else sorted(set(rows[axis.key]))
        for axis in (x, y)
    )
    placed = rows.set_index([y.key, x.key])
    ratios, labels = (
        placed[name].unstack().reindex(index=down, columns=across) for name in ("ratio", "label")
    )
    styles.ratio_heat_map(
        axes,
        ratios.to_numpy(dtype=float),
        annot=labels.fillna("").to_numpy(),
        fmt="",
        annot_kws={"fontsize": 9.5},
        xticklabels=[name if isinstance(name, str) else f"{name:,}" for name in across],
        yticklabels=[name if isinstance(name, str) else f"{name:,}" for name in down],
    )
    axes.tick_params(axis="y", labelrotation=0)
    if sum(len(label.get_text()) + 2 for label in axes.get_xticklabels()) > _LETTERS // 2:
        axes.tick_params(axis="x", labelrotation=45)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    else:
        axes.tick_params(axis="x", labelrotation=0)


def _entries_abreast(legend: Sequence[LegendEntry]) -> int:
    """Entries in a line of the legend, whose columns are as wide as the longest entry."""
    longest = max((len(entry.label or entry.value) for entry in legend), default=0)
    return max(1, min(_MOST_ABREAST, _LETTERS // (longest + 5)))


def _handle(entry: LegendEntry) -> Line2D:
    label = entry.label or entry.value
    if entry.marker == "swatch":
        return Line2D([], [], color=entry.colour, label=label, linewidth=4)
    if entry.marker:
        return styles.marker_dot(label, entry.marker, entry.colour)
    dashes = _STROKES[bool(entry.dash)]
    return Line2D([], [], color=entry.colour, label=label, linestyle=dashes)
