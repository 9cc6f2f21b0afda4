"""What runs again after what: the promises of CONTRIBUTING.md, asked of Snakemake itself."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import read_records
from roofcal.core.records import Measurement, PlanPoint
from tests.paths import ROOT
from tests.roofcal.report.pages import unpacked_text
from tests.workflow.checkout import CPU, GPU, Checkout

pytestmark = pytest.mark.slow

OPS = ("probe_launch", "probe_copy", "probe_math", "probe_cast", "gemm", "cast")
STUDIES = ("gemm", "cast")
TO_MEASURE = ("--until", "measure")


def measured(jobs: set[str]) -> set[str]:
    return {job.removeprefix("measure ") for job in jobs if job.startswith("measure ")}


def planned(jobs: set[str]) -> set[str]:
    return {job.removeprefix("plan ") for job in jobs if job.startswith("plan ")}


def only_run(checkout: Checkout) -> Path:
    (folder,) = checkout.run_folders()
    return folder


def test_a_fresh_checkout_plans_and_measures_every_op_and_ends_in_one_report(
    fresh: Checkout,
) -> None:
    jobs = fresh.pending()

    assert planned(jobs) == measured(jobs) == set(OPS)
    derived = {"calibrate", "learning", "predict gemm", "predict cast", "breakeven", "llm"}
    assert derived | {"report"} <= jobs
    assert "predict probe_math" not in jobs


def test_a_dry_run_of_the_study_of_this_checkout_is_a_page_of_lines(fresh: Checkout) -> None:
    shutil.rmtree(fresh.folder / "config")
    shutil.copytree(ROOT / "config", fresh.folder / "config")

    lines = fresh.run("--dry-run").splitlines()

    assert len(lines) <= 60
    assert max(map(len, lines)) < 120
    assert "measure gemm on cpu-test (missing output files)" in lines
    assert "the study is complete (input files updated by another job)" in lines


def test_measurements_begin_with_what_needs_no_compiler(fresh: Checkout) -> None:
    """Plans come in the order of measurements, because an op is measured once it is planned."""
    said = fresh.run("--dry-run", "-p")
    in_turn = {}
    for folder in ("plan", "measurements"):
        pattern = rf"output: .*{folder}/(\w+)\.jsonl\n(?:    .*\n)*?    priority: (\d+)\n"
        priority = {op: int(number) for op, number in re.findall(pattern, said)}
        assert priority.keys() == set(OPS)
        in_turn[folder] = sorted(OPS, key=lambda op: -priority[op])
    assert in_turn["plan"] == in_turn["measurements"]
    assert in_turn["plan"][:2] == ["gemm", "probe_math"]


def test_what_needs_a_compiler_is_compiled_before_a_gpu_measures_it(fresh: Checkout) -> None:
    """Where that fails, it is measured nevertheless; what is compiled decides no number."""
    assert not any(job.startswith("compile") for job in fresh.pending())
    fresh.set_devices(GPU)
    compiled = {job for job in fresh.pending() if job.startswith("compile")}
    assert compiled == {"compile_ahead probe_launch"}, "libraries have the kernels of the others"
    fresh.write("fail", "compile probe_launch\n")
    fresh.run("--cores", "2", *TO_MEASURE)
    (run,) = (folder for folder in fresh.run_folders() if folder.parent.name == GPU["device"])
    assert "was told to fail" in (run / "log/compile_probe_launch.log").read_text()
    assert (run / "measurements/probe_launch.jsonl").is_file()
    assert fresh.pending(*TO_MEASURE) == set()
    (run / "compiled/probe_launch.jsonl").write_text("compiled anew")
    assert fresh.pending(*TO_MEASURE) == set()


def test_ops_of_a_gpu_are_planned_one_after_the_other(fresh: Checkout) -> None:
    assert "planning=0" in fresh.run("--dry-run", "-p", "--until", "plan")
    fresh.set_devices(GPU)
    assert "planning=1" in fresh.run("--dry-run", "-p", "--until", "plan")


def test_a_job_is_a_line_on_the_terminal_and_whole_in_the_log(
    finished: Checkout, first_run_said: str
) -> None:
    assert "roofcal/core" not in first_run_said  # no list of sources
    (log,) = (finished.folder / ".snakemake/log").glob("*.log")
    assert "input: results/cpu-test/" in log.read_text()


def test_the_first_run_writes_every_file_of_the_layout(finished: Checkout) -> None:
    run = only_run(finished)

    files = {str(file.relative_to(run)) for file in run.rglob("*.jsonl")}

    records = {f"{kind}/{op}.jsonl" for kind in ("plan", "measurements") for op in OPS}
    derived = {"calibration.jsonl", *(f"predictions/{op}.jsonl" for op in STUDIES)}
    assert files == {"environment.jsonl"} | records | derived
    assert (run / "learning.csv").is_file()
    assert (run / "breakeven.csv").is_file()
    assert (run / "llm.csv").is_file()
    assert (finished.folder / "results/report/report.html").stat().st_size > 0
    assert (finished.folder / "results/report/tables/points.csv").is_file()


def test_a_second_run_has_nothing_to_do(finished: Checkout) -> None:
    assert "Nothing to be done" in finished.run()


def test_comments_in_config_rules_profile_and_environment_and_touching_every_file_run_nothing(
    finished: Checkout,
) -> None:
    for pattern in ("config/**/*.yaml", "workflow/rules/*.smk", "profiles/**/*.yaml", "*.yml"):
        for file in finished.folder.glob(pattern):
            file.write_text(file.read_text() + "\n# a comment\n")
    for file in finished.folder.rglob("*"):
        if file.is_file() and ".snakemake" not in file.parts:
            os.utime(file)

    assert finished.pending() == set()


@pytest.mark.parametrize(
    ("source", "ops"),
    [
        ("kernels/streams/memory.py", {"probe_copy"}),
        ("kernels/streams/empty.py", {"probe_launch"}),
        ("roofcal/ops/cast/bench.py", {"cast", "probe_cast"}),
        ("roofcal/ops/gemm/bench.py", {"gemm", "probe_math"}),
        ("roofcal/measure/timing.py", set(OPS)),
    ],
)
def test_editing_a_source_measures_exactly_the_ops_it_decides(
    finished: Checkout, source: str, ops: set[str]
) -> None:
    (finished.folder / source).write_text(finished.text(source) + "\nEDITED = True\n")

    jobs = finished.pending()

    assert measured(jobs) == ops
    assert planned(jobs) == set()
    assert ("calibrate" in jobs) == any(op.startswith("probe_") for op in ops)


def test_editing_what_decides_no_number_runs_no_measurement(finished: Checkout) -> None:
    for source in ("roofcal/cli/main.py", "roofcal/study/config.py", "roofcal/core/records.py"):
        finished.write(source, finished.text(source) + "\nEDITED = True\n")

    assert measured(finished.pending()) == set()


def test_changed_timing_measures_everything_on_that_backend_and_plans_nothing(
    finished: Checkout,
) -> None:
    finished.replace("config/config.yaml", "cuda: {budget_s: 0.4}", "cuda: {budget_s: 0.5}")
    assert finished.pending() == set()

    finished.replace("config/config.yaml", "cpu: {budget_s: 0.04,", "cpu: {budget_s: 0.05,")
    jobs = finished.pending()

    assert measured(jobs) == set(OPS)
    assert planned(jobs) == set()


def test_a_removed_sweep_point_disappears_from_every_output(finished: Checkout) -> None:
    run = only_run(finished)
    before = {p.point_id for p in read_records(run / "plan/gemm.jsonl", PlanPoint)}
    finished.replace("config/sweeps/gemm.yaml", "cubes: {cubes: [64, 128]}", "cubes: {cubes: [64]}")

    assert measured(finished.pending()) == {"gemm"}
    finished.run()

    left = {m.point_id for m in read_records(run / "measurements/gemm.jsonl", Measurement)}
    (gone,) = before - left
    for file in (run / "plan/gemm.jsonl", run / "predictions/gemm.jsonl"):
        assert gone not in file.read_text()
    report = unpacked_text(finished.folder / "results/report/details.html")
    assert gone not in report
    assert all(point in report for point in left)


def test_an_op_left_out_of_the_study_is_left_out_with_its_probe(fresh: Checkout) -> None:
    jobs = fresh.pending("--config", "ops=[gemm]")

    assert measured(jobs) == set(OPS) - {"cast", "probe_cast"}
    assert "predict cast" not in jobs


def test_a_changed_csv_of_shapes_plans_and_measures_that_op(finished: Checkout) -> None:
    target = str((only_run(finished) / "measurements/gemm.jsonl").relative_to(finished.folder))
    finished.write("my.csv", "m,n,k\n32,32,32\n")
    config = finished.text("config/config.yaml")
    finished.write("config/config.yaml", config + "shapes_csv: my.csv\n")
    finished.run(target)
    assert finished.pending(target) == set()
    finished.write("my.csv", "m,n,k\n32,32,32\n48,48,48\n")

    jobs = finished.pending()

    assert planned(jobs) == measured(jobs) == {"gemm"}


def test_a_datasheet_calibrates_and_predicts_again_without_measuring(finished: Checkout) -> None:
    finished.write("config/devices/cpu-test.yaml", "device: cpu-test\n")

    jobs = finished.pending()

    assert {"calibrate", "learning", "predict gemm", "predict cast", "report"} <= jobs
    assert measured(jobs) == planned(jobs) == set()


def test_a_changed_language_model_is_estimated_again_and_nothing_else(finished: Checkout) -> None:
    finished.replace("config/models/tiny.yaml", "for tests", "for other tests")

    assert finished.pending() == {"llm", "report", "all"}


def test_a_new_environment_is_measured_beside_the_old_one(finished: Checkout) -> None:
    old = only_run(finished)
    before = {file: file.read_bytes() for file in old.rglob("*.jsonl")}
    predictions = {file for file in before if file.parent.name == "predictions"}
    finished.set_devices(CPU | {"torch": "2.14"})

    jobs = finished.pending_with_folders()
    finished.run()

    (new,) = set(finished.run_folders()) - {old}
    assert measured(set(jobs)) == set(OPS)
    assert jobs["measure gemm"] == [str(new.relative_to(finished.folder))]
    after = {file: file.read_bytes() for file in before}
    assert len(predictions) == len(STUDIES)
    for file, held in before.items():  # the new calibration predicts the old points too, at the end
        added = after[file].removeprefix(held) if file in predictions else b""
        assert after[file] == held + added
        assert (transferred_model(new.name).encode() in added) == (file in predictions)
    report = finished.text("results/report/details.html")
    assert old.name in report
    assert new.name in report
    here = str(new.relative_to(finished.folder))
    assert jobs["compare"] == [here]
    assert not (old / "moved.json").exists()
    pair = [f"{folder}={folder}" for folder in (str(old.relative_to(finished.folder)), here)]
    assert json.loads((new / "moved.json").read_text()) == pair


def test_a_driver_has_an_environment_of_its_own(fresh: Checkout) -> None:
    folders = []
    for driver in ("580", "590"):
        fresh.set_devices(GPU | {"driver": driver})
        jobs = fresh.pending_with_folders()
        (folder,) = {
            at for rule in ("plan", "measure") for op in OPS for at in jobs[f"{rule} {op}"]
        }
        assert f"driver{driver}" in folder
        folders.append(folder)
    assert folders[0] != folders[1]


@pytest.mark.exhaustive
def test_a_new_driver_makes_an_environment_of_its_own_and_what_moved_is_said(
    fresh: Checkout,
) -> None:
    fresh.set_devices(GPU)
    fresh.run()
    old = only_run(fresh)
    before = {file: file.read_bytes() for file in (*old.glob("plan/*"), *old.glob("measure*/*"))}
    fresh.set_devices(GPU | {"driver": "590"})

    jobs = fresh.pending_with_folders()
    fresh.run()

    (new,) = set(fresh.run_folders()) - {old}
    here = str(new.relative_to(fresh.folder))
    assert "driver580" in old.name
    assert "driver590" in new.name
    assert all(jobs[f"{rule} {op}"] == [here] for rule in ("plan", "measure") for op in OPS)
    assert before
    assert {file: file.read_bytes() for file in before} == before
    assert jobs["compare"] == [here]
    assert not (old / "moved.json").exists()
    pair = [f"{folder}={folder}" for folder in (str(old.relative_to(fresh.folder)), here)]
    assert json.loads((new / "moved.json").read_text()) == pair
    assert "Nothing to be done" in fresh.run()


def test_an_old_environment_is_never_measured_again(finished: Checkout) -> None:
    old = only_run(finished)
    finished.set_devices(CPU | {"torch": "2.14"})
    source = "roofcal/ops/gemm/bench.py"
    (finished.folder / source).write_text(finished.text(source) + "\nEDITED = True\n")

    jobs = finished.pending_with_folders()

    assert not any(old.name in folder for folder in jobs["measure gemm"])


def test_an_old_environment_that_was_interrupted_is_named_and_left_out(finished: Checkout) -> None:
    old = only_run(finished)
    (old / "measurements/cast.jsonl").unlink()
    finished.set_devices(CPU | {"torch": "2.14"})

    said = finished.run("--dry-run")

    assert f"{old.relative_to(finished.folder)} is left out of the report" in said
    assert "before cast was measured" in said


def stop_while_measuring(checkout: Checkout, signal_number: signal.Signals) -> None:
    """Start the study, and send it and its jobs a signal once it measures."""
    checkout.write("slow", "30")
    process = checkout.start()
    while not (checkout.folder / "asleep").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal_number)
    said, _ = process.communicate()
    assert process.returncode != 0, said
    (checkout.folder / "slow").unlink()


def test_an_interrupted_study_goes_on_where_it_was_stopped(fresh: Checkout) -> None:
    stop_while_measuring(fresh, signal.SIGINT)  # what Ctrl-C does

    jobs = fresh.pending()

    assert measured(jobs) == set(OPS)
    assert planned(jobs) == set()
    fresh.run(*TO_MEASURE)
    assert fresh.pending(*TO_MEASURE) == set()


def test_a_study_goes_on_after_kill_9_and_a_dry_run_removes_no_locks(fresh: Checkout) -> None:
    stop_while_measuring(fresh, signal.SIGKILL)
    (fresh.folder / "measuring").unlink()  # the stand-in's own, which a killed one leaves

    fresh.run("--dry-run")

    assert any((fresh.folder / ".snakemake/locks").iterdir())
    assert "removed the locks of a Snakemake that was killed" in fresh.run(*TO_MEASURE)
    assert fresh.pending(*TO_MEASURE) == set()
