"""`doctor`: a page for people, and environments for a cluster."""

import json
import time
from pathlib import Path

import pynvml
import pytest

from roofcal.cli.main import main
from roofcal.study.discover import Software
from tests.roofcal.core.machine.stand_in_nvml import plug_in


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
