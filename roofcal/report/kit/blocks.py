"""What a page is made of: prose, tables and figures in sections. The templates lay them out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, Literal

import pandas as pd

from roofcal.report.kit.numbers import MISSING, is_missing

PAGED_FROM: Final = 31  # rows: longer tables get a filter and pages
MOST_ROWS: Final = 3000  # in the page; the CSV beside it has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: the frame's column `key` under `label`.

    show   value -> text, never called for a missing value
    kind   number: right-aligned, sorted by value; text; code; wide: text that may break;
           verdict: a word with a sign
    unit   stands behind the label
    about  what the column means, where the label does not say it
    by     column of the frame that a number is sorted by, where `key` holds its text
    """

    key: str
    label: str
    show: Callable[[Any], str] = str
    kind: Literal["number", "text", "code", "wide", "verdict"] = "text"
    unit: str = ""
    about: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table ready for the page.

    body   its rows in HTML, escaped
    total  rows, those that were left out as well
    """

    id: str
    caption: str
    columns: Sequence[Column]
    body: str
    shown: int
    total: int
    source: str = ""
    kind: Literal["table"] = "table"

    @property
    def paged(self) -> bool:
        """Whether the page offers a filter and pages."""
        return self.shown >= PAGED_FROM


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBlock:
    """A figure with the table it was drawn from and the command that prints that table.

    key: of its caption, reports/captions/<key>.md;
    svg and the paragraphs of `caption` are HTML, escaped.
    """

    id: str
    key: str
    title: str
    op: str
    svg: str
    caption: Sequence[str]
    facts: str
    source: str
    command: str
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A paragraph, or a remark that something is not there; it may begin with a link."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a device's chapter."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One of the six questions: its answer in a sentence, and the sections that show why."""

    id: str
    title: str
    answer: str
    sections: Sequence[Section] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A sentence on whether something is as it should be: ok, look (at it), or note."""

    state: Literal["ok", "look", "note"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One device in one environment."""

    id: str
    name: str
    short: str
    origin: str
    facts: Sequence[tuple[str, str]]
    summary: Sequence[str]
    tables: Sequence[Table]
    checks: Sequence[Check]
    questions: Sequence[Question] = field(default_factory=tuple)

    @property
    def sections(self) -> list[Section]:
        """All sections of the chapter, in order."""
        return [section for question in self.questions for section in question.sections]

    @property
    def figures(self) -> list[FigureBlock]:
        """All figures of the chapter, in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return [block for block in blocks if isinstance(block, FigureBlock)]


def make_table(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    *,
    id: str,
    caption: str,
    source: str = "",
) -> Table:
    """A table of those `columns` that have a value in the frame, in the frame's order of rows."""
    present = [c for c in columns if c.key in frame.columns and frame[c.key].notna().any()]
    used = present or [c for c in columns if c.key in frame.columns]
    shown = frame.iloc[:MOST_ROWS]
    cells = [_cells(shown, column) for column in used]
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    return Table(
        id=id,
        caption=caption,
        columns=used,
        body=rows,
        shown=len(shown),
        total=len(frame),
        source=source,
    )


def _cells(frame: pd.DataFrame, column: Column) -> list[str]:
    values = frame[column.key].tolist()
    if column.kind == "number":
        numbers = frame[column.by].tolist() if column.by else values
        return [_number(v, x, column) for v, x in zip(values, numbers, strict=True)]
    if column.kind == "verdict":
        return [f'<td class="v {_VERDICTS[v]}">{escape(column.show(v))}</td>' for v in values]
    tag = {"code": "<td class=c>", "wide": "<td class=w>"}.get(column.kind, "<td>")
    return [f"{tag}{MISSING if is_missing(v) else escape(column.show(v))}</td>" for v in values]


# class by word: the style sheet gives each a sign and a colour beside the word
_VERDICTS: Final = {"holds": "yes", "does not hold": "no", "cannot be tested": "none"}


def _number(value: Any, number: float, column: Column) -> str:
    if is_missing(value):
        return f"<td class=n>{MISSING}</td>"
    return f'<td class=n data-v="{number:.6g}">{escape(column.show(value))}</td>'
