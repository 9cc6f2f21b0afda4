"""The stages of a study, one by one: `plan`, `learning`, `report`; and `doctor`."""

import json
from pathlib import Path

import pynvml
import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement, PlanPoint
from roofcal.study.discover import Software
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.core.machine.stand_in_nvml import plug_in


def test_plan_writes_the_points_of_a_slice_or_counts_them(checkout: Path, shell: Shell) -> None:
    write_records(checkout / "environment.jsonl", [ENVIRONMENT])
    plan_slice = {
        "op": "gemm", "seed": 0, "contenders": {"bf16": ["cublaslt"]},
        "sweeps": {"s": {"cubes": [64, 128]}}, "models": {}, "sentinel": [],
    }  # fmt: skip
    asked = f"plan --environment environment.jsonl --slice '{json.dumps(plan_slice)}'"
    shell.text(f"{asked} --out plan.jsonl")
    points = read_records(checkout / "plan.jsonl", PlanPoint)
    assert sorted(point.shape["m"] for point in points) == [64, 128]
    said = shell.text("plan --study quick")
    assert "probe_math" in said
    assert "points in" in said
    (summary,) = shell.json("plan --study quick --op cast")
    assert summary["ops"]["cast"]["points"] > 0


def test_the_file_of_learning_holds_what_is_printed(checkout: Path, shell: Shell) -> None:
    run = write_run(checkout / "results/made-up/e1")
    path = run / "measurements/probe_math.jsonl"
    write_records(path, read_records(path, Measurement)[:22])
    shell.text(f"learning --run {run} --out deep/learning.csv")
    printed = shell.text(f"learning --run {run}")
    assert (checkout / "deep/learning.csv").read_text() == printed
    assert "\ngemm,bf16,made,12,4,10," in printed


def test_a_replay_names_the_folder_of_its_derived_files(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    seen: list[list[tuple[Path, Path]]] = []

    def write_report(runs: list[tuple[Path, Path]], *_: object) -> list[str]:
        seen.append(runs)
        return ["Rates: bf16 700 TFLOP/s."]

    monkeypatch.setattr("roofcal.report.write.write_report", write_report)
    runs = "--run here --run reports/published/a=results/replay/a"
    said = shell.text(f"report {runs} --out page.html")
    replay = (Path("reports/published/a"), Path("results/replay/a"))
    assert seen == [[(Path("here"), Path("here")), replay]]
    assert said == f"Rates: bf16 700 TFLOP/s.\nreport: {checkout / 'page.html'}\n"


def test_doctor_says_what_is_here_and_writes_the_environment_of_a_node(
    checkout: Path, shell: Shell
) -> None:
    said = shell.text("doctor")
    for title in ("Processors", "Software", "Machine", "A study here"):
        assert title in said
    assert "Software" in shell.json("doctor")
    path = Path(shell.text("doctor --write-environment results").strip().splitlines()[0])
    assert (checkout / path).is_file()
    assert path.name == "environment.jsonl"


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("as_json", [False, True])
def test_doctor_says_all_it_knows_of_a_machine_whose_study_is_refused(
    monkeypatch: pytest.MonkeyPatch, shell: Shell, as_json: bool
) -> None:
    nvml = plug_in(monkeypatch)
    nvml.errors["nvmlDeviceGetHandleByIndex", "GPU-b"] = pynvml.NVML_ERROR_GPU_IS_LOST
    none = Software(torch="2.13.0+cpu", cuda=None, triton="3.6.0", cublas=None, nccl=None)
    monkeypatch.setattr("roofcal.study.discover.installed_software", lambda: none)
    assert shell.run(f"doctor {'--json' * as_json}") == 2
    assert "error: torch 2.13.0+cpu is built without CUDA" in shell.err
    text = shell.out
    if as_json:
        text = "\n".join(line for part in json.loads(text).values() for line in part)
    assert "GPU 1 is left out: it does not answer (NVML: GPU is lost)" in text
    assert "is refused: torch 2.13.0+cpu is built without CUDA" in text
