"""What the doctor says of cards and machines it is shown."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.machine.nvml import Gpu
from roofcal.study import discover, doctor
from roofcal.study.discover import DiscoverError, Software
from roofcal.study.doctor import product_drift
from tests.paths import ROOT
from tests.roofcal.core.machine.stand_in_nvml import H200, plug_in
from tests.roofcal.made_up_records import exactly
from tests.roofcal.models.runs import calibration as made_up

DEVICES = ROOT / "config/devices"
CUDA_TORCH = Software(torch="2.11.0", cuda="13.0", triton="3.6.0", cublas="13", nccl="2")
CPU_TORCH = Software(torch="2.13.0+cpu", cuda=None, triton="3.6.0", cublas=None, nccl=None)
Say = Callable[..., Iterator[str]]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Say:
    """What the doctor says of cards, line by line; it finds what it is told, and a steady CPU."""
    monkeypatch.setenv("ROOFCAL_LOCKS", "test_doctor")  # a study of this machine holds other locks
    answers = {"product_drift": 0.02, "busy_share": 0.0, "throttled_share": None}

    def examine(gpus: Sequence[Gpu], **found: Any) -> Iterator[str]:
        software = CUDA_TORCH if gpus else None
        answers_here = answers | {"visible_gpus": list(gpus), "installed_software": software}
        for name, answer in (answers_here | found).items():
            for module in (doctor, discover):
                if hasattr(module, name) and (name != "installed_software" or answer):
                    monkeypatch.setattr(module, name, lambda *_, answer=answer: answer)
        return doctor.examine(DEVICES, tmp_path)

    return examine


SLICE = replace(H200, name="NVIDIA H200 MIG 1g.18gb", compute_units=16, mig=True)
QUOTA = {"product_drift": 0.9, "throttled_share": 0.5, "cpu_quota": 1.5}
BUSY = "kept busy by other processes for"


# fmt: off
FOUND: list[tuple[list[Gpu], dict[str, Any], list[str], list[str]]] = [
    ([H200], {}, ["datasheet: nvidia-h200", "SM clock 345 MHz now, 1980 MHz at most", "lock: free",
                  "measures nvidia-h200 with every op of config",
                  "not checked: whether times of nvidia-h200 repeat"], ["small product"]),
    ([replace(H200, memory_bus_bits=3000, process_ids=(7, 8), memory_bytes=None,
              memory_free_bytes=None, driver=None)], {},
     ["is not nvidia-h200", "2 other process(es)", "SMs, memory unknown (GPU-1)",
      "free memory unknown, driver unknown"], []),
    ([SLICE], {}, ["no file of config/devices lists the name 'NVIDIA H200 MIG 1g.18gb'",
                   "what runs on its other slices",
                   "measures nvidia-h200-mig-1g.18gb with every op"], []),
    ([], {}, ["no NVIDIA GPU", "measures this CPU", "nothing is published",
              "moved by 2.0 % within a second", "not checked: drifts of minutes"],
     ["can be trusted"]),
    ([], {"installed_software": CPU_TORCH},
     ["triton: 3.6.0, not used on a CPU", "cuda: not needed on a CPU"], ["not found"]),
    ([H200], {"installed_software": replace(CUDA_TORCH, triton=None), "busy_share": 0.1},
     ["triton: not found", f"{BUSY} 10% of the time"], ["disturbs"]),
    ([H200], {"busy_share": 0.5}, ["disturbs every number on a CPU"], ["on a GPU too"]),
    ([H200], {"busy_share": 0.95}, ["disturbs every number on a CPU, and on a GPU too"], []),
    ([], {"product_drift": 0.3},
     ["moved by 30.0 %", "beyond 10% no number of a study can be trusted"], []),
    ([], {"try_lock": None},
     ["not checked: whether times repeat, because a measurement is running here"],
     ["small product"]),
    ([], QUOTA, ["The CPU quota of the container stopped its threads in 50 % of periods",
                 "the CPU quota of the container is 1.5 cores"], ["stop other work"]),
]
# fmt: on


@pytest.mark.parametrize(("gpus", "found", "says", "says_not"), FOUND)
def test_what_was_found_is_said(
    say: Say, gpus: list[Gpu], found: dict[str, Any], says: list[str], says_not: list[str]
) -> None:
    text = "\n".join(say(gpus, **found))
    assert [part for part in says if part not in text] == []
    assert [part for part in says_not if part in text] == []


def test_a_hidden_gpu_is_explained(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES='' hides all NVIDIA GPUs" in "\n".join(say([]))


def test_a_torch_that_cannot_use_the_card_is_said_with_the_way_out(say: Say) -> None:
    lines: list[str] = []
    with pytest.raises(DiscoverError, match="built without CUDA"):
        lines.extend(say([H200], installed_software=CPU_TORCH))
    text = "\n".join(lines)
    assert "NVIDIA H200, 132 SMs" in text
    assert "is refused: torch 2.13.0+cpu is built without CUDA" in lines[1]
    assert "`make env TORCH=cuda`" in lines[1]
    assert "with every op" not in text


def test_a_home_without_caches_is_named_with_the_variables_that_cure_it(
    say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("TRITON_HOME", "/tmp")
    assert "without it set XDG_CACHE_HOME=FOLDER" in "\n".join(say([]))
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp")
    assert "no caches can be kept" not in "\n".join(say([]))


def test_the_drift_is_the_slowest_turn_over_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[int] = count()
    with monkeypatch.context() as patch:  # a turn has one product at least
        patch.setattr("time.perf_counter", lambda: float(next(clock)))
        assert product_drift(seconds=0.0) == 0.0
    turns = iter([9.0, 1.0, 1.1, 1.05, 1.0, 1.2])  # the first warms up
    monkeypatch.setattr(doctor, "_median_seconds", lambda *_: next(turns))
    assert product_drift() == pytest.approx(0.2)


def test_a_card_that_was_measured_slower_than_published_ones_is_named(
    say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "RESULTS", tmp_path / "results")
    before = list(say([H200]))
    name = next(line.split("environment ")[1] for line in before if ": environment " in line)
    slow = exactly(0.5 * 4.8e12, "B/s")
    calibration = replace(made_up(), constants={"dram_read_bytes_per_s": slow})
    file = tmp_path / "results/nvidia-h200" / name / "calibration.jsonl"
    write_records(file, [replace(calibration, device="nvidia-h200", environment_id=name)])
    (line,) = (line for line in say([H200]) if "as measured here" in line)
    assert line not in before
    assert line.startswith("    as measured here, memory reads are 4")
    assert line.endswith("% slower than nvidia-h200 as published")
