"""A CSV that a person brings: what is read, and what is refused with its line."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from roofcal.core.csv_files import CsvError, read_rows, read_shapes

AXES = ("m", "n", "k")


def read(tmp_path: Path, text: str) -> list[tuple[int, dict[str, int]]]:
    path = tmp_path / "s.csv"
    path.write_text(text)
    return read_shapes(path, AXES)


def test_columns_may_come_in_any_order_beside_others(tmp_path: Path) -> None:
    assert read(tmp_path, "k, name, m, n\n3, x, 1, 2\n") == [(2, {"m": 1, "n": 2, "k": 3})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n\n1,2\n", r"s\.csv:1: column k is missing; the header has m, n"),
        ("", "column m, n, k is missing; the header has nothing"),
        ("m,n,k\n", "has no rows below its header"),
        ("m,n,k\n0,1,1\n", r":2: m='0' is not a whole number from 1 to 2\^30"),
        ("m,n,k\n1,-1,2.5\n", r":2: n='-1'.*\n.*:2: k='2\.5'"),
        ("m,n,k\n1,1\n", r":2: has 2 values, too few for its header"),
        ("m,n,k\n1,1,1073741825\n", r":2: k='1073741825' is not a whole number"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CsvError, match=message):
        read(tmp_path, text)


def test_mistakes_are_reported_together_and_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CsvError) as caught:
        read(tmp_path, "m,n,k\n0,0,1\n1,1,1\n1,1,0\n")
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(CsvError, match=r"none\.csv: cannot be read"):
        read_shapes(tmp_path / "none.csv", AXES)


def test_rows_are_refused_by_the_checks_of_their_reader(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("recipe,m\nbf16,1\nbf61,2\n")

    def row_errors(cells: Mapping[str, str]) -> list[str]:
        return [] if cells["recipe"] == "bf16" else [f"recipe {cells['recipe']}"]

    with pytest.raises(CsvError, match=r"s\.csv:3: recipe bf61$"):
        read_rows(path, ("recipe",), row_errors)
    path.write_text("recipe,m\nbf16,1\n")
    assert read_rows(path, ("recipe",), row_errors) == [(2, {"recipe": "bf16"})]
