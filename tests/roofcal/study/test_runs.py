"""Which folders are runs, and which of them are measured."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.manifest import write_manifest
from roofcal.core.paths import PUBLISHED, RESULTS, RunsError
from roofcal.core.records import Environment
from roofcal.study import discover
from roofcal.study.config import Study, load_study
from roofcal.study.runs import (
    StudyRun,
    other_calibrations,
    planned_run,
    study_runs,
    with_run_before,
)
from tests.paths import ROOT
from tests.roofcal.made_up_records import environment_of

CONFIG = ROOT / "tests" / "workflow" / "study"
PROBES = ("probe_launch", "probe_copy", "probe_math", "probe_cast")


@pytest.fixture(autouse=True)
def _in_empty_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def study(**overrides: object) -> Study:
    return load_study(CONFIG, overrides)


def environment(device: str = "cpu-test", torch: str = "2.13") -> Environment:
    return environment_of(device, torch=torch)


def found(monkeypatch: pytest.MonkeyPatch, *environments: Environment) -> None:
    """What discover() finds."""
    monkeypatch.setattr(discover, "discover", lambda _folder: list(environments))


def folder_of(record: Environment, below: Path = RESULTS) -> Path:
    return below / record.device / record.environment_id


def make_run(folder: Path, plan: tuple[str, ...], measured: tuple[str, ...], end: str = "") -> None:
    """A run folder with empty records files."""
    write_records(folder / "environment.jsonl", [environment()])
    for kind, ops in (("plan", plan), ("measurements", measured)):
        for op in ops:
            write_records(folder / kind / f"{op}.jsonl{end}", [])


def only_run(**overrides: object) -> StudyRun:
    """The only run of a study."""
    ((run,), _) = study_runs(study(**overrides))
    return run


def test_a_found_device_is_a_current_run_with_its_environment_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, environment())
    run = only_run()
    assert run.folder == run.derived == folder_of(environment())
    assert (run.backend, run.probes, run.studies) == ("cpu", PROBES, ("gemm", "cast"))
    assert run.slices["gemm"] == study().op_slice("gemm", "cpu")
    assert run.timing == study().timing("cpu")
    assert read_records(run.environment_file, Environment) == [environment()]
    before = run.environment_file.stat().st_mtime_ns
    assert only_run(ops=["cast"]).ops == ("probe_launch", "probe_copy", "probe_cast", "cast")
    assert run.environment_file.stat().st_mtime_ns == before


def test_the_files_of_a_run_are_those_of_the_layout() -> None:
    slices = {"gemm": {"sweeps": {"a": {"csv": "my.csv"}, "b": {"cubes": [1]}}}}
    ops = ("probe_copy", "gemm")
    run = StudyRun(folder=Path("r/d/e"), derived=Path("x/d/e"), ops=ops, slices=slices)
    assert run.plans(["gemm"]) == ["r/d/e/plan/gemm.jsonl"]
    assert run.measurements(run.probes) == ["r/d/e/measurements/probe_copy.jsonl"]
    names = ("calibration.jsonl", "predictions/gemm.jsonl", "breakeven.csv", "llm.csv")
    assert run.derivatives() == [f"x/d/e/{name}" for name in names]
    assert len(run.records()) == 5
    assert run.shape_files("gemm") == ["my.csv"]
    assert run.datasheet() == []
    Path("config/devices").mkdir(parents=True)
    Path("config/devices/d.yaml").touch()
    assert run.datasheet() == ["config/devices/d.yaml"]


def replayed(device: str, environment: str, below: str = "results") -> StudyRun:
    folder = Path(below) / device / environment
    return StudyRun(folder=folder, derived=folder, ops=())


def test_a_device_has_the_calibrations_of_its_other_environments() -> None:
    own, other, third = (replayed("d", name) for name in ("e1", "e3", "e2"))
    again = replayed("d", "e3", "results/replay")
    runs = [own, other, third, again, replayed("d2", "e4"), replayed("d", "e1", "results/replay")]

    found = ["results/d/e2/calibration.jsonl", "results/d/e3/calibration.jsonl"]
    assert other_calibrations(own, runs) == other_calibrations(runs[-1], runs) == found
    assert other_calibrations(own, [own, runs[-1]]) == other_calibrations(runs[-2], runs) == []


def test_a_run_is_compared_with_the_environment_before_it() -> None:
    names = ("driver580.10", "driver580.9", "driver590")
    runs = [replayed("d", name) for name in names] + [replayed("d2", "driver1")]
    ten, nine, latest, other = runs
    assert with_run_before(latest, runs) == [ten, latest]
    assert with_run_before(ten, runs) == [nine, ten]
    assert with_run_before(nine, runs) == []
    assert with_run_before(other, runs) == []


def test_a_listed_device_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "discover", lambda _folder: pytest.fail("looked for devices"))
    record = environment("nvidia-test")
    write_records(folder_of(record) / "environment.jsonl", [record])
    assert only_run(devices=[f"nvidia-test/{record.environment_id}"]).backend == "cuda"


@pytest.mark.parametrize(
    ("devices", "says"),
    [
        *(
            ([name], rf"for {re.escape(name)}; known: .*doctor --write-environment results")
            for name in ("nvidia-test/none", "nvidia-test", "../escape", "a/b/c")
        ),
        (["nvidia-test/other"], "not its folder"),
        ([], "no publication can be shown"),
    ],
)
def test_a_listed_device_that_cannot_be_measured_is_refused_with_the_way_out(
    devices: list[str], says: str
) -> None:
    if devices == ["nvidia-test/other"]:
        write_records(RESULTS / "nvidia-test/other/environment.jsonl", [environment()])
    with pytest.raises(RunsError, match=says):
        study_runs(study(devices=devices))


OLD = folder_of(environment(torch="2.12"))


def test_a_finished_earlier_run_is_replayed_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(OLD, (*PROBES, "gemm"), (*PROBES, "gemm"))
    found(monkeypatch, environment())
    (new, earlier), left_out = study_runs(study())
    assert new.backend == "cpu"
    assert earlier == StudyRun(folder=OLD, derived=OLD, ops=(*PROBES, "gemm"))
    assert left_out == []


@pytest.mark.parametrize(
    ("plan", "measured", "missing"),
    [
        ((*PROBES, "gemm"), PROBES, "gemm"),
        (("gemm",), ("gemm",), "a probe"),
        (PROBES, (), "probe_launch"),
        (PROBES, PROBES[:2], "probe_math, probe_cast"),
    ],
)
def test_an_interrupted_earlier_run_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, plan: tuple[str, ...], measured: tuple[str, ...], missing: str
) -> None:
    """A file that is still being written, one that never began and a current run are not named."""
    make_run(OLD, plan, measured)
    (OLD / "measurements").mkdir(exist_ok=True)
    (OLD / "measurements/.probe_math.jsonl.12.partial").write_text("")
    write_records(RESULTS / "cpu-test/untouched/environment.jsonl", [environment()])
    make_run(folder_of(environment()), PROBES, ())
    found(monkeypatch, environment())
    (run,), (said,) = study_runs(study())
    assert run.backend
    assert said.startswith(f"{OLD} is left out of the report")
    assert f"before {missing}" in said


@pytest.fixture
def publication(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A publication of one study op, whose manifest holds, beside a device that is here."""
    found(monkeypatch, environment())
    folder = PUBLISHED / "nvidia-h200" / "some-environment"
    make_run(folder, (*PROBES, "cast"), (*PROBES, "cast"), end=".gz")
    for name in ("calibration.jsonl", "predictions/cast.jsonl"):
        write_records(folder / name, [])
    write_manifest(folder, "c0ffee")
    return folder


