"""Published and listed runs: shown without a device, measured without looking for one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import read_records, read_single_record
from roofcal.core.records import Environment, Prediction
from tests.workflow.checkout import CPU, Checkout, write_gpu

pytestmark = pytest.mark.slow
AGAIN = ("--config", "published=again")
CASTS = ("--config", "ops=[cast]")


@pytest.fixture
def published(finished: Checkout) -> Path:
    """A publication of the device here, in an environment before that of its own run."""
    (run,) = finished.run_folders()
    before = replace(read_single_record(run / "environment.jsonl", Environment), torch="2.12")
    return finished.publish(run, before)


def test_a_published_run_is_shown_as_it_was_frozen_or_derived_anew_and_predicts_the_run_here(
    finished: Checkout, published: Path
) -> None:
    (here,) = finished.run_folders()
    before = {file: file.read_bytes() for file in published.rglob("*") if file.is_file()}
    replay = finished.folder / "results/replay" / published.parent.name / published.name

    jobs = finished.pending_with_folders()
    finished.run()

    folders = {folder for name in jobs if name not in ("report", "all") for folder in jobs[name]}
    assert folders == {f"results/{here.parent.name}/{here.name}"}
    frozen = f"reports/published/{published.parent.name}/{published.name} gemm"
    assert frozen in finished.text("results/report/details.html")
    assert "Nothing to be done" in finished.run()

    jobs = finished.pending_with_folders(*AGAIN)
    finished.run(*AGAIN)

    replayed = {job for job, folders in jobs.items() if any("replay" in f for f in folders)}
    predictions = {"predict gemm", "predict cast"}
    assert replayed == {"calibrate", "breakeven", "llm"} | predictions
    written = {str(file.relative_to(replay)) for file in replay.rglob("*.jsonl")}
    assert written == {"calibration.jsonl", "predictions/gemm.jsonl", "predictions/cast.jsonl"}
    assert (replay / "breakeven.csv").is_file()
    assert (replay / "llm.csv").is_file()
    assert f"{published.name} gemm" in finished.text("results/report/details.html")
    assert {f: f.read_bytes() for f in published.rglob("*") if f.is_file()} == before

    assert models(here, "gemm") == {"calibrated", transferred_model(published.name)}
    assert models(replay, "gemm") == {"calibrated", transferred_model(here.name)}
    assert "Nothing to be done" in finished.run(*AGAIN)


def test_an_edited_publication_is_named_and_left_out(finished: Checkout, published: Path) -> None:
    assert f"--run={published}=" in finished.run("--dry-run", "-p")
    without = finished.run("--dry-run", "-p", "--config", "published=false")
    assert str(published) not in without
    (published / "llm.csv").write_text("model,recipe\nedited\n")

    said = finished.run("--dry-run", "-p", "--force", "report")

    assert f"{published} is left out of the report" in said
    assert "--run=results/" in said
    assert f"--run={published}" not in said


def models(run: Path, op: str) -> set[str]:
    return {p.model for p in read_records(run / f"predictions/{op}.jsonl", Prediction)}


def test_two_devices_are_measured_in_turn_and_a_new_environment_is_beside_the_old_one(
    finished: Checkout,
) -> None:
    """Environments of a device predict one another, and what moved between them is said."""
    (old,) = finished.run_folders()
    held = {file: file.read_bytes() for file in old.rglob("*.jsonl")}
    finished.set_devices(CPU | {"torch": "2.14"}, CPU | {"device": "cpu-other"})

    finished.write("slow", "0.3")

    jobs = finished.pending_with_folders(*CASTS)
    # The stand-in fails if another measurement is running.
    finished.run("--cores", "16", *CASTS)

    for run in finished.run_folders():
        assert read_records(run / "environment.jsonl", Environment)[0].environment_id == run.name
    (other,) = [run for run in finished.run_folders() if run.parent.name == "cpu-other"]
    (new,) = [run for run in finished.run_folders() if run not in (old, other)]
    predicted = sorted(f"results/{run.parent.name}/{run.name}" for run in (old, new, other))
    assert sorted(jobs["predict cast"]) == predicted
    assert models(old, "cast") == {"calibrated", transferred_model(new.name)}
    assert models(new, "cast") == {"calibrated", transferred_model(old.name)}
    assert models(other, "cast") == {"calibrated"}
    for file, content in held.items():  # the new calibration predicts the old points, at the end
        is_prediction = file.parent.name == "predictions"
        added = file.read_bytes().removeprefix(content) if is_prediction else b""
        assert file.read_bytes() == content + added
        assert (transferred_model(new.name).encode() in added) == is_prediction
    here = str(new.relative_to(finished.folder))
    assert sorted(jobs["measure cast"]) == [str(other.relative_to(finished.folder)), here]
    assert jobs["compare"] == [here]
    assert not (old / "moved.json").exists()
    pair = [f"{folder}={folder}" for folder in (str(old.relative_to(finished.folder)), here)]
    assert json.loads((new / "moved.json").read_text()) == pair
    report = finished.text("results/report/details.html")
    assert old.name in report
    assert new.name in report
    assert "Nothing to be done" in finished.run(*CASTS)


def test_a_listed_device_is_measured_and_none_is_looked_for(fresh: Checkout) -> None:
    name = str(write_gpu(fresh).relative_to(fresh.folder / "results"))
    fresh.write("roofcal/study/discover.py", "raise RuntimeError('looked for devices')\n")

    said = fresh.run("--dry-run", "-p", "--cores", "16", "--config", f"devices=[{name}]")

    assert f"results/{name}/measurements/gemm.jsonl" in said
    assert "gpu=1" in said
    assert "threads: 4" in said


def test_a_failure_shows_its_log_and_keeps_nothing_from_running_that_does_not_need_it(
    finished: Checkout,
) -> None:
    (run,) = finished.run_folders()
    for kind in ("measurements", "predictions"):
        for op in ("gemm", "cast"):
            (run / kind / f"{op}.jsonl").unlink()
    (finished.folder / "results/report/report.html").unlink()
    finished.write("fail", "measure gemm\npredict cast\n")

    done = finished.snakemake()

    assert done.returncode != 0
    for job in ("measure gemm", "predict cast"):
        assert f"error: {job}: the stand-in was told to fail" in done.stdout
    assert (run / "measurements/cast.jsonl").is_file()
    assert not (run / "measurements/gemm.jsonl").exists()

    (finished.folder / "fail").unlink()
    assert finished.pending() == {"measure gemm", "predict cast", "report", "all"}
