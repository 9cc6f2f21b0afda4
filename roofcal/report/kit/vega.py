"""Charts as Vega-Lite: for the page, and as SVG files for print.

reports/templates/charts.js draws it in panels, with a legend and buttons of HTML around them. A
page carries the tables of all its charts once, as columns, and Vega once: no chart loads anything.
Texts of records are data throughout, never markup or expressions.
"""

import gzip
import json
import math
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pandas as pd
import vl_convert

from roofcal.core.files import InputError, read_limited, write_bytes
from roofcal.core.machine.cores import allowed_cores
from roofcal.report.kit.charts import (
    COLOURS,
    DASH,
    GRID,
    INK,
    MUTED,
    PAPER,
    Axis,
    Chart,
    Layer,
    LegendEntry,
    Panel,
)
from roofcal.report.kit.numbers import is_missing
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
    "axisX": {"labelBound": 5},  # pixels: what reaches further right is cut by the page
}
_LABEL_PX: Final = 320  # most of a name beside an axis
_AS_IS: Final[Mapping[str, Any]] = {"kind": "nominal", "legend": None, "scale": None}

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
    return rows.assign(marker=rows["marker"].map(marker_path)) if "marker" in rows else rows


def vega_lite(chart: Chart) -> dict[str, Any]:
    """The specification of a chart, its data named as its tables.

    Nothing holds it against the schema of Vega-Lite here; tests/roofcal/report/kit/test_charts.py
    does, for every mark and every scale.
    """
    layers = _layers(chart)
    data = {"data": layers[0]["data"]} if len(chart.layers) == 1 else {}
    params: list[dict[str, Any]] = [
        {"name": f"hidden_{name}", "value": []} for name in _hiding_fields(chart)
    ]
    if chart.zooms:
        # its axes follow the pointer, and the wheel while Ctrl or Alt is held: alone it scrolls the
        # page
        layers[-1]["name"] = "moved"
        wheel = "wheel![event.ctrlKey || event.altKey]"
        select = {"type": "interval", "clear": "dblclick", "zoom": wheel}
        zoom = {"name": "zoom", "select": select, "bind": "scales", "views": ["moved"]}
        params = [zoom, *params]
    return {
        "config": {"view": {"continuousWidth": 300, "continuousHeight": 300}},
        "layer": [{k: v for k, v in layer.items() if k not in data} for layer in layers],
        **data,
        **({"params": params} if params else {}),
    }


def _hiding_fields(chart: Chart) -> list[str]:
    return list(dict.fromkeys(entry.field for entry in chart.legend if entry.field))


def _layers(chart: Chart) -> list[dict[str, Any]]:
    has_grid = all(layer.mark != "cells" for layer in chart.layers)
    axes: dict[str, dict[str, Any]] = {}
    for name, axis in (("x", chart.x), ("y", chart.y)):
        axes[name] = _axis_channel(axis, has_grid)
        if axis.offset:  # sets the rows of a name apart
            scale = {"nice": False, "padding": 8, "zero": False}
            axes[f"{name}Offset"] = _channel(axis.offset, "quantitative", scale=scale)
    fields = _hiding_fields(chart)
    return [
        part
        for layer in chart.layers
        for part in _parts(layer, axes, [f for f in fields if f in chart.tables[layer.table]])
    ]


def _channel(field: str, kind: str, **more: Any) -> dict[str, Any]:
    """The channel of a column of some type; in the order of its keys, so that bytes are equal."""
    return dict(sorted(({"field": field, "type": kind} | more).items()))


