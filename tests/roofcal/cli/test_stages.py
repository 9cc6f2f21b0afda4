"""The stages of a study, one by one: `plan`, `calibrate`, `learning`, `report`; and `doctor`."""

import json
import time
from pathlib import Path

import pynvml
import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Calibration, Measurement, PlanPoint
from roofcal.study.discover import Software
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.core.machine.stand_in_nvml import plug_in


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


@pytest.mark.usefixtures("checkout")
def test_doctor_says_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.perf_counter()
    assert main(["doctor"]) == 0
    assert time.perf_counter() - start < 5, "a person waits for it"
    said = capsys.readouterr().out
    for title in ("Processors", "Software", "Machine", "A study here"):
        assert title in said


def test_doctor_writes_the_environment_of_a_cluster_node(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--write-environment", "results"]) == 0
    path = Path(capsys.readouterr().out.strip().splitlines()[0])
    assert (checkout / path).is_file()
    assert path.name == "environment.jsonl"


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("as_json", [False, True])
def test_doctor_says_all_it_knows_of_a_machine_whose_study_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    nvml = plug_in(monkeypatch)
    nvml.errors["nvmlDeviceGetHandleByIndex", "GPU-b"] = pynvml.NVML_ERROR_GPU_IS_LOST
    none = Software(torch="2.13.0+cpu", cuda=None, triton="3.6.0", cublas=None, nccl=None)
    monkeypatch.setattr("roofcal.study.discover.installed_software", lambda: none)
    assert main(["doctor", *(["--json"] if as_json else [])]) == 2
    said = capsys.readouterr()
    assert "error: torch 2.13.0+cpu is built without CUDA" in said.err
    lines = [line for part in json.loads(said.out).values() for line in part] if as_json else []
    text = "\n".join(lines) if as_json else said.out
    assert "GPU 1 is left out: it does not answer (NVML: GPU is lost)" in text
    assert "is refused: torch 2.13.0+cpu is built without CUDA" in text