def shown(published: bool | str, size: str = "quick") -> tuple[list[StudyRun], list[str]]:
    """Publications that a study shows, and what it says of the others."""
    runs, left_out = study_runs(study(published=published, study=size))
    return [run for run in runs if run.backend is None], left_out


def test_publications_are_shown_as_they_were_frozen_or_derived_again_elsewhere(
    publication: Path,
) -> None:
    (run,), left_out = shown(published=True)
    assert (run.folder, run.derived, left_out) == (publication, publication, [])
    assert run.studies == ("cast",)
    assert all(Path(file).is_file() for file in (*run.records(), *run.derivatives()))
    names = {Path(file).name for file in run.derivatives()}
    assert names == {"calibration.jsonl", "cast.jsonl"}
    (again,), _ = shown("again")
    assert again.folder == publication
    assert again.derived == RESULTS / "replay" / "nvidia-h200" / "some-environment"
    assert {Path(file).name for file in again.derivatives()} >= {"llm.csv", "breakeven.csv"}
    assert shown(published=False) == ([], [])
    assert shown(published=True, size="minute") == ([], [])
    assert len(shown("again", size="minute")[0]) == 1


@pytest.mark.parametrize(
    ("edited", "says", "may_be_derived_again"),
    [
        ("calibration.jsonl", "calibration.jsonl: SHA-256 is not that of the manifest", True),
        ("manifest.json", "manifest.json: is not there", True),
        ("measurements/cast.jsonl.gz", "measurements/cast.jsonl.gz: SHA-256", False),
    ],
)
def test_a_publication_that_was_edited_is_named_and_left_out(
    publication: Path, edited: str, says: str, may_be_derived_again: bool
) -> None:
    (publication / edited).unlink()
    if edited != "manifest.json":
        (publication / edited).write_text("edited\n")
    runs, (sentence,) = shown(published=True)
    assert runs == []
    assert sentence.startswith(f"{publication} is left out of the report")
    assert f"{publication}/{says}" in sentence
    assert "`--config published=again` derives it anew" in sentence
    runs, left_out = shown("again")
    assert [run.folder for run in runs] == [publication] * may_be_derived_again
    assert bool(left_out) is not may_be_derived_again


