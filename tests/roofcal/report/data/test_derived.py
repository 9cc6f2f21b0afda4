"""CSV files beside the records: read, empty where there are none, named where they are damaged."""

from pathlib import Path
from typing import Any

import pytest

from roofcal.points.run import load_run
from roofcal.report.data.provenance import ReportError, derived_table, read_derived
from roofcal.report.sections import breakeven, llm
from tests.roofcal.report.synthetic import outdate, whole_run

LABELS = ("recipe",)
NUMBERS = ("error",)


def test_rows_are_read_and_words_like_none_stay_words(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("recipe,error\nnone,0.5\nNA,\n")
    table = read_derived(path, LABELS, NUMBERS)
    assert list(table["recipe"]) == ["none", "NA"]
    assert table["error"].isna().tolist() == [False, True]


def test_no_file_and_a_header_alone_are_empty_with_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for _ in range(2):
        table = read_derived(path, LABELS, NUMBERS)
        assert table.empty
        assert list(table.columns) == ["recipe", "error"]
        path.write_text("recipe,error\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"recipe\nbf16\n", "column error is missing"),
        (b"", "is no CSV file"),
        (b"\xff\xfe\xff", "is no CSV file"),
        (b"recipe,error\nbf16,much\n", "column error holds something else than numbers"),
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(
    tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ReportError, match=rf"x\.csv: {says}.* run `make study` again"):
        read_derived(tmp_path / "x.csv", LABELS, NUMBERS)


HEADERS = {s: ",".join((*s.LABELS, *s.NUMBERS)) + "\n" for s in (breakeven, llm)}


@pytest.mark.parametrize("section", HEADERS)
def test_a_section_has_no_rows_without_a_file_or_with_a_header_alone(
    section: Any, tmp_path: Path
) -> None:
    path = tmp_path / section.FILE
    assert read_derived(path, section.LABELS, section.NUMBERS).empty
    path.write_text(HEADERS[section])
    assert read_derived(path, section.LABELS, section.NUMBERS).empty


@pytest.mark.parametrize(
    ("section", "text", "says"),
    [
        (breakeven, "recipe,pass\n", r"breakeven\.csv: column casts, class, m, n, .* is missing"),
        (breakeven, "", r"breakeven\.csv: is no CSV file"),
        (
            breakeven,
            HEADERS[breakeven] + "fp8,forward,none,slower,x,1,1,1,1,1,1,1,1\n",
            r"breakeven\.csv: column m holds",
        ),
        (llm, "model,recipe\n", r"llm\.csv: column fits, tensor_parallel, .* is missing"),
        (llm, "", r"llm\.csv: is no CSV file"),
        (
            llm,
            HEADERS[llm] + "x,bf16,yes,two" + ",1" * len(llm.NUMBERS[1:]) + "\n",
            r"llm\.csv: column tensor_p",
        ),
    ],
)
def test_a_damaged_file_of_a_section_is_named(
    section: Any, text: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / section.FILE).write_text(text)
    with pytest.raises(ReportError, match=rf"{says}.* run `make study` again"):
        read_derived(tmp_path / section.FILE, section.LABELS, section.NUMBERS)


def test_rows_that_follow_from_outdated_constants_are_left_out(tmp_path: Path) -> None:
    folder = whole_run().write(tmp_path)
    row = ",".join(["x"] * len(llm.LABELS) + ["1"] * len(llm.NUMBERS))
    (folder / llm.FILE).write_text(HEADERS[llm] + row + "\n")

    def shown() -> int:
        return len(derived_table(load_run(folder), llm.FILE, llm.LABELS, llm.NUMBERS).rows)

    assert shown() == 1
    outdate(folder, "gemm")
    assert shown() == 0
