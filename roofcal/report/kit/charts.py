"""How a section declares a chart: rows of named tables, axes, layers of marks, panels, hover.

vega.py draws it: interactive on the page, and as an SVG file for print and for Snakemake's report.

Series colours are those of Okabe and Ito, and two of Tol's `muted` for ops with more than eight
recipes; they are told apart with any colour vision. In the page each colour below is a CSS
variable, so that charts follow a dark colour scheme.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pandas as pd

# Name of a colour, and of its CSS variable in reports/templates/style.css -> colour
COLOURS: Final = {
    "ink": "#1c2024",
    "muted": "#67707b",
    "grid": "#e3e6ea",
    "paper": "#fdfdfc",
    "blue": "#0072b2",
    "vermillion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "wine": "#882255",
    "olive": "#999933",
    "grey": "#7f868e",
}
INK, MUTED, GRID, PAPER, *_SERIES = COLOURS.values()
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, WINE, OLIVE, GREY = _SERIES
SPARE_COLOURS: Final = (PURPLE, ORANGE, SKY, GREY, GREEN, VERMILLION, BLUE)
SPARE_MARKERS: Final = ("^", "v", "P", "X", "<", ">")
_MODELS: Final = {"calibrated": BLUE, "torchao": VERMILLION, "wave": GREEN, "datasheet": GREY}


def spare_choice(name: str, choices: Sequence[str]) -> str:
    """One of `choices` for a name without a choice of its own: always the same one."""
    # the sum of bytes: a hash would differ from process to process
    return choices[sum(name.encode()) % len(choices)]


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """The colour of each of several models of time; models without their own get spare ones."""
    names = list(models)
    unlisted = sorted(model for model in names if model not in _MODELS)
    spare = {m: SPARE_COLOURS[index % len(SPARE_COLOURS)] for index, m in enumerate(unlisted)}
    return {model: _MODELS.get(model) or spare[model] for model in names}


MOST_ROWS: Final = 1500  # of a table of a page: more dots hide each other
DASH: Final = (6, 4)  # strokes and gaps of a dashed line, in pixels

# Colours of cells at numbers. Of a speed-up, as log2: vermillion, paper, blue; of decibels: fp8 of
# 3 bits of mantissa has 28, bf16 55.
SLOWER_FASTER: Final[Mapping[float, str]] = {
    -1: "#a63d00",
    -0.5: "#d98a56",
    0: "#f3efe9",
    0.5: "#6aa5cf",
    1: "#0a5592",
}
DECIBELS: Final[Mapping[float, str]] = {15: "#f3efe9", 30: "#9cc3df", 45: "#3d83b8", 60: "#0a5592"}


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """An entry of the legend, which hides and shows the rows whose column `field` is `value`.

    field   "" for an entry that explains a colour or a marker and hides nothing
    marker  a name in PATHS of vega.py; "swatch" for a colour alone, "" for a line
    dash    lengths of the strokes of a line and their gaps; () for a solid one
    is_open whether the marker is not filled
    """

    field: str
    value: str
    colour: str = INK
    marker: str = ""
    dash: Sequence[float] = ()
    label: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One drawing of the chart.

    title    above it
    choice   the tab that shows it; "" for a panel that is always shown
    where    column -> the value of the rows that it draws, of the tables that have the column
    fields   column that the axes and the hover name -> column of the table that it is here
    y        its own y axis; None for that of the chart
    height   in pixels
    width    least width in pixels: a narrower page scrolls the panel sideways
    """

    title: str = ""
    choice: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    y: "Axis | None" = None
    height: int = 300
    width: int = 0


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its column, its title, and how its numbers are placed and written.

    scale   log: ticks with SI prefixes of `unit`; linear: the same, from zero; plain: numbers with
            `unit` behind them; bytes, count: powers of two, '1 MiB' or '1,024'; ratio: logarithmic
            from the first of `ticks` to the last, rows outside are drawn at its ends; percent: of
            fractions, with their sign; names: of cells and lines of dots, in `order` or else sorted
            numbers; rows: names in the order of their rows
    offset  of names: column of numbers that spread the rows of one name sideways, smallest first
    """

    key: str
    title: str
    scale: Literal[
        "log", "linear", "plain", "bytes", "count", "ratio", "percent", "names", "rows"
    ] = "log"
    unit: str = ""
    ticks: Sequence[float] = ()
    order: Sequence[str] | None = None
    offset: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """Marks of the rows of a table, in the colour of their column `colour`.

    mark    dots, with their `marker`, open where `is_open` is 1; line: one per value of `detail`,
            with strokes where `dashed` is 1; level, upright: lines through the whole panel, at y or
            at x; interval: a line from `low` to `high`; area: between both, one per value of
            `detail`; tolerance: a grey band from `low` to `high` around the level `detail`; cells:
            a map, with the text of `detail` in `ink`; hatched: a frame and a stroke of each cell
    table   name in the tables of the chart
    size    of dots, in square pixels; of lines their width
    """

    mark: Literal[
        "dots", "line", "level", "upright", "interval", "area", "tolerance", "cells", "hatched"
    ]
    table: str = "points"
    detail: str = ""
    low: str = ""
    high: str = ""
    size: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of a section.

    layers    from below to above; the last one can be moved
    tables    name -> rows, which entries of the legend hide by those of their fields that they
              have. `points` are what the pointer finds, and what tips say something of.
    columns   panels abreast, where the page is wide enough
    is_shared whether `points` are the points of the op: then the page has these rows once
    further   columns that only a script of the page reads
    """

    x: Axis
    y: Axis
    layers: Sequence[Layer]
    tables: Mapping[str, pd.DataFrame]
    tips: Sequence[Tip]
    panels: Sequence[Panel] = (Panel(),)
    legend: Sequence[LegendEntry] = ()
    columns: int = 2
    is_shared: bool = False
    further: Sequence[str] = ()

    @property
    def carried(self) -> set[str]:
        """The columns of its tables that are drawn, said, hidden by, or lead to a record."""
        axes = [self.x, self.y, *(panel.y for panel in self.panels if panel.y)]
        names = {"colour", "ink", "marker", "is_open", "dashed", "point_id", *self.further}
        names.update(name for axis in axes for name in (axis.key, axis.offset))
        for layer in self.layers:
            names |= {layer.detail, layer.low, layer.high}
        for tip in self.tips:
            names |= {tip.key, tip.low, tip.high}
        names.update(entry.field for entry in self.legend)
        for panel in self.panels:
            names |= {*panel.where, *panel.fields.values()}
        return names

    @property
    def zooms(self) -> bool:
        """Whether the axes can be moved: those of names cannot."""
        return not {self.x.scale, self.y.scale} & {"names", "rows"}

    def rows_of(self, table: str, panel: Panel) -> pd.DataFrame:
        """The rows of a table that a panel draws."""
        rows = self.tables[table]
        for column, value in panel.where.items():
            if column in rows:
                rows = rows[rows[column] == value]
        rows = rows.assign(**{name: rows[own] for name, own in panel.fields.items() if own in rows})
        drawn_axes = [axis.key for axis in (self.x, panel.y or self.y) if axis.key in rows]
        return rows.dropna(subset=drawn_axes) if table == "points" else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(Chart):
    """A chart of a section with its words.

    When chapter.py places it, it appends the facts to `alt`, and fills in the file in `source`, the
    command and all that follows it.

    key      <section folder>/<key>.md is its caption: what it shows and how that was measured
    op       the op whose points it shows
    alt      what a reader who cannot see it should know; `facts` follow it
    facts    numbers of this very figure, one or two sentences
    source   the CSV file that it was drawn from; "" for the tidy table of the op
    command  what prints that file; "" for the command of the tidy table
    caption  its paragraphs as HTML
    points   name under which the page carries the points of its op
    records  id of the table of the records of these points
    """

    key: str
    op: str
    alt: str
    facts: str
    source: str = ""
    command: str = ""
    id: str = ""
    title: str = ""
    caption: Sequence[str] = ()
    points: str = ""
    records: str = ""
    kind: ClassVar = "figure"