def test_a_cpu_is_measured_on_all_of_its_cores() -> None:
    run = StudyRun(folder=RESULTS, derived=RESULTS, ops=(), measuring_cores=3)
    assert [run.cores(gpus) for gpus in (0, 1, 8)] == [3, 3, 24]
    cpu = replace(environment(), threads=None)
    seen = (replace(cpu, threads=12), cpu, replace(cpu, vendor="nvidia"))
    runs = [planned_run(study(measuring_cores=4), RESULTS, one, 1) for one in seen]
    assert [run.measuring_cores for run in runs] == [12, os.cpu_count(), 4]


def test_what_needs_no_compiler_is_measured_first_and_what_is_composed_last() -> None:
    ops = ("probe_launch", "probe_math", "linear", "gemm", "cast")
    run = StudyRun(folder=RESULTS, derived=RESULTS, ops=ops, backend="cuda")
    in_turn = sorted(ops, key=run.priority, reverse=True)
    assert in_turn == ["gemm", "probe_math", "cast", "probe_launch", "linear"]


def test_on_this_machines_gpu_an_op_with_kernels_of_no_library_is_compiled_by_a_job() -> None:
    contenders = {"bf16": ["cublaslt"], "fp8_tensorwise": ["cublaslt", "triton"]}
    every, library, shared = {"cubes": [1]}, {"providers": ["cublaslt"]}, {"world_sizes": [2]}
    slices = {
        "gemm": {"contenders": contenders, "sweeps": {"a": every, "b": library}},
        "probe_math": {"contenders": contenders, "sweeps": {"b": library, "c": shared}},
    }
    run = StudyRun(
        folder=RESULTS, derived=RESULTS, ops=tuple(slices), slices=slices, backend="cuda"
    )
    assert run.compiled("gemm") == [str(RESULTS / "compiled/gemm.jsonl")]
    assert run.compiled("probe_math") == []
    assert replace(run, backend="cpu").compiled("gemm") == []
    assert replace(run, has_job_per_world_size=True).compiled("gemm") == []
    assert [run.compiling_cores(cores) for cores in (2, 8, 16, 32, 128)] == [4, 4, 4, 12, 16]


def run_with_world_sizes(backend: Literal["cuda", "cpu"], *, is_cluster: bool) -> StudyRun:
    """A run of an op of one GPU and of one that is swept, and watched, on several."""
    slices: dict[str, dict[str, Any]] = {
        "gemm": {"sweeps": {"s": {}}, "sentinel": [{"world_size": 1}]},
        "probe_link": {
            "sweeps": {"a": {"world_sizes": [2, 8]}, "b": {"world_sizes": [8]}},
            "sentinel": [{"world_size": 4}],
        },
    }
    return StudyRun(
        folder=Path("r"),
        derived=Path("r"),
        ops=tuple(slices),
        backend=backend,
        slices=slices,
        has_job_per_world_size=is_cluster,
    )


def test_on_a_cluster_each_world_size_is_a_job_with_as_many_gpus() -> None:
    run = run_with_world_sizes("cuda", is_cluster=True)
    assert run.world_sizes_by_job("probe_link") == {2: (2,), 4: (4,), 8: (8,)}
    assert run.world_sizes_by_job("gemm") == {1: (1,)}
    # What no node has the GPUs for becomes rows of the largest job.
    small = replace(run, gpus_per_node=4)
    assert small.world_sizes_by_job("probe_link") == {2: (2,), 4: (4, 8)}
    assert replace(run, gpus_per_node=1).world_sizes_by_job("probe_link") == {1: (2, 4, 8)}


def test_on_a_cpu_or_without_a_cluster_an_op_is_one_job() -> None:
    on_cpu = run_with_world_sizes("cpu", is_cluster=True)
    assert on_cpu.world_sizes_by_job("probe_link") == {0: (2, 4, 8)}
    here = run_with_world_sizes("cuda", is_cluster=False)
    assert here.world_sizes_by_job("probe_link") == {8: (2, 4, 8)}
    small = replace(here, gpus_per_node=4)  # a job that asked for 8 would wait for ever
    for run, gpus in ((on_cpu, [0, 0]), (here, [1, 8]), (small, [1, 4])):
        assert [run.gpus(op) for op in run.slices] == gpus
