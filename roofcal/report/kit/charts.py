"""Charts that answer when touched: what a section declares of one, and how a page carries them.

A chart is a Vega-Lite specification (made with Altair), rows of named tables, and what the page
says of a row under the pointer. reports/templates/charts.js draws it in panels, with a legend and
buttons of HTML around them. A page carries the tables of all its charts once, as columns, and Vega
once: no chart loads anything. Texts of records are data throughout, never markup or expressions.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final, Literal

import pandas as pd
import vl_convert

from roofcal.report.kit.numbers import is_missing
from roofcal.report.kit.packing import packed
from roofcal.report.kit.styles import COLOURS, GRID, INK, MUTED

DIGITS: Final = 4  # significant digits of a number in a page
MOST_ROWS: Final = 1500  # of a table of a page: more dots hide each other
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


def marker_path(marker: str) -> str:
    """A marker of matplotlib as an SVG path; a circle for a marker without a path."""
    return _PATHS.get(marker, _PATHS["o"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """A line of the text beside the pointer: the row's column `key` under `label`.

    kind       text; count; si: with a prefix of `unit`; percent: of a fraction, signed; ratio
    low, high  columns of the 95 % interval of the number, if it has one
    """

    key: str
    label: str
    kind: Literal["text", "count", "si", "percent", "ratio"] = "text"
    unit: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendEntry:
    """An entry of the legend, which hides and shows the rows whose column `field` is `value`.

    marker  of matplotlib; "swatch" for a colour alone, "" for a line
    dash    lengths of the strokes of a line and their gaps; () for a solid one
    """

    field: str
    value: str
    colour: str = INK
    marker: str = ""
    dash: Sequence[float] = ()
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One drawing of the specification.

    title    above it
    choice   the tab that shows it; "" for a panel that is always shown
    where    column -> the value of the rows that it draws, of the tables that have the column
    fields   column of the specification -> column of the table that it stands for here
    domains  x, y -> both ends of the axis; of Vega's choice where there are none
    height   in pixels
    width    least width in pixels: a narrower page scrolls the panel sideways
    """

    title: str = ""
    choice: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    height: int = 300
    width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of a section.

    spec      Vega-Lite, its data named as in `tables`
    tables    name in `spec` -> rows. A table of SHARED is the same rows in every chart of an op,
              with the columns that each chart needs.
    panels    at least one
    tips      what is said of a row of `points`; x and y are the columns at which it is found
    columns   panels abreast, where the page is wide enough
    is_shared whether `points` are the points of the op: then the page has these rows once
    zooms     whether the axes can be moved
    """

    spec: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    panels: Sequence[Panel]
    x: str
    y: str
    tips: Sequence[Tip]
    legend: Sequence[LegendEntry] = ()
    columns: int = 2
    is_shared: bool = False
    zooms: bool = True


def chart_document(chart: Chart, tables: Mapping[str, str]) -> dict[str, Any]:
    """A chart as charts.js reads it; tables: name in its specification -> name in the page."""
    return {
        "spec": {key: value for key, value in chart.spec.items() if not key.startswith("$")},
        "tables": tables,
        "panels": [_without_blanks(asdict(panel)) for panel in chart.panels],
        "x": chart.x,
        "y": chart.y,
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
            held |= {str(key): _column(frame[key]) for key in frame.columns if key not in held}
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
