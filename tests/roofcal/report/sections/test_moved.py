"""The section on what moved since the environment before, made of a comparison's JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from roofcal.compare.comparison import compare
from roofcal.core.paths import RunFolder
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import ReportError
from roofcal.report.kit.blocks import Commands
from tests.roofcal.compare.made_up import measurement, point, rows_of, write_run
from tests.roofcal.report.chapters import Shown, plain, shown_by, shown_of
from tests.roofcal.report.synthetic import MadeUpRun, outdate, whole_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of which the second has one point that became slower, and another map."""
    root = tmp_path_factory.mktemp("moved")
    return write_run(root / "a", rows_of(0)), write_run(root / "b", rows_of(1, [1.05]), m="")


@pytest.fixture(scope="module")
def moved(folders: tuple[Path, Path]) -> dict[str, Any]:
    a, b = map(RunFolder.at, folders)
    return dict(compare(a, b))


def analysis_with(folder: Path, text: str) -> Analysis:
    """A run folder with this text of moved.json."""
    (folder / "moved.json").write_text(text)
    return Analysis(run=load_run(folder), spec=None, frames={}, sessions={})


def shown_with(root: Path, comparison: dict[str, Any]) -> Shown:
    """What is shown of a run with this comparison."""
    return shown_of(analysis_with(MadeUpRun().write(root), json.dumps(comparison)), "moved")


def test_the_page_shows_what_moved(
    tmp_path: Path, folders: tuple[Path, Path], moved: dict[str, Any]
) -> None:
    analysis = analysis_with(MadeUpRun().write(tmp_path), json.dumps(moved))
    shown = shown_of(analysis, "moved")
    assert shown.answer.startswith("1 of 60 points became slower and 0 faster")
    versions, conclusion, counted = shown.prose
    assert "no field of the environment differs" in versions
    assert conclusion.endswith("(A: before, B: now).")
    assert conclusion[1:].startswith(plain(moved["conclusion"])[1:])
    assert counted.startswith("Of 60 points with times in both, 1 are slower and 0 faster")
    assert list(shown.tables) == ["moved-shifts", "moved-points", "moved-breakeven"]
    (slower,) = shown.tables["moved-points"].frame["point"]
    assert plain(slower).startswith("gemm cublaslt bf16 512 x 512")
    *_, command = shown_by(analysis, "moved")
    assert isinstance(command, Commands)
    assert command.lines == [f"roofcal compare {folders[0]} {folders[1]}"]


def test_what_follows_from_outdated_constants_has_not_moved(
    tmp_path: Path, moved: dict[str, Any]
) -> None:
    place = whole_run().write(tmp_path / "run")
    row = {"a": 1.0, "b": 2.0, "unit": "s", "change": 1.0}
    names = ("gemm.cublaslt.bf16.launch_s", "launch_graph_s")
    constants = [row | {"constant": name} for name in names]
    outdate(place, "gemm")
    text = json.dumps(moved | {"constants": constants})
    analysis = analysis_with(place, text)
    shown = shown_of(analysis, "moved")
    assert list(shown.tables["moved-constants"].frame["constant"]) == ["launch_graph_s"]
    assert "moved-breakeven" not in shown.tables
    assert shown_of(analysis, "constants").prose[1].startswith("In this run, ")


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("failed", "Points that were ok in the environment before are not here: 1 failed."),
        ("ok", "No point has times both here and in the environment before."),
    ],
)
def test_the_answer_says_what_broke_and_where_nothing_was_compared(
    tmp_path: Path, status: str, answer: str
) -> None:
    rows = [(point(), measurement(point(), [1.0, 1.1]))]
    after = [(point(), measurement(point(), [] if status == "failed" else [1.0], status=status))]
    a, b = (write_run(tmp_path / name, of) for name, of in (("a", rows), ("b", after)))
    comparison = dict(compare(RunFolder.at(a), RunFolder.at(b)))
    shown = shown_with(tmp_path / "run", comparison)
    assert answer in shown.answer
    assert ("moved-statuses" in shown.tables) == (status == "failed")
    del comparison["conclusion"], comparison["lost"]  # of a publication from before
    assert len(shown_with(tmp_path / "before", comparison).prose) == 2


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_file_that_is_no_comparison_is_named(tmp_path: Path, text: str) -> None:
    analysis = analysis_with(MadeUpRun().write(tmp_path), text)
    with pytest.raises(ReportError, match=r"moved\.json: is no comparison"):
        shown_by(analysis, "moved")
