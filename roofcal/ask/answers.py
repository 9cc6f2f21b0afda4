"""The one printer: an answer is a record for programs, a frame, and a few sentences for people.

Sentences, and cells of tables, are templates over the names of a record, as those of str.format:

    "{low_s:time} to {high_s:time}"      8.359 us to 8.449 us
    "{needed_bytes:GB.1f} GB"            141.2 GB
    "{total_s:ms three} ms"              0.147 ms, three digits

A template of which a value is None is the empty text, and a column without any text is left out.

Text is as wide as the terminal, at most WIDTH. Sentences go on below. A table that is too wide
breaks its heads, then its notes, then goes on below. The columns on its left name the rows, and are
repeated there.
"""

import csv
import string
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from io import StringIO
from itertools import groupby, takewhile, zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from roofcal.core.units import GB, TERA, format_seconds

if TYPE_CHECKING:
    import pandas as pd

Record = Mapping[str, Any]
ANY_PROVIDER: Final = "any"  # of models of time that know no providers
WEIGHTS_WORDS: Final = {"cached": "cast beforehand", "cast": "cast each time"}
WIDTH: Final = 120  # most columns of text, and those of text that no terminal shows
_SCALES: Final = {"GB": GB, "T": TERA, "ms": 1e-3, "u": 1e-6}
# Digits -> below which numbers there is one more behind the point.
_BOUNDS: Final = {" three": (100, 10, 1), " four": (1000, 100, 10, 1)}
_NARROWEST_NOTE: Final = 20  # columns in which a note is still read
Style = Literal["", "best", "dim"]  # green for what is best, dim for what is less certain
_ANSI: Final[Mapping[Style, str]] = {"best": "\x1b[32m", "dim": "\x1b[2m"}


class Verdict(str):
    """The sentence that decides; a terminal shows it in green."""

    __slots__ = ()


