"""The section on what moved since the environment before, made of a comparison's JSON."""

import json
from pathlib import Path

import pytest

from roofcal.compare.comparison import compare
from roofcal.core.paths import RunFolder
from roofcal.points.run import load_run
from roofcal.report.data.analysis import analyse
from roofcal.report.data.provenance import ReportError
from roofcal.report.sections.moved import (
    comparison_tables,
    read_comparison,
    summary_sentences,
)
from roofcal.report.write import write_report
from tests.roofcal.compare.made_up import measurement, point, rows_of, write_run
from tests.roofcal.report.chapters import answer_of
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import MadeUpRun, outdate, whole_run


@pytest.fixture
def moved(tmp_path: Path) -> str:
    """moved.json of a run in which one point became slower."""
    a = write_run(tmp_path / "a", rows_of(0))
    b = write_run(tmp_path / "b", rows_of(1, [1.05]), m="")
    return json.dumps(compare(RunFolder.at(a), RunFolder.at(b)))


def test_the_page_shows_what_moved(tmp_path: Path, moved: str) -> None:
    place = MadeUpRun().write(tmp_path / "run")
    (place / "moved.json").write_text(moved)
    write_report([(place, None)], tmp_path / "report.html", DEVICES)
    page = (tmp_path / "details.html").read_text()
    assert "<h4>What moved</h4>" in page
    assert "Of 60 points with times in both, 1 are slower and 0 faster" in page
    assert "gemm cublaslt bf16 512 \N{MULTIPLICATION SIGN} 512" in page
    assert "Break-even points that moved" in page
    assert f"python -m roofcal compare {tmp_path}/a {tmp_path}/b" in page


def test_what_follows_from_outdated_constants_has_not_moved(tmp_path: Path, moved: str) -> None:
    place = whole_run().write(tmp_path / "run")
    row = {"a": 1.0, "b": 2.0, "unit": "s", "change": 1.0}
    names = ("gemm.cublaslt.bf16.launch_s", "launch_graph_s")
    constants = [row | {"constant": name} for name in names]
    (place / "moved.json").write_text(json.dumps(json.loads(moved) | {"constants": constants}))
    outdate(place, "gemm")
    write_report([(place, None)], tmp_path / "report.html", DEVICES)
    page = (tmp_path / "details.html").read_text()
    assert "Constants that moved" in page
    assert "gemm.cublaslt.bf16.launch_s" not in page
    assert "Break-even points that moved" not in page


def test_every_list_of_a_comparison_is_a_table(moved: str) -> None:
    rows_by_table = {name: len(frame) for name, _, frame, _ in comparison_tables(json.loads(moved))}
    assert rows_by_table == {
        "shifts": 1,
        "points": 1,
        "winners": 0,
        "kernels": 0,
        "statuses": 0,
        "constants": 0,
        "breakeven": 1,
        "appeared": 0,
        "disappeared": 0,
    }
    assert "no field of the environment differs" in next(summary_sentences(json.loads(moved)))


@pytest.mark.parametrize(
    ("status", "answer", "is_open"),
    [
        ("failed", "Points that were ok in the environment before are not here: 1 failed.", False),
        ("ok", "No point has times both here and in the environment before.", True),
    ],
)
def test_the_answer_says_what_broke_and_where_nothing_was_compared(
    tmp_path: Path, status: str, answer: str, is_open: bool
) -> None:
    rows = [(point(), measurement(point(), [1.0, 1.1]))]
    after = [(point(), measurement(point(), [] if status == "failed" else [1.0], status=status))]
    a, b = (write_run(tmp_path / name, of) for name, of in (("a", rows), ("b", after)))
    comparison = compare(RunFolder.at(a), RunFolder.at(b))
    place = MadeUpRun().write(tmp_path / "run")
    (place / "moved.json").write_text(json.dumps(comparison))
    given = answer_of(analyse(load_run(place), None), "moved")
    assert answer in given.text
    assert given.is_open == is_open
    conclusion = comparison["conclusion"]
    assert list(summary_sentences(comparison))[1].startswith(conclusion[0].upper() + conclusion[1:])
    del comparison["conclusion"], comparison["lost"]  # of a publication from before
    assert len(list(summary_sentences(comparison))) == 2


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_file_that_is_no_comparison_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "moved.json").write_text(text)
    with pytest.raises(ReportError, match=r"moved\.json: is no comparison"):
        read_comparison(tmp_path)
