"""A user's CSV of shapes: what is read, and what is refused with its line."""

from pathlib import Path

import pytest

from roofcal.study.shapes_csv import ShapesError, read_shapes

AXES = ("m", "n", "k")


def read(tmp_path: Path, text: str) -> list[tuple[int, dict[str, int]]]:
    path = tmp_path / "s.csv"
    path.write_text(text)
    return list(read_shapes(path, AXES))


def test_columns_may_come_in_any_order_beside_others(tmp_path: Path) -> None:
    assert read(tmp_path, "k, name, m, n\n3, x, 1, 2\n") == [(2, {"m": 1, "n": 2, "k": 3})]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("m,n\n1,2\n", r"s\.csv:1: column k is missing; the header has m, n"),
        ("", "column m, n, k is missing; the header has nothing"),
        ("m,n,k\n", "has no rows below its header"),
        ("m,n,k\n0,1,1\n", r":2: m='0' is not a whole number above 0"),
        ("m,n,k\n1,-1,1\n", r":2: n='-1'"),
        ("m,n,k\n1,1,2.5\n", r":2: k='2\.5'"),
        ("m,n,k\n1,1,x\n", r":2: k='x'"),
        ("m,n,k\n1,1\n", r":2: k=None"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ShapesError, match=says):
        read(tmp_path, text)


def test_mistakes_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(ShapesError) as caught:
        read(tmp_path, "m,n,k\n0,0,1\n1,1,1\n1,1,0\n")
    assert len(str(caught.value).splitlines()) == 3


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ShapesError, match=r"none\.csv: cannot be read"):
        list(read_shapes(tmp_path / "none.csv", AXES))