class Answer:
    """The answer to a question; `print` shows it as the command does."""

    indent: ClassVar[int | None] = None  # of its JSON; None: all in one line
    if TYPE_CHECKING:  # a property or an attribute

        @property
        def answer(self) -> Any:
            """Everything as JSON values in SI units: what --json prints."""

    def parts(self) -> "Iterable[Part]":
        """Sentences, tables, and lines that belong together, in the order in which people read."""
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the frame."""
        return self.answer if isinstance(self.answer, list) else [dict(self.answer)]

    def frame(self) -> "pd.DataFrame":
        """The answer as a pandas frame."""
        import pandas as pd  # noqa: PLC0415 (0.25 s that only frames need)

        return pd.DataFrame(self.rows())

    def text(self, width: int = WIDTH, *, colours: bool = False) -> str:
        """All parts in lines of at most `width` columns, but for words that are longer.

        colours: as escape sequences of a terminal.
        """
        lines: list[tuple[Style, str]] = []
        for part in self.parts():
            if isinstance(part, Table):
                lines += part.lines(width)
                continue
            style: Style = "best" if isinstance(part, Verdict) else ""
            texts = [part] if isinstance(part, str) else part
            lines += [(style, line) for text in texts for line in wrapped(text, width)]
        stripped = ((style if colours else "", line.rstrip()) for style, line in lines)
        return "\n".join(
            f"{_ANSI[style]}{line}\x1b[0m" if style and line else line for style, line in stripped
        )

    def __str__(self) -> str:
        return self.text()


class ManyAnswers(Answer):
    """A CSV: one row per question, with the columns that are named."""

    answer: list[dict[str, Any]]

    def __init__(self, names: Sequence[str], rows: Iterable[Record]) -> None:
        self._names, self.answer = names, []
        for row in rows:
            cells = {name: row.get(name) for name in names}
            lists = {n: "; ".join(cell) for n, cell in cells.items() if isinstance(cell, list)}
            self.answer.append(cells | lists)

    def text(self, width: int = WIDTH, *, colours: bool = False) -> str:  # noqa: ARG002
        """The header and all rows, for programs."""
        return csv_text(self._names, self.answer).removesuffix("\n")


class Column(NamedTuple):
    """A column of a table for people: its head, and the cell of a row.

    cell   a template, or a function where that is not enough
    group  what the columns beside it are of, too: it stands above the first of them
    note   its texts may be broken over several lines
    names  it names the row, as a batch does, although it stands on the right of its column
    """

    head: str
    cell: str | Callable[[Record], str]
    left: bool = False
    group: str = ""
    note: bool = False
    names: bool = False

    @property
    def names_rows(self) -> bool:
        """Whether it is repeated where a table goes on below."""
        return self.names or (self.left and not self.note)


@dataclass(frozen=True)
class Table:
    """Rows in aligned columns; columns without any text are left out. style: of the row's line.

    Where the table goes on below, so are rows without any text but their names.
    """

    rows: Sequence[Record]
    columns: Sequence[Column]
    style: Callable[[Record], Style] = lambda _: ""

    def lines(self, width: int) -> list[tuple[Style, str]]:
        """Its lines with their styles, at most so wide where its words allow it."""
        columns = [_Texts(column, self.rows) for column in self.columns]
        columns = [one for one in columns if any(text for [text] in one.texts[1:])]
        for _, group in groupby(columns, key=lambda one: one.column.group):
            first = next(group)
            first.above = first.column.group
        if _width_of(columns) > width:
            for column in columns:
                column.break_head()
        styles: list[Style] = ["", *map(self.style, self.rows)]
        lines: list[tuple[Style, str]] = []
        blocks = _blocks(columns, width)
        for block in blocks:
            for note in (column for column in block if column.column.note):
                note.break_cells(width - _width_of([one for one in block if one is not note]) - 2)
            lines += [("", "")] * bool(lines)
            if any(column.above for column in block):
                lines.append(("", "  ".join(one.aligned(one.above) for one in block)))
            heads, *rows = zip(*(column.texts for column in block), strict=True)
            height = max(map(len, heads))
            heads = tuple([""] * (height - len(head)) + head for head in heads)
            repeated = [block is not blocks[0] and one in blocks[0] for one in block]
            for style, cells in zip(styles, (heads, *rows), strict=True):
                own = [texts for texts, again in zip(cells, repeated, strict=True) if not again]
                if cells is not heads and not any(map(any, own)):
                    continue
                for texts in zip_longest(*cells, fillvalue=""):
                    line = (one.aligned(text) for one, text in zip(block, texts, strict=True))
                    lines.append((style, "  ".join(line)))
        return lines


class _Texts:
    """A column as it is laid out.

    texts  the lines of its head, then those of its cell in each row
    above  the group that it is the first column of
    """

    def __init__(self, column: Column, rows: Sequence[Record]) -> None:
        cell = column.cell
        self.column, self.above = column, ""
        cells = (filled(cell, row) if isinstance(cell, str) else cell(row) for row in rows)
        self.texts = [[column.head], *([text] for text in cells)]

    @property
    def width(self) -> int:
        return max(len(line) for lines in (*self.texts, [self.above]) for line in lines)

    def aligned(self, text: str) -> str:
        return text.ljust(self.width) if self.column.left else text.rjust(self.width)

    def break_head(self) -> None:
        """Break the head where its words are narrower than it and wide enough for the cells."""
        widest = max(map(len, [*self.column.head.split(), *(text for [text] in self.texts[1:])]))
        self.texts[0] = textwrap.wrap(self.column.head, widest) or [""]

    def break_cells(self, width: int) -> None:
        """Break the cells of a note."""
        room = max(width, _NARROWEST_NOTE)
        self.texts[1:] = [textwrap.wrap(text, room) or [""] for [text] in self.texts[1:]]


def _width_of(columns: Sequence[_Texts]) -> int:
    return sum(column.width + 2 for column in columns) - 2


def _blocks(columns: Sequence[_Texts], width: int) -> list[list[_Texts]]:
    """The columns, in blocks that are narrow enough; each begins with the names of the rows."""
    names = list(takewhile(lambda one: one.column.names_rows, columns))
    names = names or list(columns[:1])
    blocks = [[*names]] if names else []
    for _, members in groupby(columns[len(names) :], key=lambda one: one.column.group or id(one)):
        own = list(members)
        needed = _width_of([*blocks[-1], *own])
        if own[-1].column.note:
            needed -= max(0, own[-1].width - _NARROWEST_NOTE)
        if needed > width and len(blocks[-1]) > len(names):
            blocks.append([*names])
        blocks[-1] += own
    return blocks


def wrapped(line: str, width: int) -> list[str]:
    """A line, or several of at most `width` columns; names are not broken, so people copy them."""
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


Part = str | list[str] | Table


def span(low: float | None, high: float | None) -> str:
    """Both ends of an interval of time, with their unit once where it is one."""
    if low is None or high is None:
        return ""
    first, last = format_seconds(low).split(), format_seconds(high).split()
    return " ".join((*first[: 1 if first[1] == last[1] else 2], "to", *last))


def record_of(value: Any, keys: Mapping[str, str], without: Collection[str] = ()) -> dict[str, Any]:
    """The attributes of a dataclass as JSON values; keys: attribute -> its key where it differs."""
    record = {}
    for name in (attribute.name for attribute in fields(value) if attribute.name not in without):
        own = getattr(value, name)
        record[keys.get(name, name)] = list(own) if isinstance(own, tuple) else own
    return record


class _MissingError(Exception):
    """A value of a template is None."""


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            raise _MissingError
        if format_spec == "time":
            return format_seconds(value)
        for unit, scale in _SCALES.items():
            if format_spec.startswith(unit):
                value, format_spec = value / scale, format_spec.removeprefix(unit)
        if format_spec in _BOUNDS:  # of three: 1112, 80.4, 2.15, 0.147, 0.001
            digits = sum(value < least for least in _BOUNDS[format_spec])
            format_spec = f".{digits}f"
        return format(value, format_spec)


def filled(template: str, record: Record) -> str:
    """The template with the values of a record; "" where one of them is None."""
    try:
        return _Formatter().vformat(template, (), record)
    except _MissingError:
        return ""


def csv_text(names: Sequence[str], rows: Iterable[Record]) -> str:
    """A header and a line per row; numbers have six digits, and what a row lacks is empty."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    for cells in ([row.get(name) for name in names] for row in rows):
        lines.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells])
    return text.getvalue()


def origin_words(record: Record) -> str:
    """Model, device and environment of an answer, or which description of the device it read."""
    described = "its wave description" if record["model"] == "wave" else "its datasheet"
    provider = ""
    if "provider" in record:
        by = "any provider" if record["provider"] == ANY_PROVIDER else record["provider"]
        provider = f"{record['recipe']} by {by}, "
    environment = record["environment"] or described
    return f"model {record['model']}, {provider}{record['device']}, {environment}"
