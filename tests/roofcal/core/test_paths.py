"""Where the files of a run are, packed or not, and which runs a folder holds."""

from pathlib import Path

import pytest

from roofcal.core.paths import RunFolder, run_folders


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_derived_files_may_be_in_another_folder() -> None:
    run = RunFolder.at(Path("a/d/e"), Path("b/d/e"))
    assert (run.device, run.environment_id, run.name) == ("d", "e", "d/e")
    assert RunFolder.at(run.folder).derived == run.folder
    assert run.environment_file == Path("a/d/e/environment.jsonl")
    assert run.journal_file("gemm") == Path("a/d/e/journal/gemm.jsonl")
    assert run.calibration_file == Path("b/d/e/calibration.jsonl")
    assert run.predictions_file("gemm") == Path("b/d/e/predictions/gemm.jsonl")
    assert run.breakeven_file == Path("b/d/e/breakeven.csv")
    assert run.moved_file == Path("b/d/e/moved.json")


@pytest.mark.parametrize("end", ["", ".gz"])
def test_records_files_are_found_packed_or_not(tmp_path: Path, end: str) -> None:
    run = RunFolder.at(tmp_path)
    assert run.plan_file("gemm") == tmp_path / "plan/gemm.jsonl"
    assert run.planned_ops() == run.predicted_ops() == []
    plan = touch(tmp_path / f"plan/gemm.jsonl{end}")
    measured = touch(tmp_path / f"measurements/gemm.jsonl{end}")
    assert (run.plan_file("gemm"), run.measurements_file("gemm")) == (plan, measured)
    assert run.planned_ops() == run.measured_ops() == ["gemm"]


def test_unfinished_and_other_files_are_no_ops(tmp_path: Path) -> None:
    for name in (".gemm.jsonl.12.partial", ".cast.jsonl", "notes.jsonl.txt", "cast.jsonl.gz"):
        touch(tmp_path / "plan" / name)
    assert RunFolder.at(tmp_path).planned_ops() == ["cast"]


def test_the_runs_of_a_folder_are_those_with_an_environment(tmp_path: Path) -> None:
    for name in ("d2/e1", "d1/e2", "d1/e1"):
        touch(tmp_path / name / "environment.jsonl")
    (tmp_path / "d1/e3").mkdir()
    assert [run.name for run in run_folders(tmp_path)] == ["d1/e1", "d1/e2", "d2/e1"]