def facets(
    rows: pd.DataFrame,
    column: str,
    height: int = 300,
    *,
    width: int = 0,
    names: str = "",
    name_px: int = 0,
) -> list[Panel]:
    """A panel for each value of a column, in the order of the rows.

    names, name_px: column of what stands beside the panel, and the height of one of these.
    """
    return [
        Panel(
            title=str(value),
            where={column: value},
            height=height + (name_px * own[names].nunique() if names else 0),
            width=width,
        )
        for value, own in rows.groupby(column, sort=False)
    ]


def in_order(rows: pd.DataFrame, **orders: Sequence[Any]) -> pd.DataFrame:
    """Rows sorted by columns whose values have an order of their own, the first column first."""
    return rows.sort_values(
        list(orders),
        key=lambda column: column.map(list(orders[str(column.name)]).index),
        kind="stable",
    )


def swatches(field: str, colours: Mapping[str, str], marker: str = "swatch") -> list[LegendEntry]:
    """Legend entries of the values of a field, by their colours."""
    return [LegendEntry(field, value, colour, marker) for value, colour in colours.items()]


def marked(field: str, marks: Mapping[str, tuple[str, str]]) -> list[LegendEntry]:
    """Legend entries of the values of a field, by (colour, marker)."""
    return [LegendEntry(field, value, *mark) for value, mark in marks.items()]


