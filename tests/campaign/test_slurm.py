"""A study on a real SLURM ends by itself, whatever happens to its jobs, and measures nothing twice.

The points are those of a scripted worker, a second each; SLURM, Snakemake, its plugin,
profiles/slurm and the measuring session are real.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaign.slurm_study import (
    ON_SLURM,
    PARTITION,
    SlurmStudy,
    kill_slurmd,
    run_on_slurm,
    start_slurmd,
)
from tests.roofcal.measure.runs import scripted
from tests.waiting import wait_until
from tests.workflow.checkout import copy_checkout, list_gpu, with_stand_ins

pytestmark = ON_SLURM
Note = Callable[[str, object], None]


@pytest.fixture
def study(slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmStudy:
    run = scripted(monkeypatch, tmp_path, measures_here=False)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    return SlurmStudy.at(tmp_path / "checkout", run.folder / "trace")


def seconds_to_finish(study: SlurmStudy) -> float:
    """How long a study takes that gets to its end."""
    start = time.monotonic()
    assert study.finish() == 0, study.log.read_text()[-3000:]
    return time.monotonic() - start


def holds(study: SlurmStudy, name: str, note: Note) -> None:
    """Fails unless every point was measured, once, and nothing is left behind."""
    wait_until(lambda: not study.jobs(), "the last job")
    result = study.result(name, len(study.jobs()))
    note("campaign", result)
    assert {key: value for key, value in result.items() if key != "run" and value} == {}


def test_a_second_study_has_nothing_to_do_and_a_lost_output_is_written_again(
    study: SlurmStudy, record_property: Note
) -> None:
    seconds_to_finish(study)
    output = study.run / "measurements/gemm.jsonl"
    rows = output.read_bytes()
    nothing_s = seconds_to_finish(study)
    assert "Nothing to be done" in study.log.read_text()
    record_property("seconds of a study with nothing to do", nothing_s)
    output.unlink()
    overhead_s = seconds_to_finish(study) - nothing_s
    record_property("campaign", {"job": "with nothing to measure", "largest seconds": overhead_s})
    assert output.read_bytes() == rows
    holds(study, "undisturbed", record_property)


@pytest.mark.usefixtures("slurm")
def test_a_whole_study_gets_to_its_report(tmp_path: Path) -> None:
    """One op with its probes: a job of each further op has the same rules and takes 4 s of CPU."""
    checkout = with_stand_ins(copy_checkout(tmp_path / "checkout"))
    limits = ("--resources", "device=2", "--set-threads", "measure=1")
    run_on_slurm(checkout.folder, PARTITION, *limits, "--config", "ops=[gemm]")
    assert (checkout.folder / "results/report/report.html").is_file()


@pytest.mark.usefixtures("slurm")
def test_a_job_of_an_op_holds_the_gpus_of_its_world_size(tmp_path: Path) -> None:
    checkout = with_stand_ins(copy_checkout(tmp_path / "checkout"))
    run = list_gpu(checkout).relative_to(checkout.folder)
    targets = [f"{run}/measurements/{op}.jsonl" for op in ("gemm", "probe_link")]
    # The stand-in allows one measurement at a time.
    run_on_slurm(checkout.folder, "gpu", *targets, "--resources", "device=2")
    assert sorted(checkout.text("held").splitlines()) == [
        "gemm: 1 cores, 500M, 1 GPUs",
        "probe_link.2: 2 cores, 1000M, 2 GPUs",
        "probe_link.4: 4 cores, 2000M, 4 GPUs",
    ]


@pytest.mark.parametrize("end", ["scancel", "a killed slurmd", "a time limit"])
def test_the_job_after_one_that_was_ended_goes_on(
    end: str, slurm: Path, study: SlurmStudy, record_property: Note
) -> None:
    process = study.start()
    study.wait_for_points(3)
    job, node = study.jobs()[0]
    if end == "scancel":
        subprocess.run(["scancel", job], check=True)
    elif end == "a time limit":
        command = ["scontrol", "update", f"JobId={job}", "TimeLimit=0:01"]
        subprocess.run(command, check=True)
    else:
        kill_slurmd(slurm, node)
    try:
        assert process.wait(timeout=600) == 0, study.log.read_text()[-3000:]
    finally:
        if end == "a killed slurmd":
            start_slurmd(node)
    holds(study, end, record_property)


def test_a_killed_snakemake_doubles_nothing(study: SlurmStudy, record_property: Note) -> None:
    process = study.start()
    study.wait_for_points(3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    seconds_to_finish(study)
    assert "removed the locks of a Snakemake that was killed" in study.log.read_text()
    holds(study, "kill -9 of Snakemake", record_property)


def test_a_partition_that_is_not_there_is_named(study: SlurmStudy, record_property: Note) -> None:
    code = study.finish("--default-resources", "mem_mb=500", "slurm_partition=nowhere")
    assert code != 0
    assert "invalid partition" in study.log.read_text().lower()
    seconds_to_finish(study)
    holds(study, "a partition that is not there", record_property)
