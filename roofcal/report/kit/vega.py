"""Charts as Vega-Lite, specified with Altair: for the page, and as SVG files for print.

reports/templates/charts.js draws it in panels, with a legend and buttons of HTML around them. A
page carries the tables of all its charts once, as columns, and Vega once: no chart loads anything.
Texts of records are data throughout, never markup or expressions.
"""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cache
from html import escape
from typing import Any, Final

import altair as alt
import pandas as pd
import vl_convert
from altair.utils import schemapi

from roofcal.core.machine.cores import allowed_cores
from roofcal.report.kit.charts import DASH, Axis, Chart, Layer, LegendEntry
from roofcal.report.kit.numbers import is_missing
from roofcal.report.kit.styles import COLOURS, GRID, INK, MUTED, PAPER
from roofcal.report.kit.templates import packed

DIGITS: Final = 4  # significant digits of a number in a page
# Name of a marker -> the marker as an SVG path in the square from -1 to 1.
PATHS: Final = {
    "swatch": "M-1.9,-1H1.9V1H-1.9Z",  # of a colour alone, in legends
    "|": "M-.18,-1.6H.18V1.6H-.18Z",
    "_": "M-1.8,-.25H1.8V.25H-1.8Z",
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
_LABEL_PX: Final = 320  # most of a name beside an axis
_AS_IS: Final[Mapping[str, Any]] = {"legend": None, "scale": None, "type": "nominal"}

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
    """A marker as an SVG path; a circle for a marker without a path."""
    return PATHS.get(marker, PATHS["o"])


def _with_paths(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with their markers as SVG paths, if they have markers."""
    paths = {"marker": rows["marker"].map(marker_path)} if "marker" in rows else {}
    return rows.assign(**paths)


def vega_lite(chart: Chart) -> dict[str, Any]:
    """The specification of a chart, its data named as its tables.

    Altair holds no part of it against the schema of Vega-Lite, which took half of the time of a
    report; tests/roofcal/report/kit/test_charts.py does, for every mark and every scale.
    """
    with schemapi.debug_mode(False):
        return _specification(chart)


def _specification(chart: Chart) -> dict[str, Any]:
    fields = list(dict.fromkeys(entry.field for entry in chart.legend if entry.field))
    has_grid = all(layer.mark != "cells" for layer in chart.layers)
    x, y = (_channels(alt.X, chart.x, has_grid), _channels(alt.Y, chart.y, has_grid))
    layers: list[Any] = []
    for layer in chart.layers:
        hiding = [name for name in fields if name in chart.tables[layer.table]]
        layers += _parts(layer, x, y, hiding)
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
    drawing: dict[str, Any] = alt.layer(*layers).add_params(*hidden).to_dict(validate=False)
    return drawing


def _channels(channel: Any, axis: Axis, has_grid: bool) -> dict[str, Any]:
    """altair.X or altair.Y of an axis, and what sets the rows of a name apart, by their names."""
    name = channel.__name__.lower()
    if not axis.offset:
        return {name: _channel(channel, axis, has_grid)}
    scale = alt.Scale(zero=False, nice=False, padding=8)
    offset = {"X": alt.XOffset, "Y": alt.YOffset}[channel.__name__]
    apart = offset(axis.offset, type="quantitative", scale=scale)
    return {name: _channel(channel, axis, has_grid), f"{name}Offset": apart}


def _channel(channel: Any, axis: Axis, has_grid: bool) -> Any:
    title, key, kind = axis.title, axis.key, "quantitative"
    powers_of_two = alt.Scale(type="log", base=2, nice=False, padding=8)
    label = f"format(datum.value, '~s') + '{axis.unit}'"
    match axis.scale:
        case "linear":
            drawn = alt.Axis(title=title, labelExpr=label, tickCount=4)
            scale = alt.Scale(zero=True)
        case "plain":
            label = f"format(datum.value, ',~g') + '{axis.unit}'"
            drawn = alt.Axis(title=title, labelExpr=label, tickCount=5)
            scale = alt.Scale(zero=False, nice=False, padding=8)
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
            drawn = alt.Axis(
                title=title or None,
                labelAngle=0,
                labelLimit=_LABEL_PX,
                labelExpr=label,
                grid=has_grid,
            )
            sort = "ascending" if axis.order is None else list(axis.order)
            return channel(key, type="ordinal", axis=drawn, sort=sort)
    return channel(key, type=kind, axis=drawn, scale=scale)


def _parts(
    layer: Layer, x: Mapping[str, Any], y: Mapping[str, Any], hiding: Sequence[str]
) -> Iterator[alt.Chart]:
    """The layers of Altair that a layer is made of.

    Args:
        layer: the layer.
        x, y: channels of the axes, by their names.
        hiding: fields of the legend that hide its rows.
    """
    base = alt.Chart(alt.NamedData(layer.table))
    detail = {"detail": alt.Detail(layer.detail, type="nominal")} if layer.detail else {}
    # Channels by their classes: Altair takes 0.1 s to find the class of a dictionary.
    dash = alt.StrokeDashValue([1, 0], condition={"test": "datum.dashed == 1", "value": [*DASH]})

    def marks(**encodings: Any) -> alt.Chart:
        """Rows in the colour of their column `colour`, but for those that the legend hides."""
        colours: dict[str, Any] = (
            {} if "fill" in encodings else {"color": alt.Color("colour", **_AS_IS)}
        )
        coloured = base.encode(**colours, **encodings)
        if not hiding:
            return coloured
        visible = " && ".join(f"indexof(hidden_{name}, datum['{name}']) < 0" for name in hiding)
        return coloured.encode(opacity=alt.OpacityValue(0, condition={"test": visible, "value": 1}))

    match layer.mark:
        case "dots":
            is_open: dict[str, Any] = {"test": "datum.is_open == 1"}
            in_colour = {**is_open, "field": "colour", **_AS_IS}
            looks = {
                "shape": alt.Shape("marker", **_AS_IS),
                "fill": alt.Fill("colour", condition=is_open | {"value": PAPER}, **_AS_IS),
                "stroke": alt.StrokeValue(PAPER, condition=in_colour),
                "strokeWidth": alt.StrokeWidthValue(0.6, condition=is_open | {"value": 1.3}),
            }
            yield marks(**looks, **x, **y).mark_point(
                filled=True, opacity=1, size=layer.size or 55, clip=True
            )
        case "line":
            lines = marks(strokeDash=dash, **x, **y, **detail)
            yield lines.mark_line(strokeWidth=layer.size or 2, clip=True)
        case "level" | "upright":
            through = y if layer.mark == "level" else x
            yield marks(strokeDash=dash, **through).mark_rule(strokeWidth=1.4, clip=True)
        case "interval":
            low, high = alt.Y(layer.low, type="quantitative"), alt.Y2(layer.high)
            ends = marks(strokeDash=dash, **x, y=low, y2=high)
            yield ends.mark_rule(strokeWidth=layer.size or 1.4, clip=True)
        case "area":
            low = alt.Y(layer.low, type="quantitative", scale=y["y"].to_dict()["scale"])
            area = marks(**x, y=low, y2=alt.Y2(layer.high), **detail)
            yield area.mark_area(fillOpacity=0.13, clip=True)
        case "tolerance":
            low = alt.Y(layer.low, type="quantitative")
            yield base.mark_rect(color=GRID, clip=True).encode(y=low, y2=alt.Y2(layer.high))
            level = alt.Y(layer.detail, type="quantitative")
            yield base.mark_rule(color=MUTED, clip=True).encode(y=level)
        case "cells":
            cells = marks(fill=alt.Fill("colour", **_AS_IS), **x, **y)
            yield cells.mark_rect(stroke=PAPER, strokeWidth=1)
            if layer.detail:
                words = marks(
                    text=alt.Text(layer.detail, type="nominal"),
                    fill=alt.Fill("ink", **_AS_IS),
                    **x,
                    **y,
                )
                yield words.mark_text(fontSize=11)
        case "hatched":
            yield base.mark_rect(filled=False, stroke=INK, strokeWidth=0.7).encode(**x, **y)
            corners = {
                "x": _at(x["x"], alt.X, 0),
                "x2": alt.X2(x["x"].shorthand, bandPosition=1),
                "y": _at(y["y"], alt.Y, 1),
                "y2": alt.Y2(y["y"].shorthand, bandPosition=0),
            }
            yield base.mark_rule(color=INK, strokeWidth=0.7, opacity=0.5).encode(**corners)


def _at(drawn: Any, channel: Any, place: float) -> Any:
    """The channel of an axis of names, at the beginning (0) or the end (1) of the cell."""
    return channel(**drawn.to_dict(), bandPosition=place)


def chart_document(chart: Chart, tables: Mapping[str, str]) -> dict[str, Any]:
    """A chart as charts.js reads it; tables: name in its specification -> name in the page."""
    return {
        "spec": {key: value for key, value in vega_lite(chart).items() if not key.startswith("$")},
        "tables": tables,
        "panels": [_without_blanks(asdict(panel)) for panel in chart.panels],
        "x": chart.x.key,
        "y": chart.y.key,
        "offsets": {"x": chart.x.offset, "y": chart.y.offset},
        "tips": [_without_blanks(asdict(tip)) for tip in chart.tips],
        "legend": [
            _without_blanks(asdict(entry) | {"path": PATHS.get(entry.marker, "")})
            for entry in chart.legend
        ],
        "columns": chart.columns,
        "zooms": chart.zooms,
    }


def _without_blanks(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if value not in ("", (), {}, 0)}


def page_charts(charts: Iterable[tuple[str, str, str, Chart]]) -> tuple[str, str]:
    """(the Vega library, the charts of a page with their tables), both packed; "" without charts.

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
            shown = _with_paths(frame)
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


# --- print ---------------------------------------------------------------------------------------

_WIDTH: Final = 960  # of a drawing, in pixels
_LETTER_PX: Final = 6.6
_LINE_PX: Final = 20  # of the legend
_FEWEST_DRAWN: Final = 6  # charts of a process: starting it takes as long as drawing two
_DRAW: Final = """
import json, sys, vl_convert
json.dump([vl_convert.vegalite_to_svg(spec) for spec in json.load(sys.stdin)], sys.stdout)
"""
_LINES: Final = {False: "M-2,-.25H2V.25H-2Z", True: "M-2,-.25H-.6V.25H-2ZM.6,-.25H2V.25H.6Z"}


def chart_svgs(charts: Sequence[tuple[Chart, str]]) -> list[str]:
    """Charts, each with its description, as SVG files: all panels in a grid below the legend.

    Vega takes 0.4 s for a chart, so new processes draw them; forked ones would hang after Vega has
    run in this one. Raises ValueError for a chart that Vega cannot draw.
    """
    if not charts:
        return []
    specs = [_print_specification(chart) for chart, _ in charts]
    count = min(allowed_cores(), math.ceil(len(specs) / _FEWEST_DRAWN))
    shares = [specs[place::count] for place in range(count)]
    drawn: list[str] = [""] * len(specs)
    with ThreadPoolExecutor(count) as waiting:
        for place, svgs in enumerate(waiting.map(_drawn, shares)):
            drawn[place::count] = svgs
    return [_described(svg, text) for svg, (_, text) in zip(drawn, charts, strict=True)]


def _drawn(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The SVG texts that a new process draws of specifications; raises as `chart_svgs`."""
    command = [sys.executable, "-c", _DRAW]
    done = subprocess.run(
        command, input=json.dumps(specs), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ValueError(f"Vega cannot draw a chart: {done.stderr.strip()[-400:]}")
    svgs: list[str] = json.loads(done.stdout)
    return svgs


def _described(svg: str, description: str) -> str:
    """The SVG with its description, and with clips numbered anew.

    Vega counts them through its process, so that equal charts would have other bytes.
    """
    numbers: dict[str, int] = {}
    svg = re.sub(r"\bclip\d+", lambda m: f"clip{numbers.setdefault(m[0], len(numbers))}", svg)
    label = escape(description, quote=True)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1) + "\n"


def _print_specification(chart: Chart) -> dict[str, Any]:
    datasets: dict[str, Any] = {}
    widest = max(panel.width for panel in chart.panels)
    across = min(chart.columns, len(chart.panels), max(1, _WIDTH // widest) if widest else 9)
    names = [str(name) for name in chart.tables["points"].get(chart.y.key, ())]
    is_named = chart.y.scale == "names"
    label_px = min(_LABEL_PX, _LETTER_PX * max(map(len, names), default=0)) if is_named else 40
    alone = vega_lite(replace(chart, legend=()))
    drawings = [
        _panel(chart, alone, place, datasets)
        | {"height": panel.height, "width": max(90, _WIDTH / across - label_px - 40)}
        for place, panel in enumerate(chart.panels)
    ]
    above = [_legend(chart.legend, datasets)] if len(chart.legend) > 1 else []
    return {
        "$schema": alt.SCHEMA_URL,
        "config": {**_CONFIG, "background": PAPER, "title": {"anchor": "start", "fontSize": 12}},
        "vconcat": [*above, {"concat": drawings, "columns": across}],
        "datasets": datasets,
    }


def _panel(
    chart: Chart, alone: Mapping[str, Any], place: int, datasets: dict[str, Any]
) -> dict[str, Any]:
    """The specification of a panel; its rows go to `datasets`, under names of its own.

    alone: that of the chart without its legend.
    """
    panel = chart.panels[place]
    for table in chart.tables:
        rows = _with_paths(chart.rows_of(table, panel))
        datasets[f"{table}{place}"] = json.loads(
            rows.to_json(orient="records", double_precision=15)
        )

    def on_own_rows(part: Mapping[str, Any]) -> dict[str, Any]:
        own = {"data": {"name": f"{part['data']['name']}{place}"}} if "data" in part else {}
        return {key: value for key, value in part.items() if key not in ("name", "params")} | own

    return _without_blanks(
        {
            "title": panel.title or panel.choice,
            "layer": [on_own_rows(layer) for layer in alone["layer"]],
            "data": on_own_rows(alone).get("data", ""),
        }
    )


def _legend(entries: Sequence[LegendEntry], datasets: dict[str, Any]) -> dict[str, Any]:
    """Lines of markers with their labels, as many as fit beside each other."""
    datasets["legend"] = []
    left = line = 0.0
    for entry in entries:
        label = entry.label or entry.value
        width = 40 + 1.1 * _LETTER_PX * len(label)
        if left and left + width > _WIDTH:
            left, line = 0.0, line + 1
        path = PATHS.get(entry.marker) or _LINES[bool(entry.dash)]
        colours = {"colour": entry.colour, "fill": PAPER if entry.is_open else entry.colour}
        datasets["legend"].append(
            {"left": left, "line": line, "label": label, "path": path} | colours
        )
        left += width
    base = alt.Chart(alt.NamedData("legend")).encode(
        x=alt.X("left", type="quantitative", axis=None, scale=alt.Scale(domain=[0, _WIDTH])),
        y=alt.Y("line", type="ordinal", axis=None),
    )
    markers = base.mark_point(filled=True, opacity=1, size=90, strokeWidth=1).encode(
        shape=alt.Shape("path", **_AS_IS),
        fill=alt.Fill("fill", **_AS_IS),
        stroke=alt.Stroke("colour", **_AS_IS),
    )
    words = base.mark_text(align="left", dx=16, fontSize=12, color=INK)
    both = alt.layer(markers, words.encode(text=alt.Text("label", type="nominal")))
    height = _LINE_PX * (1 + line)
    drawing: dict[str, Any] = both.properties(width=_WIDTH - 60, height=height).to_dict()
    return {key: value for key, value in drawing.items() if key not in ("$schema", "config")}