def _axis_channel(axis: Axis, has_grid: bool) -> dict[str, Any]:
    if axis.scale == "rows":
        return _channel(axis.key, "ordinal", axis={"labelAngle": 0, "title": None}, sort=None)
    if axis.scale == "names":
        are_numbers = axis.order is None
        drawn: dict[str, Any] = {
            "grid": has_grid,
            "labelAngle": 0,
            "labelExpr": "format(datum.value, ',')" if are_numbers else "datum.value",
            "labelLimit": _LABEL_PX,
            "title": axis.title or None,
        }
        sort = "ascending" if axis.order is None else list(axis.order)
        return _channel(axis.key, "ordinal", axis=drawn, sort=sort)
    prefixed = f"format(datum.value, '~s') + '{axis.unit}'"
    free: dict[str, Any] = {"nice": False, "padding": 8, "zero": False}
    logarithmic = {"nice": False, "padding": 8, "type": "log"}
    binary = {"base": 2, **logarithmic}
    ratios = {"clamp": True, "domain": [*axis.ticks[:1], *axis.ticks[-1:]], "nice": False}
    kinds: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "linear": (prefixed, {"tickCount": 4}, {"zero": True}),
        "plain": (f"format(datum.value, ',~g') + '{axis.unit}'", {"tickCount": 5}, free),
        "log": (f"{_ROUND}{prefixed}", {"tickCount": 4}, logarithmic),
        "bytes": (f"{_BINARY} : datum.value + ' B'", {"tickCount": 6}, binary),
        "count": ("format(datum.value, ',')", {"tickCount": 6}, binary),
        "ratio": (
            "format(datum.value, '~g')",
            {"values": list(axis.ticks)},
            ratios | {"type": "log"},
        ),
        "percent": ("", {"tickCount": 6, "format": "+.2~%"}, free),
    }
    label, ticks, scale = kinds[axis.scale]
    drawn = ({"labelExpr": label} if label else {}) | ticks | {"title": axis.title}
    return _channel(axis.key, "quantitative", axis=dict(sorted(drawn.items())), scale=scale)


