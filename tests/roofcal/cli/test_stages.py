"""The stages of a study, one by one: `plan`, `measure`, `calibrate`, `learning`, `report`."""

import json
from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Calibration, Measurement, PlanPoint
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run


def test_plan_writes_the_points_of_a_slice(checkout: Path) -> None:
    write_records(checkout / "environment.jsonl", [ENVIRONMENT])
    plan_slice = {
        "op": "gemm",
        "seed": 0,
        "contenders": {"bf16": ["cublaslt"]},
        "sweeps": {"s": {"cubes": [64, 128]}},
        "models": {},
        "sentinel": [],
    }
    arguments = ["--environment", "environment.jsonl", "--slice", json.dumps(plan_slice)]
    assert main(["plan", *arguments, "--out", "plan.jsonl"]) == 0
    points = read_records(checkout / "plan.jsonl", PlanPoint)
    assert sorted(point.shape["m"] for point in points) == [64, 128]


@pytest.mark.usefixtures("checkout")
def test_plan_without_a_file_counts_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--study", "quick"]) == 0
    said = capsys.readouterr().out
    assert "probe_math" in said
    assert "points in" in said


ARGUMENTS = ["measure", "--plan", "p.jsonl", "--journal", "j.jsonl", "--out", "m.jsonl"]


def test_a_plan_of_an_unknown_op_is_refused_with_the_nearest_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "--op", "gem"]) == 2
    assert capsys.readouterr().err == "error: unknown op 'gem'; did you mean 'gemm'?\n"


def test_a_plan_of_another_machine_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(checkout / "environment.jsonl", [ENVIRONMENT])
    arguments = [*ARGUMENTS, "--environment", "environment.jsonl", "--timing", "{}"]
    assert main(arguments) == 2
    assert ENVIRONMENT.device in capsys.readouterr().err
    assert not (checkout / "m.jsonl").exists()


def test_only_a_status_that_exists_can_be_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*ARGUMENTS, "--environment", "e.jsonl", "--timing", "{}", "--retry", "okay"])
    assert caught.value.code == 2
    assert "out_of_memory" in capsys.readouterr().err


@pytest.mark.usefixtures("few_resamples")
def test_the_calibration_names_the_environment_it_was_fitted_on(checkout: Path) -> None:
    run = write_run(checkout / "results/made-up/e1", noise=0.01)
    assert main(["calibrate", "--run", str(run), "--out", "deep/calibration.jsonl"]) == 0
    (fitted,) = read_records(checkout / "deep/calibration.jsonl", Calibration)
    assert fitted.environment_id == ENVIRONMENT.environment_id
    assert fitted.constants


def test_the_file_holds_what_is_printed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(checkout / "results/made-up/e1")
    path = run / "measurements/probe_math.jsonl"
    write_records(path, read_records(path, Measurement)[:22])
    assert main(["learning", "--run", str(run), "--out", "deep/learning.csv"]) == 0
    assert main(["learning", "--run", str(run)]) == 0
    printed = capsys.readouterr().out
    assert (checkout / "deep/learning.csv").read_text() == printed
    assert "\ngemm,bf16,made,12,4,10," in printed


def test_a_folder_without_records_is_one_message(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learning", "--run", "no"]) == 2
    assert "no/environment.jsonl: no such records file" in capsys.readouterr().err


def test_a_replay_names_the_folder_of_its_derived_files(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[list[tuple[Path, Path]]] = []

    def write_report(runs: list[tuple[Path, Path]], *_: object) -> list[str]:
        seen.append(runs)
        return ["Rates: bf16 700 TFLOP/s."]

    monkeypatch.setattr("roofcal.report.write.write_report", write_report)
    runs = ["--run", "here", "--run", "reports/published/a=results/replay/a"]
    assert main(["report", *runs, "--out", "page.html"]) == 0
    replay = (Path("reports/published/a"), Path("results/replay/a"))
    assert seen == [[(Path("here"), Path("here")), replay]]
    said = f"Rates: bf16 700 TFLOP/s.\nreport: {checkout / 'page.html'}\n"
    assert capsys.readouterr().out == said
