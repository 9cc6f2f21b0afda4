"""What runs again after what: the promises of CONTRIBUTING.md, asked of Snakemake itself."""

import os
import re
import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.records import Measurement, PlanPoint
from tests.paths import ROOT
from tests.roofcal.report.pages import unpacked_text
from tests.workflow.checkout import CPU, GPU, Checkout, jobs_in

pytestmark = pytest.mark.slow

OPS = ("probe_launch", "probe_copy", "probe_math", "probe_cast", "gemm", "cast")
STUDIES = ("gemm", "cast")
TO_MEASURE = ("--until", "measure")


def measured(jobs: Iterable[str]) -> set[str]:
    return {job.removeprefix("measure ") for job in jobs if job.startswith("measure ")}


def planned(jobs: Iterable[str]) -> set[str]:
    return {job.removeprefix("plan ") for job in jobs if job.startswith("plan ")}


def only_run(checkout: Checkout) -> Path:
    (folder,) = checkout.run_folders()
    return folder


def test_a_fresh_checkout_plans_and_measures_every_op_and_ends_in_one_report(
    fresh: Checkout,
) -> None:
    said = fresh.run("--dry-run", "-p")

    jobs = jobs_in(said)
    assert planned(jobs) == measured(jobs) == set(OPS)
    derived = {"calibrate", "predict gemm", "predict cast", "breakeven", "llm"}
    assert derived | {"report"} <= jobs.keys()
    assert not jobs.keys() & {"predict probe_math", "compile_ahead probe_launch"}
    # Plans come in the order of measurements, because an op is measured once it is planned; what
    # needs no compiler is measured first.
    in_turn = {}
    for folder in ("plan", "measurements"):
        pattern = rf"output: .*{folder}/(\w+)\.jsonl\n(?:    .*\n)*?    priority: (\d+)\n"
        priority = {op: int(number) for op, number in re.findall(pattern, said)}
        assert priority.keys() == set(OPS)
        in_turn[folder] = sorted(OPS, key=lambda op: -priority[op])
    assert in_turn["plan"] == in_turn["measurements"]
    assert in_turn["plan"][:2] == ["gemm", "probe_math"]
    assert "planning=0" in said


def test_a_dry_run_of_the_study_of_this_checkout_is_a_page_of_lines(fresh: Checkout) -> None:
    shutil.rmtree(fresh.folder / "config")
    shutil.copytree(ROOT / "config", fresh.folder / "config")

    lines = fresh.run("--dry-run").splitlines()

    assert len(lines) <= 60
    assert max(map(len, lines)) < 120
    assert "measure gemm on cpu-test (missing output files)" in lines
    assert "the study is complete (input files updated by another job)" in lines


def test_what_needs_a_compiler_is_compiled_before_a_gpu_measures_it(fresh: Checkout) -> None:
    """Where that fails, it is measured nevertheless; what is compiled decides no number."""
    fresh.set_devices(GPU)
    said = fresh.run("--dry-run", "-p")
    assert "planning=1" in said, "ops of a GPU are planned one after the other"
    compiled = {job for job in jobs_in(said) if job.startswith("compile")}
    assert compiled == {"compile_ahead probe_launch"}, "libraries have the kernels of the others"
    fresh.write("fail", "compile probe_launch\n")
    only = (*TO_MEASURE, "--config", "ops=[probe_launch]")
    fresh.run("--cores", "2", *only)
    (run,) = (folder for folder in fresh.run_folders() if folder.parent.name == GPU["device"])
    assert "was told to fail" in (run / "log/compile_probe_launch.log").read_text()
    assert (run / "measurements/probe_launch.jsonl").is_file()
    (run / "compiled/probe_launch.jsonl").write_text("compiled anew")
    assert fresh.pending(*only) == set()


def test_the_first_run_writes_every_file_of_the_layout_and_a_line_per_job(
    finished: Checkout, first_run_said: str
) -> None:
    assert "roofcal/core" not in first_run_said  # no list of sources
    (log,) = (finished.folder / ".snakemake/log").glob("*.log")
    assert "input: results/cpu-test/" in log.read_text()
    run = only_run(finished)

    files = {str(file.relative_to(run)) for file in run.rglob("*.jsonl")}

    records = {f"{kind}/{op}.jsonl" for kind in ("plan", "measurements") for op in OPS}
    derived = {"calibration.jsonl", *(f"predictions/{op}.jsonl" for op in STUDIES)}
    assert files == {"environment.jsonl"} | records | derived
    assert (run / "breakeven.csv").is_file()
    assert (run / "llm.csv").is_file()
    assert (finished.folder / "results/report/report.html").stat().st_size > 0
    assert (finished.folder / "results/report/tables/points.csv").is_file()


