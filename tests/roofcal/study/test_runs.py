"""Which folders are runs, and which of them are measured."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.manifest import write_manifest
from roofcal.core.paths import PUBLISHED, RESULTS
from roofcal.core.records import Environment
from roofcal.study import discover
from roofcal.study.config import Study, load_study
from roofcal.study.runs import (
    Run,
    RunsError,
    current_runs,
    earlier_runs,
    interrupted_runs,
    left_out_of_report,
    measuring_cores,
    other_calibrations,
    published_runs,
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


def test_a_found_device_is_a_current_run_with_its_environment_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, environment())

    (run,) = study_runs(study())

    assert run.folder == run.derived == folder_of(environment())
    assert run.backend == "cpu"
    assert run.probes == PROBES
    assert run.studies == ("gemm", "cast")
    assert read_records(run.environment_file, Environment) == [environment()]
    before = run.environment_file.stat().st_mtime_ns
    study_runs(study())
    assert run.environment_file.stat().st_mtime_ns == before


def test_the_files_of_a_run_are_those_of_the_layout() -> None:
    run = Run(folder=Path("r/d/e"), derived=Path("x/d/e"), ops=("probe_copy", "gemm"))

    assert run.plans(["gemm"]) == ["r/d/e/plan/gemm.jsonl"]
    assert run.measurements(run.probes) == ["r/d/e/measurements/probe_copy.jsonl"]
    assert run.derivatives() == [
        "x/d/e/calibration.jsonl",
        "x/d/e/predictions/gemm.jsonl",
        "x/d/e/breakeven.csv",
        "x/d/e/llm.csv",
    ]
    assert len(run.records()) == 5


def replayed(device: str, environment: str, below: str = "results") -> Run:
    folder = Path(below) / device / environment
    return Run(folder=folder, derived=folder, ops=())


def test_a_device_has_the_calibrations_of_its_other_environments() -> None:
    own, other, third = (replayed("d", name) for name in ("e1", "e3", "e2"))
    again = replayed("d", "e3", "results/replay")
    runs = [own, other, third, again, replayed("d2", "e4"), replayed("d", "e1", "results/replay")]

    found = ["results/d/e2/calibration.jsonl", "results/d/e3/calibration.jsonl"]
    assert other_calibrations(own, runs) == found
    assert other_calibrations(runs[-1], runs) == found
    assert other_calibrations(own, [own, runs[-1]]) == []
    assert other_calibrations(runs[-2], runs) == []


def test_a_run_is_compared_with_the_environment_before_it() -> None:
    names = ("driver580.10", "driver580.9", "driver590")
    runs = [replayed("d", name) for name in names] + [replayed("d2", "driver1")]
    ten, nine, latest, other = runs
    assert with_run_before(latest, runs) == [ten, latest]
    assert with_run_before(ten, runs) == [nine, ten]
    assert with_run_before(nine, runs) == []
    assert with_run_before(other, runs) == []


def test_a_run_has_the_file_that_its_device_has() -> None:
    run = Run(folder=Path("r/d/e"), derived=Path("r/d/e"), ops=())
    assert run.datasheet() == []
    Path("config/devices").mkdir(parents=True)
    Path("config/devices/d.yaml").touch()
    assert run.datasheet() == ["config/devices/d.yaml"]


def test_probes_that_calibrate_the_ops_named_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, environment())

    (run,) = current_runs(study(ops=["cast"]))

    assert run.ops == ("probe_launch", "probe_copy", "probe_cast", "cast")


def test_a_listed_device_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "discover", lambda _folder: pytest.fail("looked for devices"))
    record = environment("nvidia-test")
    write_records(folder_of(record) / "environment.jsonl", [record])

    (run,) = current_runs(study(devices=[f"nvidia-test/{record.environment_id}"]))

    assert run.backend == "cuda"


@pytest.mark.parametrize("name", ["nvidia-test/none", "nvidia-test", "../escape", "a/b/c"])
def test_a_listed_device_without_environment_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(RunsError, match=r"doctor --write-environment results") as error:
        study_runs(study(devices=[name]))

    assert name in str(error.value)


def test_an_environment_of_another_device_is_refused() -> None:
    write_records(RESULTS / "nvidia-test/other/environment.jsonl", [environment()])

    with pytest.raises(RunsError, match="not its folder"):
        study_runs(study(devices=["nvidia-test/other"]))


def test_nothing_to_measure_and_nothing_to_show_is_refused() -> None:
    with pytest.raises(RunsError, match="no publication can be shown"):
        study_runs(study(devices=[]))


def test_a_finished_earlier_run_is_replayed_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    old = folder_of(environment(torch="2.12"))
    make_run(old, (*PROBES, "gemm"), (*PROBES, "gemm"))
    found(monkeypatch, environment())

    new, earlier = study_runs(study())

    assert new.backend == "cpu"
    assert earlier == Run(folder=old, derived=old, ops=(*PROBES, "gemm"))
    assert earlier.backend is None


@pytest.mark.parametrize(
    ("plan", "measured", "missing"),
    [((*PROBES, "gemm"), PROBES, "gemm"), (("gemm",), ("gemm",), "a probe"), (PROBES, (), "probe")],
)
def test_an_interrupted_earlier_run_is_left_out_and_named(
    plan: tuple[str, ...], measured: tuple[str, ...], missing: str
) -> None:
    old = folder_of(environment(torch="2.12"))
    make_run(old, plan, measured)

    assert earlier_runs(RESULTS, []) == []
    (said,) = interrupted_runs(RESULTS, [])
    assert str(old) in said
    assert missing in said


def test_a_run_that_never_began_and_a_current_one_are_neither_earlier_nor_interrupted() -> None:
    write_records(RESULTS / "cpu-test/untouched/environment.jsonl", [environment()])
    make_run(folder_of(environment()), PROBES, ())
    current = [folder_of(environment())]

    assert earlier_runs(RESULTS, current) == []
    assert interrupted_runs(RESULTS, current) == []


def test_files_that_are_still_being_written_do_not_count_as_measured() -> None:
    old = folder_of(environment(torch="2.12"))
    make_run(old, PROBES, PROBES[:2])
    (old / "measurements/.probe_math.jsonl.12.partial").write_text("")

    assert earlier_runs(RESULTS, []) == []


@pytest.fixture
def publication() -> Path:
    """A publication of one study op, whose manifest holds."""
    folder = PUBLISHED / "nvidia-h200" / "some-environment"
    make_run(folder, (*PROBES, "cast"), (*PROBES, "cast"), end=".gz")
    for name in ("calibration.jsonl", "predictions/cast.jsonl"):
        write_records(folder / name, [])
    write_manifest(folder, "c0ffee")
    return folder


def test_publications_are_shown_as_they_were_frozen(
    monkeypatch: pytest.MonkeyPatch, publication: Path
) -> None:
    found(monkeypatch, environment())

    (run,) = published_runs(PUBLISHED, RESULTS / "replay")

    assert (run.folder, run.derived) == (publication, publication)
    assert run.studies == ("cast",)
    assert all(Path(file).is_file() for file in (*run.records(), *run.derivatives()))
    names = {Path(file).name for file in run.derivatives()}
    assert names == {"calibration.jsonl", "cast.jsonl"}
    assert run in study_runs(study())
    assert not any(r.folder == publication for r in study_runs(study(published=False)))


def test_publications_are_derived_again_elsewhere_where_the_study_says_so(
    monkeypatch: pytest.MonkeyPatch, publication: Path
) -> None:
    found(monkeypatch, environment())

    (run,) = published_runs(PUBLISHED, RESULTS / "replay", again=True)

    assert run.folder == publication
    assert run.derived == RESULTS / "replay" / "nvidia-h200" / "some-environment"
    assert {Path(file).name for file in run.derivatives()} >= {"llm.csv", "breakeven.csv"}
    assert run in study_runs(study(published="again"))


def test_a_publication_whose_derived_files_were_edited_is_named_and_may_be_derived_again(
    monkeypatch: pytest.MonkeyPatch, publication: Path
) -> None:
    found(monkeypatch, environment())
    (publication / "calibration.jsonl").write_text("edited\n")

    runs, again = study_runs(study()), study_runs(study(published="again"))

    assert publication not in {run.folder for run in runs}
    (sentence,) = left_out_of_report(study(), runs)
    assert sentence.startswith(f"{publication} is left out of the report")
    assert f"{publication}/calibration.jsonl: SHA-256 is not that of the manifest" in sentence
    assert "`--config published=again` derives it anew" in sentence
    assert publication in {run.folder for run in again}
    assert left_out_of_report(study(published="again"), again) == []
    assert left_out_of_report(study(published=False), study_runs(study(published=False))) == []


def test_a_publication_whose_records_were_edited_is_left_out_however_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, publication: Path
) -> None:
    found(monkeypatch, environment())
    write_records(publication / "measurements/cast.jsonl.gz", [environment()])
    for published in (True, "again"):
        asked = study(published=published)
        runs = study_runs(asked)
        assert publication not in {run.folder for run in runs}
        (sentence,) = left_out_of_report(asked, runs)
        assert f"{publication}/measurements/cast.jsonl.gz: SHA-256" in sentence


def test_a_publication_without_a_manifest_is_derived_from_its_records_or_left_out(
    publication: Path,
) -> None:
    (publication / "manifest.json").unlink()
    assert published_runs(PUBLISHED, RESULTS / "replay") == []
    assert len(published_runs(PUBLISHED, RESULTS / "replay", again=True)) == 1


def test_a_run_names_the_datasheet_of_its_device_if_there_is_one() -> None:
    run = Run(folder=RESULTS / "nvidia-test" / "e", derived=RESULTS, ops=())
    assert run.datasheet() == []

    Path("config/devices").mkdir(parents=True)
    Path("config/devices/nvidia-test.yaml").touch()
    assert run.datasheet() == ["config/devices/nvidia-test.yaml"]


def test_cores_and_memory_grow_with_the_gpus_and_a_cpu_is_measured_on_all_of_its_cores() -> None:
    run = Run(folder=RESULTS, derived=RESULTS, ops=(), backend="cuda", measuring_cores=3)
    assert [run.cores(gpus) for gpus in (0, 1, 8)] == [3, 3, 24]
    assert [run.memory_mb(gpus) for gpus in (0, 1, 8)] == [32_000, 32_000, 256_000]
    cpu = replace(environment(), threads=None)
    assert measuring_cores(4, replace(cpu, threads=12)) == 12
    assert measuring_cores(4, cpu) == os.cpu_count()
    assert measuring_cores(4, replace(cpu, vendor="nvidia")) == 4


def test_what_needs_no_compiler_is_measured_first_and_what_is_composed_last() -> None:
    ops = ("probe_launch", "probe_math", "linear", "gemm", "cast")
    run = Run(folder=RESULTS, derived=RESULTS, ops=ops, backend="cuda")
    in_turn = sorted(ops, key=run.priority, reverse=True)
    assert in_turn == ["gemm", "probe_math", "cast", "probe_launch", "linear"]


def test_on_this_machines_gpu_an_op_with_kernels_of_no_library_is_compiled_by_a_job() -> None:
    contenders = {"bf16": ["cublaslt"], "fp8_tensorwise": ["cublaslt", "triton"]}
    every, library, shared = {"cubes": [1]}, {"providers": ["cublaslt"]}, {"world_sizes": [2]}
    slices = {
        "gemm": {"contenders": contenders, "sweeps": {"a": every, "b": library}},
        "probe_math": {"contenders": contenders, "sweeps": {"b": library, "c": shared}},
    }
    run = Run(folder=RESULTS, derived=RESULTS, ops=tuple(slices), slices=slices, backend="cuda")
    assert run.compiled("gemm") == [str(RESULTS / "compiled/gemm.jsonl")]
    assert run.compiled("probe_math") == []
    assert replace(run, backend="cpu").compiled("gemm") == []
    assert replace(run, has_job_per_world_size=True).compiled("gemm") == []
    assert [run.compiling_cores(cores) for cores in (2, 8, 16, 32, 128)] == [4, 4, 4, 12, 16]


def test_the_csv_files_of_a_slice_are_inputs_of_its_plan() -> None:
    slices = {"gemm": {"sweeps": {"a": {"csv": "my.csv"}, "b": {"cubes": [1]}}}}
    run = Run(folder=RESULTS, derived=RESULTS, ops=("gemm",), slices=slices)

    assert run.shape_files("gemm") == ["my.csv"]


def test_a_current_run_carries_what_the_configuration_says_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, environment())
    wanted = study()

    (run,) = current_runs(wanted)

    assert run.slices["gemm"] == wanted.op_slice("gemm", "cpu")
    assert run.timing == wanted.timing("cpu")


def run_with_world_sizes(backend: Literal["cuda", "cpu"], *, is_cluster: bool) -> Run:
    """A run of an op of one GPU and of one that is swept, and watched, on several."""
    slices: dict[str, dict[str, Any]] = {
        "gemm": {"sweeps": {"s": {}}, "sentinel": [{"world_size": 1}]},
        "probe_link": {
            "sweeps": {"a": {"world_sizes": [2, 8]}, "b": {"world_sizes": [8]}},
            "sentinel": [{"world_size": 4}],
        },
    }
    return Run(
        folder=Path("r"),
        derived=Path("r"),
        ops=tuple(slices),
        backend=backend,
        slices=slices,
        has_job_per_world_size=is_cluster,
    )


@pytest.mark.parametrize(("backend", "gpus"), [("cuda", [1, 8]), ("cpu", [0, 0])])
def test_measuring_asks_for_as_many_gpus_as_the_largest_point_shares(
    backend: Literal["cuda", "cpu"], gpus: list[int]
) -> None:
    run = run_with_world_sizes(backend, is_cluster=False)
    assert [run.gpus(op) for op in run.slices] == gpus
    small = replace(run, gpus_per_node=4)  # a job that asked for 8 would wait for ever
    assert [small.gpus(op) for op in run.slices] == [min(wanted, 4) for wanted in gpus]


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
