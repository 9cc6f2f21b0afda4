"""What a section declares of a chart: rows of named tables, axes, layers of marks, panels, hover.

It is declared once and drawn twice: by vega.py for the page, where it answers when touched, and by
print_chart.py for paper and for Snakemake's own report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pandas as pd

from roofcal.report.kit.styles import INK

MOST_ROWS: Final = 1500  # of a table of a page: more dots hide each other
DASH: Final = (6, 4)  # strokes and gaps of a dashed line, in pixels


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
    """One drawing of the chart.

    title    above it
    choice   the tab that shows it; "" for a panel that is always shown
    where    column -> the value of the rows that it draws, of the tables that have the column
    fields   column that the axes and the hover name -> column of the table that it is here
    height   in pixels
    width    least width in pixels: a narrower page scrolls the panel sideways
    """

    title: str = ""
    choice: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    height: int = 300
    width: int = 0


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its column, its title, and how its numbers are placed and written.

    scale   log: ticks with SI prefixes of `unit`; linear: the same, from zero; bytes, count: powers
            of two, '1 MiB' or '1,024'; ratio: logarithmic from the first of `ticks` to the last,
            rows beyond sit on its ends; percent: of fractions, with their sign; names: of cells, in
            `order` or else sorted numbers; rows: names in the order of their rows
    """

    key: str
    title: str
    scale: Literal["log", "linear", "bytes", "count", "ratio", "percent", "names", "rows"] = "log"
    unit: str = ""
    ticks: Sequence[float] = ()
    order: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Marks of the rows of a table, in the colour of their column `colour`.

    mark    dots, with their `marker`; line: one per value of `detail`, with strokes where `dashed`
            is 1; level, upright: lines through the whole panel, at y or at x; interval: a line from
            `low` to `high`; area: between both, one per value of `detail`; tolerance: a grey band
            from `low` to `high` around the level `detail`; cells: a map coloured by `ratio`, slower
            to faster, with their `label`
    table   name in the tables of the chart
    size    of dots, in square pixels; of lines their width
    hidden  fields of the legend that hide its rows; None: all of them
    """

    mark: Literal["dots", "line", "level", "upright", "interval", "area", "tolerance", "cells"]
    table: str = "points"
    detail: str = ""
    low: str = ""
    high: str = ""
    size: float = 0
    hidden: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of a section.

    layers    from below to above; the last one can be moved
    tables    name -> rows. `points` are what the pointer finds.
    panels    at least one
    tips      what is said of a row of `points`
    columns   panels abreast, where the page is wide enough
    is_shared whether `points` are the points of the op: then the page has these rows once
    zooms     whether the axes can be moved
    """

    x: Axis
    y: Axis
    layers: Sequence[Layer]
    tables: Mapping[str, pd.DataFrame]
    panels: Sequence[Panel]
    tips: Sequence[Tip]
    legend: Sequence[LegendEntry] = ()
    columns: int = 2
    is_shared: bool = False
    zooms: bool = True

    def rows_of(self, table: str, panel: Panel) -> pd.DataFrame:
        """The rows of a table that a panel draws."""
        rows = self.tables[table]
        for column, value in panel.where.items():
            if column in rows:
                rows = rows[rows[column] == value]
        rows = rows.assign(**{name: rows[own] for name, own in panel.fields.items() if own in rows})
        found = [axis.key for axis in (self.x, self.y) if axis.key in rows]
        return rows.dropna(subset=found) if table == "points" else rows