def mark_columns(values: Iterable[Any], marks: Mapping[Any, tuple[str, str]]) -> dict[str, Any]:
    """Columns `colour` and `marker` of rows with these values, by (colour, marker)."""
    colours, markers = zip(*(marks[value] for value in values), strict=True)
    return {"colour": list(colours), "marker": list(markers)}


def text_tips(**labels: str) -> tuple[Tip, ...]:
    """Hover lines: the texts of a row under their labels, in order."""
    return tuple(Tip(key, label) for key, label in labels.items())


def line_at(value: float, key: str, colour: str, dashed: int = 0) -> pd.DataFrame:
    """The table of a level or an upright line at one value of the column `key`."""
    return pd.DataFrame({key: [value], "dashed": [dashed], "colour": [colour]})


def cell_colours(numbers: Iterable[float], stops: Mapping[float, str]) -> dict[str, list[str]]:
    """Columns `colour` and `ink`, of the text in it, of cells with numbers; see SLOWER_FASTER."""
    values = np.asarray(list(numbers), dtype=float)
    channels = np.array(
        [[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in stops.values()]
    )
    mixed = np.stack([np.interp(values, list(stops), channel) for channel in channels.T], axis=-1)
    is_dark = mixed @ [0.299, 0.587, 0.114] < 140
    return {
        "colour": [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.rint(mixed).astype(int)],
        "ink": np.where(is_dark, "#ffffff", "#111111").tolist(),
    }


def ticks_around(values: Iterable[float], ticks: Sequence[float]) -> list[float]:
    """The ticks from the last one below the values to the first one above them."""
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    first = max((tick for tick in ticks if tick <= low), default=ticks[0])
    last = min((tick for tick in ticks if tick >= high), default=ticks[-1])
    return [tick for tick in ticks if first <= tick <= last]


def thinned(rows: pd.DataFrame, most: int = MOST_ROWS) -> pd.DataFrame:
    """At most so many rows, evenly spaced in the order of measuring: more would hide each other."""
    if len(rows) <= most:
        return rows
    return rows.iloc[[index * len(rows) // most for index in range(most)]]


def thinning_note(total: int, most: int = MOST_ROWS) -> str:
    """A sentence for a figure that leaves points out, "" for one that draws all."""
    return f" {most:,} of {total:,} points are drawn, evenly chosen." if most < total else ""