def _parts(
    layer: Layer, axes: Mapping[str, dict[str, Any]], hiding: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """What a layer is made of; axes: their channels by name; hiding: see _hiding_fields."""
    x, y = ({name: axes[name] for name in axes if name[0] == first} for first in "xy")
    detail = {"detail": _channel(layer.detail, "nominal")} if layer.detail else {}
    dash = {"condition": {"test": "datum.dashed == 1", "value": [*DASH]}, "value": [1, 0]}

    def drawn(mark: str, looks: Mapping[str, Any], channels: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "data": {"name": layer.table},
            "mark": {"type": mark, **looks},
            "encoding": dict(sorted(channels.items())),
        }

    def rows(mark: str, looks: Mapping[str, Any], **channels: Any) -> dict[str, Any]:
        """Rows in the colour of their column `colour`, but for those that the legend hides."""
        if "fill" not in channels:
            channels["color"] = _channel("colour", **_AS_IS)
        if hiding:
            visible = " && ".join(f"indexof(hidden_{name}, datum['{name}']) < 0" for name in hiding)
            channels["opacity"] = {"condition": {"test": visible, "value": 1}, "value": 0}
        return drawn(mark, looks, channels)

    match layer.mark:
        case "dots":
            is_open: dict[str, Any] = {"test": "datum.is_open == 1"}
            in_colour = is_open | _channel("colour", **_AS_IS)
            yield rows(
                "point",
                {"clip": True, "filled": True, "opacity": 1, "size": layer.size or 55},
                shape=_channel("marker", **_AS_IS),
                fill=_channel("colour", condition=is_open | {"value": PAPER}, **_AS_IS),
                stroke={"condition": in_colour, "value": PAPER},
                strokeWidth={"condition": is_open | {"value": 1.3}, "value": 0.6},
                **x,
                **y,
            )
        case "line":
            looks: dict[str, Any] = {"clip": True, "strokeWidth": layer.size or 2}
            yield rows("line", looks, strokeDash=dash, **x, **y, **detail)
        case "level" | "upright":
            through = y if layer.mark == "level" else x
            yield rows("rule", {"clip": True, "strokeWidth": 1.4}, strokeDash=dash, **through)
        case "interval":
            looks = {"clip": True, "strokeWidth": layer.size or 1.4}
            low, high = _channel(layer.low, "quantitative"), {"field": layer.high}
            if axes["y"]["type"] == "ordinal":  # sideways, along a row of names
                yield rows("rule", looks, strokeDash=dash, x=low, x2=high, **y)
            else:
                yield rows("rule", looks, strokeDash=dash, **x, y=low, y2=high)
        case "area":
            low = _channel(layer.low, "quantitative", scale=axes["y"]["scale"])
            looks = {"clip": True, "fillOpacity": 0.13}
            yield rows("area", looks, **x, y=low, y2={"field": layer.high}, **detail)
        case "tolerance":
            between = {"y": _channel(layer.low, "quantitative"), "y2": {"field": layer.high}}
            yield drawn("rect", {"clip": True, "color": GRID}, between)
            level = {"y": _channel(layer.detail, "quantitative")}
            yield drawn("rule", {"clip": True, "color": MUTED}, level)
        case "cells":
            fill = _channel("colour", **_AS_IS)
            yield rows("rect", {"stroke": PAPER, "strokeWidth": 1}, fill=fill, **x, **y)
            if layer.detail:
                words = {"text": detail["detail"], "fill": _channel("ink", **_AS_IS)}
                yield rows("text", {"fontSize": 11}, **words, **x, **y)
        case "hatched":
            looks = {"filled": False, "stroke": INK, "strokeWidth": 0.7}
            yield drawn("rect", looks, x | y)
            # from a corner of a cell to the other one
            corners = {
                "x": dict(sorted((axes["x"] | {"bandPosition": 0}).items())),
                "x2": {"bandPosition": 1, "field": axes["x"]["field"]},
                "y": dict(sorted((axes["y"] | {"bandPosition": 1}).items())),
                "y2": {"bandPosition": 0, "field": axes["y"]["field"]},
            }
            yield drawn("rule", {"color": INK, "opacity": 0.5, "strokeWidth": 0.7}, corners)


def _document(chart: Chart, tables: Mapping[str, str], records: str) -> dict[str, Any]:
    """A chart as charts.js reads it; tables: name in its specification -> name in the page."""
    return {
        "spec": vega_lite(chart),
        "tables": tables,
        "panels": [_panel_document(chart, panel) for panel in chart.panels],
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
        "records": records,
    }


def _panel_document(chart: Chart, panel: Panel) -> dict[str, Any]:
    own: dict[str, Any] = asdict(panel)
    if panel.y:
        own |= {"y": panel.y.key, "spec": vega_lite(replace(chart, y=panel.y))}
    return _without_blanks(own)


def _without_blanks(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if value not in (None, "", (), {}, 0)}


def page_charts(charts: Iterable[tuple[str, str, str, Chart]]) -> tuple[str, str]:
    """(the Vega library, the charts of a page with their tables), both packed; "" without charts.

    Args:
        charts: (id of the figure, name of its shared table, id of the table that has the record of
            each point, chart).

    Raises:
        ValueError: two charts share a table whose rows differ.
    """
    tables: dict[str, dict[str, Any]] = {}
    rows_of: dict[str, list[str]] = {}
    documents: dict[str, Any] = {}
    for name, shared, records, chart in charts:
        names, carried = {}, chart.carried
        for table, frame in chart.tables.items():
            names[table] = shared if chart.is_shared and table == "points" else f"{name}/{table}"
            rows = [*map(str, frame.index)]
            if rows_of.setdefault(names[table], rows) != rows:
                raise ValueError(f"{name}: its shared points are not those of other charts")
            held, shown = tables.setdefault(names[table], {}), _with_paths(frame)
            further = [key for key in shown if key in carried and key not in held]
            held |= {str(key): _column(shown[key]) for key in further}
        documents[name] = _document(chart, names, records)
    if not documents:
        return "", ""
    page = {"config": _CONFIG, "charts": documents, "tables": tables}
    text = json.dumps(page, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for variable, colour in COLOURS.items():
        text = re.sub(f'"{colour}"', f'"var(--{variable})"', text, flags=re.IGNORECASE)
    return packed(_vega()), packed(text)


_BUNDLED: Final = "window.vegaEmbed=vegaEmbed;"  # what the script has beside the libraries


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script.

    Bundling takes 2.4 s, a third of a small report. So the script of a version of vl_convert is
    kept in the user's folder of caches, compressed by gzip, which finds what is damaged.
    """
    kept = _kept_vega()
    with suppress(InputError, OSError, EOFError, zlib.error, UnicodeDecodeError):
        if kept and (script := gzip.decompress(read_limited(kept)).decode()):
            return script
    script = f"(()=>{{{vl_convert.javascript_bundle(_BUNDLED)}}})();"
    with suppress(OSError):  # a folder that cannot be written
        if kept:
            write_bytes(kept, gzip.compress(script.encode(), mtime=0))
    return script


def _kept_vega() -> Path | None:
    """Where the script is kept; None for a user without a folder of caches, as in a container."""
    own = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        caches = own if own.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # no HOME, and a user that has no entry in /etc/passwd
        return None
    key = sha256(f"{version('vl-convert-python')} {_BUNDLED}".encode()).hexdigest()[:16]
    return caches / "roofcal" / f"vega-script-{key}.js.gz"


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
    if float(value).is_integer() and abs(value) < 1e9:
        return int(value)  # a size or a count is exact
    rounded = float(f"{value:.{DIGITS}g}")
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
    widest = max(panel.width for panel in chart.panels)
    across = min(chart.columns, len(chart.panels), max(1, _WIDTH // widest) if widest else 9)
    names = [str(name) for name in chart.tables["points"].get(chart.y.key, ())]
    is_named = chart.y.scale == "names"
    label_px = min(_LABEL_PX, _LETTER_PX * max(map(len, names), default=0)) if is_named else 40
    datasets: dict[str, Any] = {}
    drawings, carried = [], chart.carried
    for place, panel in enumerate(chart.panels):
        for table in chart.tables:
            rows = _with_paths(chart.rows_of(table, panel))
            own = [key for key in rows if key in carried or key in panel.fields]
            text = rows[own].to_json(orient="records", double_precision=15)
            datasets[f"{table}{place}"] = json.loads(text)
        drawing = {
            "title": ", ".join(filter(None, (panel.title, panel.choice))),
            "layer": [
                layer | {"data": {"name": f"{layer['data']['name']}{place}"}}
                for layer in _layers(replace(chart, legend=(), y=panel.y or chart.y))
            ],
            "height": panel.height,
            "width": max(90, _WIDTH / across - label_px - 40),
        }
        drawings.append(_without_blanks(drawing))
    above = [_legend(chart.legend, datasets)] if len(chart.legend) > 1 else []
    return {
        "config": {**_CONFIG, "background": PAPER, "title": {"anchor": "start", "fontSize": 12}},
        "vconcat": [*above, {"concat": drawings, "columns": across}],
        "datasets": datasets,
    }


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
    place = {
        "x": _channel("left", "quantitative", axis=None, scale={"domain": [0, _WIDTH]}),
        "y": _channel("line", "ordinal", axis=None),
    }
    looks = {"fill": "fill", "shape": "path", "stroke": "colour"}
    looks_by = {name: _channel(column, **_AS_IS) for name, column in looks.items()}
    marker = {"type": "point", "filled": True, "opacity": 1, "size": 90, "strokeWidth": 1}
    words = {"type": "text", "align": "left", "color": INK, "dx": 16, "fontSize": 12}
    return {
        "layer": [
            {"mark": marker, "encoding": {**looks_by, **place}},
            {"mark": words, "encoding": {"text": _channel("label", "nominal"), **place}},
        ],
        "data": {"name": "legend"},
        "height": _LINE_PX * (1 + line),
        "width": _WIDTH - 60,
    }
