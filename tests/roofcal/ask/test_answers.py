"""The one printer: lines, tables and colours at any width."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from roofcal.ask.answers import Answer, Column, Part, Table, Verdict, span

ROWS = [
    {"name": "first", "size": 12345678, "share": 0.5, "note": "one two three four five six"},
    {"name": "second", "size": 1, "share": None, "note": ""},
]
COLUMNS = (
    Column("name", "{name}", left=True),
    Column("a long head", "{size}", group="both"),
    Column("share", "{share:.0%}", group="both"),
    Column("never", lambda _: ""),
    Column("", "{note}", left=True, note=True),
)
WIDE = """\
               both
name    a long head  share
first      12345678    50%  one two three four five six
second            1"""
NARROW = """\
            both
          a long
name        head  share
first   12345678    50%  one two three four
                         five six
second         1"""
BLOCKS = """\
            both
          a long
name        head  share
first   12345678    50%
second         1

name
first   one two three four five
        six"""


@dataclass(frozen=True)
class Shown(Answer):
    answer: list[Any]

    def parts(self) -> Iterator[Part]:
        yield from self.answer


@pytest.mark.parametrize(("width", "text"), [(60, WIDE), (46, NARROW), (34, BLOCKS)])
def test_a_table_breaks_heads_then_notes_then_goes_on_below(width: int, text: str) -> None:
    said = Shown([Table(ROWS, COLUMNS)]).text(width)
    assert said == text
    assert max(map(len, said.splitlines())) <= width


def test_numbers_that_name_rows_are_repeated_too() -> None:
    cut = Column("size", "{size}", names=True)
    said = Shown([Table(ROWS, (cut, Column("share", "{share:.0%}"), COLUMNS[4]))]).text(20)
    assert [line.split()[0] for line in said.splitlines() if "12345678" in line] == ["12345678"] * 2


def test_lines_go_on_below_deeper_and_long_words_stay_whole() -> None:
    said = Shown(["  one two three four", "", ["x" * 20 + " y"]]).text(12)
    assert said.splitlines() == ["  one two", "    three", "    four", "", "x" * 20, "  y"]


def test_colours_are_of_verdicts_and_rows_and_only_where_asked_for() -> None:
    table = Table(ROWS, COLUMNS[:1], lambda row: "best" if row["size"] > 1 else "dim")
    answer = Shown([Verdict("use it"), "plain", table])
    green, dim, end = "\x1b[32m", "\x1b[2m", "\x1b[0m"
    assert answer.text(colours=True).splitlines() == [
        f"{green}use it{end}", "plain", "name", f"{green}first{end}", f"{dim}second{end}",
    ]  # fmt: skip
    assert answer.text().splitlines() == ["use it", "plain", "name", "first", "second"]


def test_an_interval_has_its_unit_once() -> None:
    assert span(8.395e-6, 8.493e-6) == "8.395 to 8.493 us"
    assert span(9e-7, 1.1e-6) == "900 ns to 1.1 us"
    assert span(None, 1.0) == ""
