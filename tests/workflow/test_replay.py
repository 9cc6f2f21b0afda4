"""Published and listed runs: shown without a device, measured without looking for one."""

import shutil
from pathlib import Path

import pytest

from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Environment, Prediction
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


AGAIN = ("--config", "published=again")


def test_a_published_run_is_shown_as_it_was_frozen(finished: Checkout, published: Path) -> None:
    before = {file: file.read_bytes() for file in published.rglob("*") if file.is_file()}

    jobs = finished.pending_with_folders()
    finished.run()

    (here,) = finished.run_folders()
    folders = {folder for name in jobs if name not in ("report", "all") for folder in jobs[name]}
    assert folders == {f"results/{here.parent.name}/{here.name}"}
    assert {f: f.read_bytes() for f in published.rglob("*") if f.is_file()} == before
    assert f"reports/published/{published.parent.name}/{published.name} gemm" in finished.text(
        "results/report/details.html"
    )
    assert "Nothing to be done" in finished.run()


def test_an_edited_publication_is_named_and_left_out(finished: Checkout, published: Path) -> None:
    (published / "llm.csv").write_text("model,recipe\nedited\n")

    said = finished.run()

    assert f"{published.relative_to(finished.folder)} is left out of the report" in said
    assert published.name not in finished.text("results/report/details.html")


def test_a_published_run_is_calibrated_and_predicted_anew_where_that_is_asked_for(
    finished: Checkout, published: Path
) -> None:
    before = {file: file.read_bytes() for file in published.rglob("*") if file.is_file()}
    replay = finished.folder / "results/replay" / published.parent.name / published.name

    jobs = finished.pending_with_folders(*AGAIN)
    finished.run(*AGAIN)

    replayed = {job for job, folders in jobs.items() if any("replay" in f for f in folders)}
    predictions = {"predict gemm", "predict cast"}
    assert replayed == {"calibrate", "learning", "breakeven", "llm"} | predictions
    written = {str(file.relative_to(replay)) for file in replay.rglob("*.jsonl")}
    assert written == {"calibration.jsonl", "predictions/gemm.jsonl", "predictions/cast.jsonl"}
    assert {f: f.read_bytes() for f in published.rglob("*") if f.is_file()} == before
    assert (replay / "learning.csv").is_file()
    assert (replay / "breakeven.csv").is_file()
    assert (replay / "llm.csv").is_file()
    assert published.name in finished.text("results/report/details.html")


def models(run: Path, op: str) -> set[str]:
    return {p.model for p in read_records(run / f"predictions/{op}.jsonl", Prediction)}


def test_a_second_environment_of_a_device_is_predicted_with_the_calibration_of_the_first(
    finished: Checkout,
) -> None:
    (old,) = finished.run_folders()
    before = {op: models(old, op) for op in ("gemm", "cast")}
    finished.set_devices(CPU | {"torch": "2.14"}, CPU | {"device": "cpu-other"})

    jobs = finished.pending_with_folders()
    finished.run()

    assert before == {"gemm": {"calibrated"}, "cast": {"calibrated"}}
    (other,) = [run for run in finished.run_folders() if run.parent.name == "cpu-other"]
    (new,) = [run for run in finished.run_folders() if run not in (old, other)]
    predicted = sorted(f"results/{run.parent.name}/{run.name}" for run in (old, new, other))
    for op in ("gemm", "cast"):
        assert sorted(jobs[f"predict {op}"]) == predicted
        assert models(old, op) == {"calibrated", transferred_model(new.name)}
        assert models(new, op) == {"calibrated", transferred_model(old.name)}
        assert models(other, op) == {"calibrated"}
    assert "Nothing to be done" in finished.run()


def test_a_published_environment_predicts_what_is_measured_here_and_the_other_way_round(
    finished: Checkout, published: Path
) -> None:
    finished.run(*AGAIN)

    (here,) = finished.run_folders()
    replay = finished.folder / "results/replay" / published.parent.name / published.name
    assert models(here, "gemm") == {"calibrated", transferred_model(published.name)}
    assert models(replay, "gemm") == {"calibrated", transferred_model(here.name)}
    assert "Nothing to be done" in finished.run(*AGAIN)
    jobs = finished.pending_with_folders("--config", "published=false")
    assert jobs["predict gemm"] == [f"results/{here.parent.name}/{here.name}"]


def test_published_runs_can_be_left_out(finished: Checkout, published: Path) -> None:
    assert "reports/published" in finished.run("--dry-run", "-p")
    assert "reports/published" not in finished.run("--dry-run", "-p", "--config", "published=false")


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
    fresh.write("roofcal/study/discover.py", "raise RuntimeError('looked for devices')\n")

    said = fresh.run("--dry-run", "-p", "--cores", "16", "--config", f"devices=[{name}]")

    assert f"results/{name}/measurements/gemm.jsonl" in said
    assert "gpu=1" in said
    assert "threads: 4" in said


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
