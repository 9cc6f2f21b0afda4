"""CSV files beside the records: read, empty where there are none, named where they are damaged."""

from pathlib import Path

import pytest

from roofcal.points.run import load_run
from roofcal.report.data.provenance import ReportError, derived_table, read_derived
from roofcal.report.sections import llm
from tests.roofcal.report.synthetic import MadeUpRun, add_constants, outdate, product

LABELS = ("recipe",)
NUMBERS = ("error",)


def test_rows_are_read_and_words_like_none_stay_words(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for _ in range(2):
        table = read_derived(path, LABELS, NUMBERS)  # without a file, and of a header alone
        assert table.empty
        assert list(table.columns) == ["recipe", "error"]
        path.write_text("recipe,error\n")
    path.write_text("recipe,error\nnone,0.5\nNA,\n")
    table = read_derived(path, LABELS, NUMBERS)
    assert list(table["recipe"]) == ["none", "NA"]
    assert table["error"].isna().tolist() == [False, True]


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


def test_rows_that_follow_from_outdated_constants_are_left_out(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64))
    add_constants(made_up)
    folder = made_up.write(tmp_path)
    header = ",".join((*llm.LABELS, *llm.NUMBERS))
    row = ",".join(["x"] * len(llm.LABELS) + ["1"] * len(llm.NUMBERS))
    (folder / llm.FILE).write_text(f"{header}\n{row}\n")

    def shown() -> int:
        return len(derived_table(load_run(folder), llm.FILE, llm.LABELS, llm.NUMBERS)[0])

    assert shown() == 1
    outdate(folder, "gemm")
    assert shown() == 0
