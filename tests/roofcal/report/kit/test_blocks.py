"""Numbers, tables and captions of the page: for people to read, SI values to sort by."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roofcal.core.units import significant
from roofcal.report.data.op_pages import caption_files, caption_words
from roofcal.report.kit import numbers
from roofcal.report.kit.blocks import MOST_ROWS, PAGED_FROM, Column, Table
from roofcal.report.kit.columns import count, fraction, seconds
from roofcal.report.kit.templates import CaptionError, read_caption
from tests.roofcal.report.pages import unpack

SPACE = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.00123456, 2, "0.0012"),
        (-5.5, 2, "\N{MINUS SIGN}5.5"),
        (math.nan, 3, "\N{EN DASH}"),
        (math.inf, 3, "\N{EN DASH}"),
        (999.6, 3, "1,000"),
        (9.9996, 4, "10.00"),
    ],
)
def test_significant_digits(value: float, digits: int, text: str) -> None:
    assert significant(value, digits) == text


SCALED = {  # unit -> value -> text
    "B/s": {4.19e12: "4.19 TB/s", 1.98e9: "1.98 GB/s"},
    "flop/s": {1.4e15: "1,400 TFLOP/s"},
    "flop/s per compute unit": {1.2e13: "12.0 TFLOP/s per compute unit"},
    "s": {
        3.2e-6: "3.20 \N{MICRO SIGN}s",
        9e-7: "900 ns",
        3e-13: "300 fs",
        2.9e-23: "29.0 ys",
        0.0: "0 s",
    },
    "s/B": {6.3e-10: "630 ps/B"},
    "Hz": {1.41e9: "1,410 MHz"},
    "W": {690.0: "690 W", 0.5: "0.500 W"},
    "1": {2.5: "2.50"},
}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(value, unit, text) for unit, texts in SCALED.items() for value, text in texts.items()],
)
def test_units_get_the_prefix_that_people_use(value: float, unit: str, text: str) -> None:
    assert numbers.scaled(value, unit).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.26, "1.3 s"), (42.4, "42 s"), (95, "1 min 35 s"), (7325, "2 h 2 min"), (59.7, "1 min 0 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert numbers.duration(seconds).replace(SPACE, " ") == text


SECONDS = Column(key="t", label="time", kind="number", show=lambda v: f"{v * 1e6:.1f}", unit="us")
NAME = Column(key="name", label="name")


def body_of(frame: pd.DataFrame, *columns: Column) -> str:
    return Table("x", "c", frame, columns).body


def test_a_number_keeps_its_si_value_for_sorting_and_a_missing_one_is_a_dash() -> None:
    assert body_of(pd.DataFrame({"t": [1.25e-5]}), SECONDS) == (
        '<tr><td class=n data-v="1.25e-05">12.5</td></tr>'
    )
    column = Column(key="shown", label="x", kind="number", sort_key="si")
    body = body_of(pd.DataFrame({"shown": ["4.0 TB/s"], "si": [4e12]}), column)
    assert body == '<tr><td class=n data-v="4e+12">4.0 TB/s</td></tr>'
    frame = pd.DataFrame({"t": [np.nan, 1e-6], "name": [None, "a"]})
    assert body_of(frame, SECONDS, NAME).startswith(
        "<tr><td class=n>\u2013</td><td>\u2013</td></tr>"
    )


def test_text_is_escaped_wherever_it_comes_from() -> None:
    frame = pd.DataFrame({"name": ["<script>alert('x')</script>"]})
    for kind in ("text", "code", "wide"):
        body = body_of(frame, Column(key="name", label="name", kind=kind))
        assert "<script" not in body
        assert "&lt;script&gt;" in body


def test_columns_without_any_value_are_left_out() -> None:
    table = Table("x", "c", pd.DataFrame({"t": [np.nan], "name": ["a"]}), (SECONDS, NAME))
    assert list(table.columns) == [NAME]
    empty = Table("x", "c", pd.DataFrame({"t": [], "name": []}), (SECONDS, NAME))
    assert (len(empty.columns), empty.body, empty.total) == (2, "", 0)


def test_long_tables_are_paged_and_very_long_ones_cut_with_their_total_kept() -> None:
    def of(rows: int) -> tuple[bool, int, int]:
        table = Table("x", "c", pd.DataFrame({"name": ["a"] * rows}), (NAME,))
        texts = json.loads(unpack(table.packed))["texts"][0]
        assert len(re.findall("<tr>", table.body)) == len(texts) == table.shown
        return table.paged, table.shown, table.total

    assert of(PAGED_FROM - 1) == (False, PAGED_FROM - 1, PAGED_FROM - 1)
    assert of(PAGED_FROM) == (True, PAGED_FROM, PAGED_FROM)
    assert of(MOST_ROWS + 5) == (True, MOST_ROWS, MOST_ROWS + 5)


def test_a_long_table_is_packed_with_what_is_shown_and_what_it_is_sorted_by() -> None:
    frame = pd.DataFrame({"t": [np.nan, *[1e-6] * 30], "shown": ["4 TB/s"] * 31, "si": [4e12] * 31})
    columns = (SECONDS, Column(key="shown", label="x", kind="number", sort_key="si"))
    held = json.loads(unpack(Table("x", "c", frame, columns).packed))
    assert held["columns"][0] == {"key": "t", "label": "time", "kind": "number", "unit": "us"}
    assert held["texts"][0] == [None, *["1.0"] * 30]
    assert held["numbers"] == {"1": [4e12] * 31}


def test_a_column_whose_texts_are_rounded_keeps_its_values_in_the_shown_unit() -> None:
    frame = pd.DataFrame({"s": [1.23456e-6] * 31, "n": [4096] * 31, "p": [0.01234] * 31})
    columns = (seconds("s", "time"), count("n", "n"), fraction("p", "error"))
    held = json.loads(unpack(Table("x", "c", frame, columns).packed))
    assert [own[0] for own in held["texts"]] == ["1.235", "4,096", "1.2\u00a0%"]
    assert {place: own[0] for place, own in held["values"].items()} == {"0": 1.23456, "2": 1.234}


CAPTIONS = caption_files()
WORDS = caption_words("gemm")


@pytest.mark.parametrize("key", CAPTIONS)
def test_a_caption_says_what_is_shown_beside_the_code_that_draws_it(key: str) -> None:
    code = "".join(path.read_text() for path in CAPTIONS[key].parent.glob("*.py"))
    assert f'"{key}"' in code
    title, paragraphs = read_caption(CAPTIONS[key], WORDS)
    assert 5 < len(title) < 80
    assert len(paragraphs) >= 2
    assert sum(map(len, paragraphs)) > 150


def test_code_is_marked_and_the_rest_escaped(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# A title\n\nfirst\nline `a<b` & more\n\nsecond\n")
    assert read_caption(tmp_path / "x.md", {}) == (
        "A title",
        ("first line <code>a&lt;b</code> &amp; more", "second"),
    )


def test_a_missing_or_headless_caption_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptionError, match=r"nothing\.md is missing"):
        read_caption(tmp_path / "nothing.md", {})
    (tmp_path / "x.md").write_text("no title\n\ntext\n")
    with pytest.raises(CaptionError, match=r"x\.md: write '# title'"):
        read_caption(tmp_path / "x.md", {})


def test_a_caption_says_of_an_op_what_its_page_says(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# {{ title }} <here>\n\nTimes. {{ time_includes }}\n")
    title, (paragraph,) = read_caption(tmp_path / "x.md", caption_words("linear"))
    assert title == "Linears <here>"
    assert "include the casts" in paragraph
    _, (plain,) = read_caption(tmp_path / "x.md", caption_words("an op without a page"))
    assert plain == "Times."


@pytest.mark.parametrize("key", ["speedup_cubes", "speedup_by_shape", "speedup_by_tokens"])
@pytest.mark.parametrize("op", ["linear", "norm_linear_sigmoid"])
def test_captions_of_linears_do_not_exclude_the_cast(key: str, op: str) -> None:
    """The captions said "Times exclude the cast" for every op, also for those that include it."""
    _, paragraphs = read_caption(CAPTIONS[key], caption_words(op))
    text = " ".join(paragraphs)
    assert "exclude" not in text
    assert re.search(r"include .*\bcasts of x, w and the gradient", text)
    _, others = read_caption(CAPTIONS[key], WORDS)
    assert "Times exclude the casts" in " ".join(others)
