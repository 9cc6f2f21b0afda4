"""The tidy table as CSV, JSON, Markdown and LaTeX, and rows chosen from it."""

import csv
import io
import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from roofcal.report.data.provenance import ReportError
from roofcal.report.data.table_files import as_json, as_latex, as_markdown, table_text, tidy_table
from tests.roofcal.report.synthetic import product, true_seconds


def test_csv_keeps_full_precision_and_json_has_null_where_csv_has_nothing(folder: Path) -> None:
    table = tidy_table(folder, folder, "gemm")
    rows = list(csv.DictReader(io.StringIO(table_text(table, "csv"))))
    point = product(8192, 8192, 8192, "fp8_axiswise")
    (row,) = [row for row in rows if row["point_id"] == point.point_id]
    assert float(row["median_s"]) == true_seconds(point)
    (refused, _) = [row for row in rows if row["status"] == "unsupported"]
    assert (refused["reason"], refused["median_s"]) == ("n=555 is no multiple of 16", "")

    objects = json.loads(table_text(table, "json"))
    assert {row["median_s"] for row in objects if row["status"] == "unsupported"} == {None}
    assert {type(row["m"]) for row in objects} == {int}
    assert json.loads(as_json(pd.DataFrame({"a": []}))) == []


def test_markdown_shows_the_columns_that_say_something(bare: Path) -> None:
    head, line, *rows = table_text(tidy_table(bare, None, "gemm"), "markdown").splitlines()
    assert "median_s" in head
    assert "predicted_s" not in head
    assert line.count("|") == head.count("|")
    assert set(line) <= set("|:-")
    assert len(rows) == 2


def test_a_markdown_table_escapes_bars_and_has_five_digits() -> None:
    text = as_markdown(pd.DataFrame({"reason": ["a|b", None], "x": [1.5, float("nan")]}))
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()[2:]]
    assert [[cell.strip() for cell in row] for row in rows] == [["a\\|b", "1.5"], ["", ""]]
    text = as_markdown(pd.DataFrame({"seconds": [1.23456789e-6, 2.0], "count": [16384, 7]}))
    assert text.splitlines()[2].split() == ["|", "1.2346e-06", "|", "16384", "|"]


def test_an_op_or_a_format_that_is_not_there_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(ReportError, match="no plan of op 'probe_math'; it has: probe_launch, "):
        tidy_table(folder, None, "probe_math")
    with pytest.raises(ReportError, match="unknown format 'xml'; known: csv, json, markdown"):
        table_text(tidy_table(folder, None, "gemm"), "xml")


FRAME = pd.DataFrame(
    {"op": ["gemm", "gemm", "cast"], "m": [1, 64, 4096], "median_s": [1e-6, 2e-6, math.nan]}
)


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        (["m = 64"], [64]),
        (["m>=64"], [64, 4096]),
        (["m != 64", "op=gemm"], [1]),
        (["op != gemm"], [4096]),
        (["median_s < 1.5e-6"], [1]),
        ([], [1, 64, 4096]),
    ],
)
def test_rows_are_chosen_by_conditions(conditions: list[str], rows: list[int]) -> None:
    chosen = json.loads(table_text(FRAME, "json", conditions, ["m"]))
    assert [row["m"] for row in chosen] == rows


@pytest.mark.parametrize(
    ("conditions", "columns", "says"),
    [
        (["m = 5"], [], "no row fits m = 5; columns are op, m, median_s"),
        (["median = 5"], [], "there is no column 'median'; did you mean 'median_s'"),
        ([], ["zz"], "there is no column 'zz'; columns are op, m, median_s"),
        (["m"], [], "'m' is no condition"),
        (["m = many"], [], "column m holds numbers, and 'many' is none"),
    ],
)
def test_a_wrong_condition_is_answered_with_what_there_is(
    conditions: list[str], columns: list[str], says: str
) -> None:
    with pytest.raises(ReportError, match=re.escape(says)):
        table_text(FRAME, "csv", conditions, columns)


def test_latex_escapes_what_it_would_take_for_commands() -> None:
    text = as_latex(pd.DataFrame({"a_b": ["50 %", "x_1 & y"], "n": [1.0, math.nan]}))
    assert r"a\_b & n" in text
    assert r"50 \% & 1 \\" in text
    assert r"x\_1 \& y &  \\" in text
