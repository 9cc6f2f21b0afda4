"""Tables of the page: units for people, SI values for sorting, everything escaped."""

import json
import re

import numpy as np
import pandas as pd

from roofcal.report.kit.blocks import MOST_ROWS, PAGED_FROM, Column, Table
from roofcal.report.kit.columns import count, fraction, seconds
from tests.roofcal.report.pages import unpack

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
