"""A study on a real SLURM ends by itself, whatever happens to its jobs, and measures nothing twice.

The points are those of a scripted worker, a second each; SLURM, Snakemake, its plugin,
profiles/slurm and the measuring session are real.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.campaign.slurm_study import (
    PARTITION,
    SlurmStudy,
    cluster_folder,
    kill_slurmd,
    shared_cluster,
    start_slurmd,
    why_not_here,
)
from tests.roofcal.measure.runs import scripted
from tests.waiting import wait_until
from tests.workflow.checkout import copy_checkout, list_gpu, with_stand_ins

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.campaign,
    pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here())),
]
Note = Callable[[str, object], None]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a cluster that runs."""
    with shared_cluster(cluster_folder(tmp_path_factory.getbasetemp())) as folder:
        yield folder


@pytest.fixture
def study(slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmStudy:
    run = scripted(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    return SlurmStudy.at(tmp_path / "checkout", run.folder / "trace")


def holds(study: SlurmStudy, name: str, note: Note) -> None:
    """Fails unless every point was measured, once, and nothing is left behind."""
    wait_until(lambda: not study.jobs(), "the last job")
    result = study.result(name, len(study.jobs()))
    note("campaign", result)
    assert {key: value for key, value in result.items() if key != "run" and value} == {}


def test_a_study_is_measured_and_a_second_has_nothing_to_do(
    study: SlurmStudy, record_property: Note
) -> None:
    assert study.finish() == 0, study.log.read_text()[-3000:]
    start = time.monotonic()
    assert study.finish() == 0
    assert "Nothing to be done" in study.log.read_text()
    record_property("seconds of a study with nothing to do", time.monotonic() - start)
    holds(study, "undisturbed", record_property)


def test_a_job_with_nothing_to_measure_writes_its_output_again(
    study: SlurmStudy, record_property: Note
) -> None:
    assert study.finish() == 0, study.log.read_text()[-3000:]
    output = study.run / "measurements/gemm.jsonl"
    rows = output.read_bytes()
    seconds = {}
    for job in ("none", "idle"):
        if job == "idle":
            output.unlink()
        start = time.monotonic()
        assert study.finish() == 0, study.log.read_text()[-3000:]
        seconds[job] = time.monotonic() - start
    overhead_s = seconds["idle"] - seconds["none"]
    record_property("campaign", {"job": "with nothing to measure", "largest seconds": overhead_s})
    assert output.read_bytes() == rows
    holds(study, "undisturbed", record_property)


def test_a_whole_study_gets_to_its_report(slurm: Path, tmp_path: Path) -> None:
    checkout = with_stand_ins(copy_checkout(tmp_path / "checkout"))
    arguments = ["--workflow-profile", "profiles/slurm", "--latency-wait", "5", "--resources"]
    arguments += ["device=2", "--set-threads", "measure=1"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "snakemake",
            *arguments,
            "--default-resources",
            "mem_mb=500",
            f"slurm_partition={PARTITION}",
        ],
        cwd=checkout.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (checkout.folder / "results/report/report.html").is_file()


def test_a_job_of_an_op_holds_the_gpus_of_its_world_size(slurm: Path, tmp_path: Path) -> None:
    checkout = with_stand_ins(copy_checkout(tmp_path / "checkout"))
    run = list_gpu(checkout).relative_to(checkout.folder)
    targets = [f"{run}/measurements/{op}.jsonl" for op in ("gemm", "probe_link")]
    # The stand-in allows one measurement at a time.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "snakemake", *targets),
            *("--workflow-profile", "profiles/slurm", "--latency-wait", "5"),
            *("--resources", "device=2", "--default-resources", "mem_mb=500"),
            "slurm_partition=gpu",
        ],
        cwd=checkout.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(checkout.text("held").splitlines()) == [
        "gemm: 1 cores, 500M, 1 GPUs",
        "probe_link.2: 2 cores, 1000M, 2 GPUs",
        "probe_link.4: 4 cores, 2000M, 4 GPUs",
    ]


def test_a_cancelled_job_is_noticed_and_tried_again(
    study: SlurmStudy, record_property: Note
) -> None:
    process = study.start()
    study.wait_for_points(3)
    subprocess.run(["scancel", study.jobs()[0][0]], check=True)
    assert process.wait(timeout=600) == 0, study.log.read_text()[-3000:]
    holds(study, "scancel", record_property)


def test_a_lost_node_costs_one_more_job(
    slurm: Path, study: SlurmStudy, record_property: Note
) -> None:
    process = study.start()
    study.wait_for_points(3)
    node = study.jobs()[0][1]
    kill_slurmd(slurm, node)
    try:
        assert process.wait(timeout=600) == 0, study.log.read_text()[-3000:]
    finally:
        start_slurmd(node)
    holds(study, "a killed slurmd", record_property)


def test_a_time_limit_ends_the_job_and_the_next_goes_on(
    study: SlurmStudy, record_property: Note
) -> None:
    process = study.start()
    study.wait_for_points(3)
    subprocess.run(
        ["scontrol", "update", f"JobId={study.jobs()[0][0]}", "TimeLimit=0:01"], check=True
    )
    assert process.wait(timeout=600) == 0, study.log.read_text()[-3000:]
    holds(study, "a time limit", record_property)


def test_a_killed_snakemake_doubles_nothing(study: SlurmStudy, record_property: Note) -> None:
    process = study.start()
    study.wait_for_points(3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert study.finish() == 0, study.log.read_text()[-3000:]
    assert "removed the locks of a Snakemake that was killed" in study.log.read_text()
    holds(study, "kill -9 of Snakemake", record_property)


def test_a_partition_that_is_not_there_is_named(study: SlurmStudy, record_property: Note) -> None:
    code = study.finish("--default-resources", "mem_mb=500", "slurm_partition=nowhere")
    assert code != 0
    assert "invalid partition" in study.log.read_text().lower()
    assert study.finish() == 0, study.log.read_text()[-3000:]
    holds(study, "a partition that is not there", record_property)
