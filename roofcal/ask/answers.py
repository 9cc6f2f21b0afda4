"""The one printer: an answer is a record for programs, a frame, and a few sentences for people.

Sentences, and cells of tables, are templates over the names of a record, as those of str.format:

    "{low_s:time} to {high_s:time}"      8.359 us to 8.449 us
    "{needed_bytes:GB.1f} GB"            141.2 GB
    "{total_s:ms three} ms"              0.147 ms, three digits

A template of which a value is None is the empty text, and a column without any text is left out.
"""

import csv
import string
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from io import StringIO
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from roofcal.core.units import GB, TERA, format_seconds

if TYPE_CHECKING:
    import pandas as pd

Record = Mapping[str, Any]
WEIGHTS_WORDS: Final = {"cached": "cast beforehand", "cast": "cast each time"}
_SCALES: Final = {"GB": GB, "T": TERA, "ms": 1e-3, "u": 1e-6}


class Answer:
    """The answer to a question; `print` shows it as the command does."""

    indent: ClassVar[int | None] = None  # of its JSON; None: all in one line
    if TYPE_CHECKING:  # a property or an attribute

        @property
        def answer(self) -> Any:
            """Everything as JSON values in SI units: what --json prints."""

    def parts(self) -> Iterable[str | list[str]]:
        """Sentences, and the lines of tables, in the order in which a person reads them."""
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the frame."""
        return self.answer if isinstance(self.answer, list) else [dict(self.answer)]

    def frame(self) -> "pd.DataFrame":
        """The answer as a pandas frame."""
        import pandas as pd  # noqa: PLC0415 (0.25 s that only frames need)

        return pd.DataFrame(self.rows())

    def text(self, width: int | None = None) -> str:
        """All parts, a line each; sentences that are longer than `width` go on below."""
        lines: list[str] = []
        for part in self.parts():
            if not isinstance(part, str):
                lines += part
            elif width is None or len(part) <= width:
                lines.append(part)
            else:
                lines += textwrap.wrap(part, width, subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join(line.rstrip() for line in lines)

    def __str__(self) -> str:
        return self.text()


class ManyAnswers(Answer):
    """A CSV: one row per question, with the columns that are named."""

    def __init__(self, names: Sequence[str], rows: Iterable[Record]) -> None:
        self._names, self._rows = names, list(rows)

    @property
    def answer(self) -> list[dict[str, Any]]:
        """A JSON object per row."""
        return [
            {
                name: "; ".join(value) if isinstance(value := row.get(name), list) else value
                for name in self._names
            }
            for row in self._rows
        ]

    def text(self, width: int | None = None) -> str:  # noqa: ARG002 (programs read it, too)
        """The header and all rows."""
        return csv_text(self._names, self._rows).removesuffix("\n")


class Column(NamedTuple):
    """A column of a table for people: its head, and the cell of a row.

    head  of several lines where it belongs to columns beside it, too
    cell  a template, or a function where that is not enough
    """

    head: str
    cell: str | Callable[[Record], str]
    left: bool = False


def table(rows: Sequence[Record], columns: Sequence[Column]) -> list[str]:
    """Rows as lines in aligned columns; those without any text are left out."""
    height = max(column.head.count("\n") for column in columns) + 1
    aligned: list[list[str]] = []
    for head, cell, left in columns:
        heads = head.split("\n")
        own = [filled(cell, row) if isinstance(cell, str) else cell(row) for row in rows]
        if any(own):
            texts = [*[""] * (height - len(heads)), *heads, *own]
            width = max(map(len, texts))
            aligned.append([text.ljust(width) if left else text.rjust(width) for text in texts])
    return ["  ".join(cells) for cells in zip(*aligned, strict=True)]


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
        if format_spec == " three":  # 1112, 80.4, 2.15, 0.147, 0.001
            digits = sum(value < least for least in (100, 10, 1))
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

    def cell(value: Any) -> Any:
        if isinstance(value, list):
            return "; ".join(value)
        return f"{value:.6g}" if isinstance(value, float) else value

    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def origin_words(record: Record) -> str:
    """Model, device and environment of an answer, or which description of the device it read."""
    described = "its wave description" if record["model"] == "wave" else "its datasheet"
    provider = f"provider {record['provider']}, " if "provider" in record else ""
    environment = record["environment"] or described
    return f"model {record['model']}, {provider}{record['device']}, {environment}"
