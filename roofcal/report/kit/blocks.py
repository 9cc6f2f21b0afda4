"""The blocks of a section: prose, tables, figures and commands. The templates lay them out."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pandas as pd

from roofcal.report.kit.charts import Chart
from roofcal.report.kit.numbers import MISSING, is_missing
from roofcal.report.kit.templates import packed_json, render

PAGED_FROM: Final = 31  # rows: longer tables are packed, and get a filter and pages when opened
MOST_ROWS: Final = 20_000  # rows of a table in the page; its CSV file has all
_DESCRIBED: Final = ("key", "label", "kind", "unit", "about")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: the frame's column `key` under `label`.

    show      value -> text, never called for a missing value
    kind      number: right-aligned, sorted by value; text; code; wide: text that may break;
              verdict: a word with a sign in front
    unit      unit of the shown number, printed behind the label
    about     what the column means, where the label does not say it
    sort_key  column of the frame that holds the number to sort by, where `key` holds a text
    factor    shown number / value: 1e6 for seconds that are shown in microseconds
    signs     for verdicts: word -> class of the style sheet that gives it a sign and a colour
    link      column of the frame that holds the address to which the cell leads, if any
    """

    key: str
    label: str
    show: Callable[[Any], str] = str
    kind: Literal["number", "text", "code", "wide", "verdict"] = "text"
    unit: str = ""
    about: str = ""
    sort_key: str = ""
    factor: float = 1.0
    signs: Mapping[str, str] = field(default_factory=dict, hash=False)
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table ready for the page.

    body    the rows of a short table as HTML
    packed  a long table as packed JSON, which the browser draws on opening it; see _packed_table
    shown   rows in the page; `total` includes those left out
    """

    id: str
    caption: str
    columns: Sequence[Column]
    body: str
    packed: str
    shown: int
    total: int
    source: str = ""
    kind: Literal["table"] = "table"

    @property
    def paged(self) -> bool:
        """Whether the page draws it on demand, with a filter and pages."""
        return bool(self.packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBlock:
    """A figure with the table it was drawn from and the command that prints that table.

    key   its caption is <section folder>/<key>.md
    caption paragraphs, as HTML
    alt   what a reader who cannot see it should know
    points the name under which the page carries the points of its op; `records` is the id of the
          table of their records
    """

    id: str
    key: str
    title: str
    op: str
    caption: Sequence[str]
    facts: str
    source: str
    command: str
    alt: str
    chart: Chart
    points: str = ""
    records: str = ""
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A paragraph; `quiet` for a remark that something is missing. It may begin with a link."""

    text: str
    quiet: bool = False
    link: str = ""
    url: str = ""
    kind: Literal["prose"] = "prose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Lines for a terminal."""

    lines: Sequence[str]
    kind: Literal["commands"] = "commands"


Block = Table | FigureBlock | Prose | Commands


def paragraphs(sentences: Iterable[str]) -> list[Prose]:
    """A paragraph for each sentence."""
    return [Prose(text=sentence) for sentence in sentences]


def absence(text: str) -> Prose:
    """A remark that something is missing."""
    return Prose(text=text, quiet=True)


def make_table(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    *,
    id: str,
    caption: str,
    source: str = "",
    paged_from: float = PAGED_FROM,
) -> Table:
    """A table of those `columns` that have a value in the frame; rows keep their order.

    An empty frame gives a table of all its columns without rows.
    """
    present = [c for c in columns if c.key in frame.columns]
    filled = [c for c in present if frame[c.key].notna().any()] or present
    shown = frame.iloc[:MOST_ROWS]
    cells = [list(_cells(shown, column)) for column in filled]
    is_long = len(shown) >= paged_from
    return Table(
        id=id,
        caption=caption,
        columns=filled,
        body="" if is_long else render("rows.html.j2", rows=zip(*cells, strict=True)),
        packed=_packed_table(filled, cells) if is_long else "",
        shown=len(shown),
        total=len(frame),
        source=source,
    )


# kind, text, mark (the number to sort by, or the class of a verdict), address
Cell = tuple[str, str, str, str]


def _packed_table(columns: Sequence[Column], cells: Sequence[Sequence[Cell]]) -> str:
    """{"columns": [...], "texts": [[...] by column], "numbers": {place of a column: [...]}}.

    `texts` are what people read, null for a missing value. The browser sorts and filters by
    `numbers`, the sort keys of text columns, and by `values`, the exact numbers behind rounded
    texts, in the shown unit.
    """
    return packed_json(
        {
            "columns": [
                {
                    name: value
                    for name, value in (
                        *((name, getattr(column, name)) for name in _DESCRIBED),
                        ("signs", dict(column.signs)),
                    )
                    if value
                }
                for column in columns
            ],
            "texts": [
                [None if text == MISSING else text for _, text, *_ in own_cells]
                for own_cells in cells
            ],
            "numbers": {
                str(place): [float(mark) if mark else None for _, _, mark, _ in cells[place]]
                for place, column in enumerate(columns)
                if column.kind == "number" and column.sort_key
            },
            "values": {
                str(place): values
                for place, column in enumerate(columns)
                if column.kind == "number" and not column.sort_key
                if (values := _rounded_values(column, cells[place]))
            },
        }
    )


def _rounded_values(column: Column, cells: Sequence[Cell]) -> list[float | None]:
    """The values of a column in the shown unit, to six digits; [] where its texts are exact."""
    values = [
        float(f"{column.factor * float(mark):.6g}") if mark else None for _, _, mark, _ in cells
    ]
    are_texts = all(
        value is None or text in (f"{value:,.0f}", f"{value:g}")
        for value, (_, text, *_) in zip(values, cells, strict=True)
    )
    finite = [None if value is None or math.isinf(value) else value for value in values]
    return [] if are_texts else finite


def _cells(frame: pd.DataFrame, column: Column) -> Iterator[Cell]:
    values = frame[column.key].tolist()
    numbers = frame[column.sort_key or column.key].tolist()
    links = frame[column.link].tolist() if column.link in frame else [None] * len(frame)
    for value, number, link in zip(values, numbers, links, strict=True):
        address = "" if is_missing(link) else str(link)
        if is_missing(value):
            yield column.kind, MISSING, "", ""
        elif column.kind == "number":
            yield column.kind, column.show(value), f"{number:.6g}", address
        else:
            yield column.kind, column.show(value), column.signs.get(value, ""), address
