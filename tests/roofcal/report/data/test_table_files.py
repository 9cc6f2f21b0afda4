"""The tidy table as CSV, JSON and Markdown."""

import csv
import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from roofcal.report.data.loading import ReportError
from roofcal.report.data.table_files import as_json, as_markdown, tidy_table_text, write_csv
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import product, true_seconds


def test_csv_keeps_full_precision_and_every_point(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(tidy_table_text(folder, None, "gemm", DEVICES))))

    point = product(8192, 8192, 8192, "fp8_axiswise")
    (row,) = [row for row in rows if row["point_id"] == point.point_id]
    assert float(row["median_s"]) == true_seconds(point)
    (refused, _) = [row for row in rows if row["status"] == "unsupported"]
    assert (refused["reason"], refused["median_s"]) == ("n=555 is no multiple of 16", "")


def test_json_has_null_where_csv_has_nothing(folder: Path) -> None:
    rows = json.loads(tidy_table_text(folder, folder, "gemm", DEVICES, "json"))

    refused = [row for row in rows if row["status"] == "unsupported"]
    assert {row["median_s"] for row in refused} == {None}
    assert {type(row["m"]) for row in rows} == {int}


def test_markdown_shows_the_columns_that_say_something(bare: Path) -> None:
    head, line, *rows = tidy_table_text(bare, None, "gemm", DEVICES, "markdown").splitlines()

    assert "median_s" in head
    assert "predicted_s" not in head
    assert line.count("|") == head.count("|")
    assert set(line) <= set("|:-")
    assert len(rows) == 2


def test_a_bar_in_a_reason_does_not_break_the_markdown_table() -> None:
    text = as_markdown(pd.DataFrame({"reason": ["a|b", None], "x": [1.5, float("nan")]}))
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()[2:]]
    assert [[cell.strip() for cell in row] for row in rows] == [["a\\|b", "1.5"], ["", ""]]


def test_numbers_of_a_markdown_table_have_five_digits() -> None:
    text = as_markdown(pd.DataFrame({"seconds": [1.23456789e-6, 2.0], "count": [16384, 7]}))
    assert text.splitlines()[2].split() == ["|", "1.2346e-06", "|", "16384", "|"]


def test_an_empty_frame_is_an_empty_list() -> None:
    assert json.loads(as_json(pd.DataFrame({"a": []}))) == []


def test_an_op_that_was_not_planned_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(ReportError, match="no plan of op 'probe_math'; it has: probe_launch, "):
        tidy_table_text(folder, None, "probe_math", DEVICES)


def test_an_unknown_format_is_refused(folder: Path) -> None:
    with pytest.raises(ReportError, match="unknown format 'xml'; known: csv, json, markdown"):
        tidy_table_text(folder, None, "gemm", DEVICES, "xml")


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "a.csv"
    write_csv(path, pd.DataFrame({"a": [1, 2]}))
    assert path.read_text() == "a\n1\n2\n"
    assert [file.name for file in path.parent.iterdir()] == ["a.csv"]
