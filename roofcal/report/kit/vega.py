"""Charts on the page: the Vega-Lite specification of a chart, made with Altair, and its rows.

reports/templates/charts.js draws it in panels, with a legend and buttons of HTML around them. A
page carries the tables of all its charts once, as columns, and Vega once: no chart loads anything.
Texts of records are data throughout, never markup or expressions.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, Final

import altair as alt
import pandas as pd
import vl_convert

from roofcal.report.kit.charts import DASH, Axis, Chart, Layer
from roofcal.report.kit.numbers import is_missing
from roofcal.report.kit.packing import packed
from roofcal.report.kit.styles import COLOURS, GRID, INK, MUTED, PAPER

DIGITS: Final = 4  # significant digits of a number in a page
# Marker of matplotlib -> the same marker as an SVG path in the square from -1 to 1.
_PATHS: Final = {
    "swatch": "M-1.9,-1H1.9V1H-1.9Z",  # of a colour alone, in legends
    "o": "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z",
    "s": "M-.9,-.9H.9V.9H-.9Z",
    "D": "M0,-1.2L1.1,0L0,1.2L-1.1,0Z",
    "^": "M0,-1.1L1.1,.9H-1.1Z",
    "v": "M0,1.1L1.1,-.9H-1.1Z",
    "<": "M-1.1,0L.9,-1.1V1.1Z",
    ">": "M1.1,0L-.9,-1.1V1.1Z",
    "P": "M-.4,-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
    "X": "M-1.1,-.6L-.6,-1.1L0,-.5L.6,-1.1L1.1,-.6L.5,0L1.1,.6L.6,1.1L0,.5L-.6,1.1L-1.1,.6L-.5,0Z",
    "*": "M0,-1.3L.35,-.4L1.25,-.4L.5,.2L.8,1.1L0,.55L-.8,1.1L-.5,.2L-1.25,-.4L-.35,-.4Z",
}
_FONT: Final = "-apple-system, 'Segoe UI', Inter, Roboto, Arial, 'Liberation Sans', sans-serif"
# What all charts look like. Colours become variables of the style sheet, so that a chart follows a
# dark colour scheme and print without being drawn again.
_CONFIG: Final[Mapping[str, Any]] = {
    "background": None,
    "font": _FONT,
    "aria": False,  # the panel around the drawing has the text alternative
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelOverlap": "greedy",
        "labelSeparation": 6,
    },
}


# The colours of styles.SLOWER_FASTER, from half as fast to twice as fast.
_RATIOS: Final = (0.5, 0.7071, 1, 1.4142, 2)
_RATIO_COLOURS: Final = ("#a63d00", "#d98a56", "#f3efe9", "#6aa5cf", "#0a5592")

# Labels of an axis of bytes, at powers of two.
_BINARY: Final = " : ".join(
    f"datum.value >= {2**power} ? format(datum.value / {2**power}, '~g') + ' {prefix}B'"
    for power, prefix in ((30, "Gi"), (20, "Mi"), (10, "Ki"))
)
# Of a logarithmic axis: labels at 1, 2 and 5 times a power of ten, since all of them would collide.
_ROUND: Final = (
    "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-6)))) < 0"
    " ? '' : "
)


def marker_path(marker: str) -> str:
    """A marker of matplotlib as an SVG path; a circle for a marker without a path."""
    return _PATHS.get(marker, _PATHS["o"])


def vega_lite(chart: Chart) -> dict[str, Any]:
    """The specification of a chart, its data named as its tables."""
    fields = list(dict.fromkeys(entry.field for entry in chart.legend))
    x, y = _channel(alt.X, chart.x), _channel(alt.Y, chart.y)
    layers = [part for layer in chart.layers for part in _parts(layer, x, y, fields)]
    if chart.zooms:
        # its axes follow the pointer, and the wheel while Ctrl or Alt is held: alone it scrolls the
        # page; Altair would name the layer by a counter of the process, and bytes would differ
        layers[-1] = (
            layers[-1]
            .properties(name="moved")
            .add_params(
                alt.selection_interval(
                    name="zoom",
                    bind="scales",
                    zoom="wheel![event.ctrlKey || event.altKey]",
                    clear="dblclick",
                )
            )
        )
    hidden = [alt.param(name=f"hidden_{name}", value=[]) for name in fields]
    return alt.layer(*layers).add_params(*hidden).to_dict()


def _channel(channel: Any, axis: Axis) -> Any:
    """altair.X or altair.Y of an axis."""
    title, key, kind = axis.title, axis.key, "quantitative"
    powers_of_two = alt.Scale(type="log", base=2, nice=False, padding=8)
    label = f"format(datum.value, '~s') + '{axis.unit}'"
    match axis.scale:
        case "linear":
            drawn = alt.Axis(title=title, labelExpr=label, tickCount=4)
            scale = alt.Scale(zero=True)
        case "log":
            drawn = alt.Axis(title=title, labelExpr=f"{_ROUND}{label}", tickCount=4)
            scale = alt.Scale(type="log", nice=False, padding=8)
        case "bytes":
            label = f"{_BINARY} : datum.value + ' B'"
            drawn, scale = alt.Axis(title=title, labelExpr=label, tickCount=6), powers_of_two
        case "count":
            label = "format(datum.value, ',')"
            drawn, scale = alt.Axis(title=title, labelExpr=label, tickCount=6), powers_of_two
        case "ratio":
            label, ends = "format(datum.value, '~g')", [axis.ticks[0], axis.ticks[-1]]
            drawn = alt.Axis(title=title, labelExpr=label, values=list(axis.ticks))
            scale = alt.Scale(type="log", domain=ends, clamp=True, nice=False)
        case "percent":
            drawn = alt.Axis(title=title, format="+.2~%", tickCount=6)
            scale = alt.Scale(zero=False, nice=False, padding=8)
        case "rows":
            drawn = alt.Axis(title=None, labelAngle=0)
            return channel(key, type="ordinal", sort=None, axis=drawn)
        case "names":
            label = "datum.value" if axis.order is not None else "format(datum.value, ',')"
            drawn = alt.Axis(title=title or None, labelAngle=0, labelLimit=150, labelExpr=label)
            sort = "ascending" if axis.order is None else list(axis.order)
            return channel(key, type="ordinal", axis=drawn, sort=sort)
    return channel(key, type=kind, axis=drawn, scale=scale)


def _parts(layer: Layer, x: Any, y: Any, fields: Sequence[str]) -> Iterator[alt.Chart]:
    """The layers of Altair that a layer is made of."""
    base = alt.Chart(alt.NamedData(layer.table))
    hidden = fields if layer.hidden is None else layer.hidden
    detail = {"detail": alt.Detail(layer.detail, type="nominal")} if layer.detail else {}
    dash = alt.condition("datum.dashed == 1", alt.value([*DASH]), alt.value([1, 0]))

    def marks(**encodings: Any) -> alt.Chart:
        """Rows in the colour of their column `colour`, but for those that the legend hides."""
        coloured = base.encode(
            color=alt.Color("colour", type="nominal", scale=None, legend=None), **encodings
        )
        if not hidden:
            return coloured
        visible = " && ".join(f"indexof(hidden_{name}, datum['{name}']) < 0" for name in hidden)
        return coloured.encode(opacity=alt.condition(visible, alt.value(1), alt.value(0)))

    match layer.mark:
        case "dots":
            shape = alt.Shape("marker", type="nominal", scale=None, legend=None)
            yield marks(shape=shape, x=x, y=y).mark_point(
                filled=True, size=layer.size or 55, stroke=PAPER, strokeWidth=0.6, clip=True
            )
        case "line":
            lines = marks(strokeDash=dash, x=x, y=y, **detail)
            yield lines.mark_line(strokeWidth=layer.size or 2, clip=True)
        case "level":
            yield marks(strokeDash=dash, y=y).mark_rule(strokeWidth=1.4, clip=True)
        case "upright":
            yield marks(strokeDash=dash, x=x).mark_rule(strokeWidth=1.4, clip=True)
        case "interval":
            low, high = alt.Y(layer.low, type="quantitative"), alt.Y2(layer.high)
            ends = marks(strokeDash=dash, x=x, y=low, y2=high)
            yield ends.mark_rule(strokeWidth=1.4, clip=True)
        case "area":
            low = alt.Y(layer.low, type="quantitative", scale=y.to_dict()["scale"])
            area = marks(x=x, y=low, y2=layer.high, **detail)
            yield area.mark_area(fillOpacity=0.13, clip=True)
        case "tolerance":
            low = alt.Y(layer.low, type="quantitative")
            yield base.mark_rect(color=GRID, clip=True).encode(y=low, y2=layer.high)
            level = alt.Y(layer.detail, type="quantitative")
            yield base.mark_rule(color=MUTED, clip=True).encode(y=level)
        case "cells":
            scale = alt.Scale(
                type="log",
                domain=[*_RATIOS],
                range=[*_RATIO_COLOURS],
                interpolate="rgb",
                clamp=True,
            )
            fill = alt.Fill("ratio", type="quantitative", scale=scale, legend=None)
            is_dark = "datum.ratio > 1.6 || datum.ratio < 0.6"
            ink = alt.condition(is_dark, alt.value("#ffffff"), alt.value("#111111"))
            placed, label = base.encode(x=x, y=y), alt.Text("label", type="nominal")
            yield placed.mark_rect(stroke=PAPER, strokeWidth=1).encode(fill=fill)
            yield placed.mark_text(fontSize=11).encode(text=label, color=ink)


def chart_document(chart: Chart, tables: Mapping[str, str]) -> dict[str, Any]:
    """A chart as charts.js reads it; tables: name in its specification -> name in the page."""
    return {
        "spec": {key: value for key, value in vega_lite(chart).items() if not key.startswith("$")},
        "tables": tables,
        "panels": [_without_blanks(asdict(panel)) for panel in chart.panels],
        "x": chart.x.key,
        "y": chart.y.key,
        "tips": [_without_blanks(asdict(tip)) for tip in chart.tips],
        "legend": [
            _without_blanks(asdict(entry) | {"path": _PATHS.get(entry.marker, "")})
            for entry in chart.legend
        ],
        "columns": chart.columns,
        "zooms": chart.zooms,
    }


def _without_blanks(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if value not in ("", (), {}, 0)}


def page_charts(charts: Iterable[tuple[str, str, str, Chart]]) -> tuple[str, str]:
    """(Vega, the charts of a page and their tables), both packed; two "" for a page without charts.

    Args:
        charts: (id of the figure, name of its shared table, id of the table that has the record of
            each point, chart).

    Raises:
        ValueError: two charts share a table whose rows differ.
    """
    columns: dict[str, dict[str, Any]] = {}
    documents: dict[str, Any] = {}
    for name, shared, records, chart in charts:
        names = {}
        for table, frame in chart.tables.items():
            names[table] = shared if chart.is_shared and table == "points" else f"{name}/{table}"
            held = columns.setdefault(names[table], {"": [*map(str, frame.index)]})
            if held[""] != [*map(str, frame.index)]:
                raise ValueError(f"{name}: its shared points are not those of other charts")
            paths = {"marker": frame["marker"].map(marker_path)} if "marker" in frame else {}
            shown = frame.assign(**paths)
            held |= {str(key): _column(shown[key]) for key in shown.columns if key not in held}
        documents[name] = chart_document(chart, names) | {"records": records}
    if not documents:
        return "", ""
    tables = {name: {k: v for k, v in held.items() if k} for name, held in columns.items()}
    page = {"config": _CONFIG, "charts": documents, "tables": tables}
    text = json.dumps(page, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for variable, colour in COLOURS.items():
        text = re.sub(f'"{colour}"', f'"var(--{variable})"', text, flags=re.IGNORECASE)
    return packed(_vega()), packed(text)


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; bundling takes a second, once per process."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    return f"(()=>{{{bundle}}})();"


def _column(values: "pd.Series[Any]") -> Any:
    """A column as JSON: numbers of DIGITS digits, or distinct texts and their positions."""
    if pd.api.types.is_numeric_dtype(values):
        return [_number(value) for value in values.tolist()]
    texts = [None if is_missing(value) else str(value) for value in values.tolist()]
    distinct = list(dict.fromkeys(texts))
    places = {text: place for place, text in enumerate(distinct)}
    return {"of": distinct, "at": [places[text] for text in texts]}


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    if float(value).is_integer() and abs(value) < 1e9:
        return int(value)  # a size or a count is exact
    return int(rounded) if rounded.is_integer() else rounded
