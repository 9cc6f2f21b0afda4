"""Published and listed runs: replayed without a device, measured without looking for one."""

import shutil
from pathlib import Path

import pytest

from roofcal.records import Environment, read_records, write_records
from tests.workflow.checkout import CPU, Checkout

pytestmark = pytest.mark.slow


@pytest.fixture
def published(finished: Checkout) -> Path:
    """A published run in a checkout that has no results."""
    (run,) = finished.run_folders()
    target = finished.publish(run)
    shutil.rmtree(finished.folder / "results")
    finished.set_devices(CPU | {"torch": "2.14"})
    return target


def test_a_published_run_is_calibrated_and_predicted_anew_but_not_measured(
    finished: Checkout, published: Path
) -> None:
    before = {file: file.read_bytes() for file in published.rglob("*") if file.is_file()}
    replay = finished.folder / "results/replay" / published.parent.name / published.name

    jobs = finished.pending_with_folders()
    finished.run()

    replayed = {job for job, folders in jobs.items() if any("replay" in f for f in folders)}
    predictions = {"predict gemm", "predict cast"}
    assert replayed == {"calibrate", "learning", "breakeven", "llm"} | predictions
    written = {str(file.relative_to(replay)) for file in replay.rglob("*.jsonl")}
    assert written == {"calibration.jsonl", "predictions/gemm.jsonl", "predictions/cast.jsonl"}
    assert {f: f.read_bytes() for f in published.rglob("*") if f.is_file()} == before
    assert (replay / "learning.csv").is_file()
    assert (replay / "breakeven.csv").is_file()
    assert (replay / "llm.csv").is_file()
    assert published.name in finished.text("results/report/report.html")


def test_published_runs_can_be_left_out(finished: Checkout, published: Path) -> None:
    jobs = finished.pending_with_folders("--config", "published=false")

    assert not any("replay" in folder for folders in jobs.values() for folder in folders)


def test_a_listed_device_is_measured_and_none_is_looked_for(fresh: Checkout) -> None:
    environment = Environment(
        device="nvidia-test",
        vendor="nvidia",
        device_name="Test",
        compute_units=1,
        torch="2.13",
        python="3.11",
    )
    name = f"nvidia-test/{environment.environment_id}"
    write_records(fresh.folder / "results" / name / "environment.jsonl", [environment])
    fresh.write("roofcal/discover.py", "raise RuntimeError('looked for devices')\n")

    said = fresh.run("--dry-run", "--config", f"devices=[{name}]")

    assert f"results/{name}/measurements/gemm.jsonl" in said
    assert "gpu=1" in said


def test_two_devices_are_measured_one_after_the_other(fresh: Checkout) -> None:
    fresh.set_devices(CPU, CPU | {"device": "cpu-other"})

    fresh.write("slow", "0.3")

    fresh.run("--cores", "16")  # the stand-in fails if another measurement is running

    runs = fresh.run_folders()
    assert len(runs) == 2
    for run in runs:
        assert read_records(run / "environment.jsonl", Environment)[0].environment_id == run.name


def test_a_failure_shows_its_log_and_keeps_nothing_from_running_that_does_not_need_it(
    fresh: Checkout,
) -> None:
    fresh.write("fail", "measure gemm\npredict cast\n")

    done = fresh.snakemake()

    assert done.returncode != 0
    for job in ("measure gemm", "predict cast"):
        assert f"error: {job}: the stand-in was told to fail" in done.stdout
    (run,) = fresh.run_folders()
    assert (run / "measurements/cast.jsonl").is_file()
    assert not (run / "measurements/gemm.jsonl").exists()

    (fresh.folder / "fail").unlink()
    assert fresh.pending() == {"measure gemm", "predict cast", "report", "all"}