def test_comments_in_config_rules_profile_and_environment_and_touching_every_file_run_nothing(
    finished: Checkout,
) -> None:
    for pattern in ("config/**/*.yaml", "workflow/rules/*.smk", "profiles/**/*.yaml", "*.yml"):
        for file in finished.folder.glob(pattern):
            file.write_text(file.read_text() + "\n# a comment\n")
    for file in finished.folder.rglob("*"):
        if file.is_file() and ".snakemake" not in file.parts:
            os.utime(file)

    assert "Nothing to be done" in finished.run()


def test_editing_a_source_measures_exactly_the_ops_it_decides(finished: Checkout) -> None:
    no_number = ("roofcal/cli/main.py", "roofcal/study/config.py", "roofcal/core/records.py")
    for sources, ops in (
        (no_number, set()),
        (["kernels/streams/memory.py"], {"probe_copy"}),
        (["roofcal/measure/timing.py"], set(OPS)),
    ):
        for source in sources:
            finished.write(source, finished.text(source) + "\nEDITED = True\n")

        jobs = finished.pending()

        assert measured(jobs) == ops
        assert planned(jobs) == set()
        assert "calibrate" in jobs or not ops


def test_changed_timing_measures_everything_on_that_backend_and_plans_nothing(
    finished: Checkout,
) -> None:
    finished.replace("config/config.yaml", "cuda: {budget_s: 0.4}", "cuda: {budget_s: 0.5}")
    assert finished.pending() == set()

    finished.replace("config/config.yaml", "cpu: {budget_s: 0.02,", "cpu: {budget_s: 0.05,")
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

    assert {"calibrate", "predict gemm", "predict cast", "report"} <= jobs
    assert measured(jobs) == planned(jobs) == set()


def test_a_changed_language_model_is_estimated_again_and_nothing_else(finished: Checkout) -> None:
    finished.replace("config/models/tiny.yaml", "for tests", "for other tests")

    assert finished.pending() == {"llm", "report", "all"}


def test_an_old_environment_is_never_measured_again_and_left_out_if_it_was_interrupted(
    finished: Checkout,
) -> None:
    old = only_run(finished)
    (old / "measurements/cast.jsonl").unlink()
    finished.set_devices(CPU | {"torch": "2.14"})
    source = "roofcal/ops/gemm/bench.py"
    (finished.folder / source).write_text(finished.text(source) + "\nEDITED = True\n")

    said = finished.run("--dry-run", "-p")

    jobs = jobs_in(said)
    assert not any(old.name in at for job in jobs for at in jobs[job] if job.startswith("measure"))

    assert f"{old.relative_to(finished.folder)} is left out of the report" in said
    assert "before cast was measured" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_study_that_was_stopped_while_it_measured_goes_on_where_it_was(
    fresh: Checkout, number: signal.Signals, tmp_path: Path
) -> None:
    """Ctrl-C, and kill -9: its locks are removed, but not by a dry run."""
    ops = {"probe_launch", "probe_copy"}
    only = (*TO_MEASURE, "--config", f"ops=[{','.join(ops)}]")
    fresh.write("slow", "30")
    log = tmp_path / "log"
    process = fresh.start(*only, log=log)
    while not (fresh.folder / "asleep").exists():
        assert process.exitcode is None, log.read_text()
        time.sleep(0.05)
    assert process.pid is not None
    os.killpg(process.pid, number)
    process.join()
    assert process.exitcode != 0, log.read_text()
    (fresh.folder / "slow").unlink()
    (fresh.folder / "measuring").unlink(missing_ok=True)  # the stand-in's, which kill -9 leaves

    jobs = fresh.pending(*only)

    assert measured(jobs) == ops
    assert planned(jobs) == set()
    is_killed = number == signal.SIGKILL
    assert any((fresh.folder / ".snakemake/locks").iterdir()) is is_killed
    said = fresh.run(*only)
    assert ("removed the locks of a Snakemake that was killed" in said) is is_killed
    assert fresh.pending(*only) == set()
