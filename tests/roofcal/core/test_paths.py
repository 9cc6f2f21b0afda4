"""Where the files of a run are, packed or not, which runs there are, and which one is meant."""

from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.paths import (
    PUBLISHED,
    RESULTS,
    RunFolder,
    RunsError,
    find_run,
    run_folders,
    run_named,
)


@pytest.fixture(autouse=True)
def _empty_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize("end", ["", ".gz"])
def test_records_files_are_found_packed_or_not(tmp_path: Path, end: str) -> None:
    run = RunFolder.at(tmp_path)
    assert run.plan_file("gemm") == tmp_path / "plan/gemm.jsonl"
    assert run.planned_ops() == run.predicted_ops() == []
    plan = touch(tmp_path / f"plan/gemm.jsonl{end}")
    measured = touch(tmp_path / f"measurements/gemm.jsonl{end}")
    assert (run.plan_file("gemm"), run.measurements_file("gemm")) == (plan, measured)
    assert run.planned_ops() == run.measured_ops() == ["gemm"]


def test_ops_and_runs_are_known_by_finished_files(tmp_path: Path) -> None:
    for name in (".gemm.jsonl.12.partial", ".cast.jsonl", "notes.jsonl.txt", "cast.jsonl.gz"):
        touch(tmp_path / "plan" / name)
    assert RunFolder.at(tmp_path).planned_ops() == ["cast"]
    for name in ("d2/e1", "d1/e2", "d1/e1"):
        touch(tmp_path / name / "environment.jsonl")
    (tmp_path / "d1/e3").mkdir()
    assert [run.name for run in run_folders(tmp_path)] == ["d1/e1", "d1/e2", "d2/e1"]


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    for name in ("a/gpu/driver1-x", "a/gpu/driver2-y", "b/gpu/driver2-y", "b/cpu/torch2"):
        touch(tmp_path / name / "environment.jsonl")
    return [tmp_path / "a", tmp_path / "b"]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("gpu/driver1-x", "a/gpu/driver1-x"),
        ("driver1", "a/gpu/driver1-x"),
        ("driver2-y", "b/gpu/driver2-y"),
        ("cpu", "b/cpu/torch2"),
        ("cpu/", "b/cpu/torch2"),
    ],
)
def test_a_name_or_its_start_finds_the_run_of_the_last_root(
    roots: list[Path], tmp_path: Path, name: str, folder: str
) -> None:
    assert run_named(name, roots).folder == tmp_path / folder


def test_a_folder_may_have_its_derived_files_elsewhere(roots: list[Path], tmp_path: Path) -> None:
    named = run_named(f"{tmp_path}/a/gpu/driver1-x={tmp_path}/replay", roots)
    assert (named.folder, named.derived) == (tmp_path / "a/gpu/driver1-x", tmp_path / "replay")
    assert run_named("driver1", roots).derived == tmp_path / "a/gpu/driver1-x"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpu", "any of: gpu/driver1-x, gpu/driver2-y"),
        *((name, "There are: cpu/torch2, gpu/driver1-x") for name in ("gpu/driver1-z", "", "no")),
        ("gpu/drivr1-x", "did you mean 'gpu/driver1-x'"),
    ],
)
def test_what_may_be_several_or_none_is_refused_with_what_there_is(
    roots: list[Path], name: str, says: str
) -> None:
    with pytest.raises(RunsError, match=says):
        run_named(name, roots)


PROBES = ("probe_launch", "probe_copy")


def write_empty_run(folder: Path, end: str = "") -> None:
    """A run folder whose probes were planned and measured, with empty records files."""
    for kind in ("plan", "measurements"):
        for op in PROBES:
            write_records(folder / kind / f"{op}.jsonl{end}", [])
    write_records(folder / "environment.jsonl", [])


def calibrate(folder: Path) -> None:
    touch(folder / "calibration.jsonl")


def test_the_run_to_show_is_calibrated_rather_than_later_and_a_replay_rather_than_frozen() -> None:
    frozen, here = PUBLISHED / "nvidia-h200" / "e1", RESULTS / "nvidia-h200" / "e2"
    write_empty_run(frozen, end=".gz")
    calibrate(frozen)
    write_empty_run(here)
    found = find_run("nvidia-h200")
    assert (found.folder, found.derived) == (frozen, frozen)

    calibrate(here)
    assert find_run("nvidia-h200").folder == here
    replay = RESULTS / "replay" / "nvidia-h200" / "e1"
    calibrate(replay)
    again = find_run("nvidia-h200", "e1")
    assert (again.folder, again.derived) == (frozen, replay)


@pytest.mark.parametrize(("device", "environment"), [("nvidia-h100", None), ("nvidia-h200", "e9")])
def test_a_run_that_is_not_there_is_refused_with_what_there_is(
    device: str, environment: str | None
) -> None:
    write_empty_run(RESULTS / "nvidia-h200" / "e1")

    with pytest.raises(RunsError, match="there is: nvidia-h200 e1"):
        find_run(device, environment)
