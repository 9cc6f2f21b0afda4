"""Published and listed runs: shown without a device, measured without looking for one."""

import json
import shutil
from pathlib import Path

import pytest

from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import read_records
from roofcal.core.records import Environment, Prediction
from tests.workflow.checkout import CPU, Checkout, jobs_in, write_gpu

pytestmark = pytest.mark.slow
AGAIN = ("--config", "published=again")


@pytest.fixture
def published(finished: Checkout) -> Path:
    """A published run in a checkout that has no results."""
    (run,) = finished.run_folders()
    target = finished.publish(run)
    shutil.rmtree(finished.folder / "results")
    finished.set_devices(CPU | {"torch": "2.14"})
    return target


def test_a_published_run_is_shown_as_it_was_frozen(finished: Checkout, published: Path) -> None:
    before = {file: file.read_bytes() for file in published.rglob("*") if file.is_file()}

    said = finished.run("--dry-run", "-p")
    without = finished.run("--dry-run", "-p", "--config", "published=false")
    assert ("reports/published" in said, "reports/published" in without) == (True, False)
    finished.run()

    (here,) = finished.run_folders()
    jobs = jobs_in(said)
    folders = {folder for name in jobs if name not in ("report", "all") for folder in jobs[name]}
    assert folders == {f"results/{here.parent.name}/{here.name}"}
    assert {f: f.read_bytes() for f in published.rglob("*") if f.is_file()} == before
    assert f"reports/published/{published.parent.name}/{published.name} gemm" in finished.text(
        "results/report/details.html"
    )
    assert "Nothing to be done" in finished.run()


def test_an_edited_publication_is_named_and_left_out(finished: Checkout, published: Path) -> None:
    (published / "llm.csv").write_text("model,recipe\nedited\n")

    said = finished.run("--dry-run", "-p")

    folder = str(published.relative_to(finished.folder))
    assert f"{folder} is left out of the report" in said
    assert "--run=results/" in said
    assert f"--run={folder}" not in said


def test_a_published_run_is_calibrated_and_predicted_anew_and_predicts_what_is_measured_here(
    finished: Checkout, published: Path
) -> None:
    before = {file: file.read_bytes() for file in published.rglob("*") if file.is_file()}
    replay = finished.folder / "results/replay" / published.parent.name / published.name

    jobs = finished.pending_with_folders(*AGAIN)
    finished.run(*AGAIN)

    replayed = {job for job, folders in jobs.items() if any("replay" in f for f in folders)}
    predictions = {"predict gemm", "predict cast"}
    assert replayed == {"calibrate", "breakeven", "llm"} | predictions
    written = {str(file.relative_to(replay)) for file in replay.rglob("*.jsonl")}
    assert written == {"calibration.jsonl", "predictions/gemm.jsonl", "predictions/cast.jsonl"}
    assert {f: f.read_bytes() for f in published.rglob("*") if f.is_file()} == before
    assert (replay / "breakeven.csv").is_file()
    assert (replay / "llm.csv").is_file()
    assert published.name in finished.text("results/report/details.html")

    (here,) = finished.run_folders()
    assert models(here, "gemm") == {"calibrated", transferred_model(published.name)}
    assert models(replay, "gemm") == {"calibrated", transferred_model(here.name)}
    assert "Nothing to be done" in finished.run(*AGAIN)
    without = finished.pending_with_folders("--config", "published=false")
    assert without["predict gemm"] == [f"results/{here.parent.name}/{here.name}"]


def models(run: Path, op: str) -> set[str]:
    return {p.model for p in read_records(run / f"predictions/{op}.jsonl", Prediction)}


def test_two_devices_are_measured_in_turn_and_a_new_environment_is_beside_the_old_one(
    finished: Checkout,
) -> None:
    """Environments of a device predict one another, and what moved between them is said."""
    (old,) = finished.run_folders()
    before = {op: models(old, op) for op in ("gemm", "cast")}
    held = {file: file.read_bytes() for file in old.rglob("*.jsonl")}
    finished.set_devices(CPU | {"torch": "2.14"}, CPU | {"device": "cpu-other"})

    finished.write("slow", "0.3")

    jobs = finished.pending_with_folders()
    finished.run("--cores", "16")  # the stand-in fails if another measurement is running

    for run in finished.run_folders():
        assert read_records(run / "environment.jsonl", Environment)[0].environment_id == run.name
    assert before == {"gemm": {"calibrated"}, "cast": {"calibrated"}}
    (other,) = [run for run in finished.run_folders() if run.parent.name == "cpu-other"]
    (new,) = [run for run in finished.run_folders() if run not in (old, other)]
    predicted = sorted(f"results/{run.parent.name}/{run.name}" for run in (old, new, other))
    for op in ("gemm", "cast"):
        assert sorted(jobs[f"predict {op}"]) == predicted
        assert models(old, op) == {"calibrated", transferred_model(new.name)}
        assert models(new, op) == {"calibrated", transferred_model(old.name)}
        assert models(other, op) == {"calibrated"}
    for file, content in held.items():  # the new calibration predicts the old points, at the end
        is_prediction = file.parent.name == "predictions"
        added = file.read_bytes().removeprefix(content) if is_prediction else b""
        assert file.read_bytes() == content + added
        assert (transferred_model(new.name).encode() in added) == is_prediction
    here = str(new.relative_to(finished.folder))
    assert sorted(jobs["measure gemm"]) == [str(other.relative_to(finished.folder)), here]
    assert jobs["compare"] == [here]
    assert not (old / "moved.json").exists()
    pair = [f"{folder}={folder}" for folder in (str(old.relative_to(finished.folder)), here)]
    assert json.loads((new / "moved.json").read_text()) == pair
    report = finished.text("results/report/details.html")
    assert old.name in report
    assert new.name in report
    assert "Nothing to be done" in finished.run()


def test_a_listed_device_is_measured_and_none_is_looked_for(fresh: Checkout) -> None:
    name = str(write_gpu(fresh).relative_to(fresh.folder / "results"))
    fresh.write("roofcal/study/discover.py", "raise RuntimeError('looked for devices')\n")

    said = fresh.run("--dry-run", "-p", "--cores", "16", "--config", f"devices=[{name}]")

    assert f"results/{name}/measurements/gemm.jsonl" in said
    assert "gpu=1" in said
    assert "threads: 4" in said


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
