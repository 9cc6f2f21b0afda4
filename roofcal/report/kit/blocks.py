"""The blocks of a section: prose, tables, figures and commands. The templates lay them out."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import pandas as pd

from roofcal.core.units import MISSING
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.numbers import is_missing
from roofcal.report.kit.templates import packed_json, render

PAGED_FROM: Final = 31  # rows: longer tables are packed, and get a filter and pages when opened
MOST_ROWS: Final = 20_000  # rows of a table in the page; its CSV file has all
_DESCRIBED: Final = ("key", "label", "kind", "unit", "about", "signs")


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


@dataclass(frozen=True, slots=True)
class Table:
    """A table: those of its columns that have a value in the frame; rows keep their order.

    id          within the chapter; chapter.py puts the id of the chapter before it
    source      the CSV file that has it whole, if there is one
    paged_from  rows from which the page draws it on demand, with a filter and pages
    """

    id: str
    caption: str
    frame: pd.DataFrame
    declared: Sequence[Column]
    source: str = ""
    paged_from: float = field(default=PAGED_FROM, kw_only=True)
    kind: ClassVar = "table"

    @property
    def columns(self) -> list[Column]:
        """The columns that are shown; all that the frame has where none of them has a value."""
        present = [c for c in self.declared if c.key in self.frame.columns]
        return [c for c in present if self.frame[c.key].notna().any()] or present

    @property
    def total(self) -> int:
        """Its rows, with those that the page leaves out."""
        return len(self.frame)

    @property
    def shown(self) -> int:
        """Rows in the page."""
        return min(self.total, MOST_ROWS)

    @property
    def paged(self) -> bool:
        """Whether it is packed, and drawn by the browser on opening it."""
        return self.shown >= self.paged_from

    @property
    def body(self) -> str:
        """The rows of a short table as HTML."""
        return render("rows.html.j2", rows=zip(*self._cells(), strict=True))

    @property
    def packed(self) -> str:
        """A long table as packed JSON, by column: {"columns": [...], "texts": [[...]], ...}.

        `texts` are what people read, null for a missing value. The browser sorts and filters by
        `numbers`, the sort keys of text columns, and by `values`, the exact numbers behind rounded
        texts, in the shown unit; both name a column by its place.
        """
        columns, cells = self.columns, self._cells()
        numbers = {str(at): c for at, c in enumerate(columns) if c.kind == "number"}
        return packed_json(
            {
                "columns": [
                    {name: value for name in _DESCRIBED if (value := getattr(column, name))}
                    for column in columns
                ],
                "texts": [
                    [None if text == MISSING else text for _, text, *_ in own] for own in cells
                ],
                "numbers": {
                    at: [float(mark) if mark else None for _, _, mark, _ in cells[int(at)]]
                    for at, column in numbers.items()
                    if column.sort_key
                },
                "values": {
                    at: values
                    for at, column in numbers.items()
                    if not column.sort_key and (values := _rounded_values(column, cells[int(at)]))
                },
            }
        )

    def _cells(self) -> "list[list[Cell]]":
        return [list(_cells_of(self.frame.iloc[:MOST_ROWS], column)) for column in self.columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A paragraph; `quiet` for a remark that something is missing. It may begin with a link."""

    text: str
    quiet: bool = False
    link: str = ""
    url: str = ""
    kind: ClassVar = "prose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Lines for a terminal."""

    lines: Sequence[str]
    kind: ClassVar = "commands"


Block = Table | Picture | Prose | Commands


def paragraphs(sentences: Iterable[str]) -> list[Prose]:
    """A paragraph for each sentence."""
    return [Prose(text=sentence) for sentence in sentences]


def absence(text: str) -> Prose:
    """A remark that something is missing."""
    return Prose(text=text, quiet=True)


# kind, text, mark (the number to sort by, or the class of a verdict), address
Cell = tuple[str, str, str, str]


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


def _cells_of(frame: pd.DataFrame, column: Column) -> Iterator[Cell]:
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
