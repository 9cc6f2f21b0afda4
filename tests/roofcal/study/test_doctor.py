"""What the doctor says of cards it is shown."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.machine.nvml import Gpu
from roofcal.core.records import Environment
from roofcal.study import doctor
from roofcal.study.discover import DiscoverError, Software
from roofcal.study.doctor import product_drift
from tests.paths import ROOT
from tests.roofcal.core.machine.stand_in_nvml import plug_in

DEVICES = ROOT / "config/devices"
H200 = Gpu(
    uuid="GPU-test-doctor",
    name="NVIDIA H200",
    compute_units=132,
    memory_clock_hz=3.201e9,
    memory_bus_bits=6016,
    memory_bytes=150 << 30,
    memory_free_bytes=100 << 30,
    power_limit_w=700.0,
    ecc=True,
    mig=False,
    driver="580.1",
    process_ids=(),
    sm_clock_hz=345e6,
    max_sm_clock_hz=1980e6,
)
CUDA_TORCH = Software(torch="2.11.0", cuda="13.0", triton="3.6.0", cublas="13", nccl="2")


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU whose product repeats within 2 %, without the second that it takes to see it."""
    monkeypatch.setattr(doctor, "product_drift", lambda: 0.02)
    monkeypatch.setenv("ROOFCAL_LOCKS", "test_doctor")  # a study of this machine holds other locks


def said(
    monkeypatch: pytest.MonkeyPatch,
    gpus: list[Gpu],
    published: Path,
    software: Software = CUDA_TORCH,
) -> str:
    for module in ("roofcal.study.doctor", "roofcal.study.discover"):
        monkeypatch.setattr(f"{module}.visible_gpus", lambda: gpus)
        if gpus:
            monkeypatch.setattr(f"{module}.installed_software", lambda: software)
    return "\n".join(doctor.examine(DEVICES, published))


def test_a_known_card_has_its_datasheet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = said(monkeypatch, [H200], tmp_path)
    assert "datasheet: nvidia-h200" in text
    assert "SM clock 345 MHz now, 1980 MHz at most" in text
    assert "lock: free" in text
    assert "measures nvidia-h200 with every op" in text


def test_another_bandwidth_is_another_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = said(monkeypatch, [replace(H200, memory_bus_bits=3000)], tmp_path)
    assert "is not nvidia-h200" in text


def test_someone_elses_work_on_the_card_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = said(monkeypatch, [replace(H200, process_ids=(7, 8))], tmp_path)
    assert "2 other process(es)" in text


def test_without_a_gpu_the_cpu_is_measured_and_nothing_is_replayed_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = said(monkeypatch, [], tmp_path)
    assert "no NVIDIA GPU" in text
    assert "measures this CPU" in text
    assert "nothing is published" in text


def test_what_a_cpu_does_not_use_is_not_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    versions = Software(torch="2.13", cuda=None, triton="3.6.0", cublas=None, nccl=None)
    for module in ("roofcal.study.doctor", "roofcal.study.discover"):
        monkeypatch.setattr(f"{module}.installed_software", lambda: versions)
    text = said(monkeypatch, [], tmp_path)
    assert "triton: 3.6.0, not used on a CPU" in text
    assert "cuda: not needed on a CPU" in text
    assert "not found" not in text


def test_what_a_gpu_needs_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    software = replace(CUDA_TORCH, triton=None)
    assert "triton: not found" in said(monkeypatch, [H200], tmp_path, software)


def test_a_hidden_gpu_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plug_in(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES='' hides all NVIDIA GPUs" in said(monkeypatch, [], tmp_path)


def test_environments_are_written_where_the_study_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("roofcal.study.discover.visible_gpus", lambda: [H200])
    monkeypatch.setattr("roofcal.study.discover.installed_software", lambda: CUDA_TORCH)
    (path,) = doctor.write_environments(DEVICES, tmp_path)
    (environment,) = read_records(path, Environment)
    assert path.parent == tmp_path / "nvidia-h200" / environment.environment_id


@pytest.mark.parametrize(("share", "expected"), [(0.1, False), (0.5, True), (0.95, True)])
def test_a_busy_machine_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float, expected: bool
) -> None:
    monkeypatch.setattr(doctor, "busy_share", lambda: share)
    text = said(monkeypatch, [H200], tmp_path)
    assert f"kept busy by other processes for {share:.0%} of the time" in text
    assert ("disturbs every number on a CPU" in text) is expected
    assert ("and on a GPU too" in text) is (share > 0.9)


@pytest.mark.parametrize(("drift", "expected"), [(0.02, False), (0.3, True)])
def test_a_cpu_whose_times_do_not_repeat_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, drift: float, expected: bool
) -> None:
    monkeypatch.setattr(doctor, "product_drift", lambda: drift)
    text = said(monkeypatch, [], tmp_path)
    assert f"a small product moved by {100 * drift:.1f} % within a second" in text
    assert ("beyond 10% no number of a study can be trusted" in text) is expected
    assert "not checked: drifts of minutes" in text


def test_a_running_measurement_of_the_cpu_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "try_lock", lambda _: None)
    text = said(monkeypatch, [], tmp_path)
    assert "not checked: whether times repeat, because a measurement is running here" in text
    assert "small product" not in text


def test_the_doctor_says_that_it_does_not_check_the_clock_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = said(monkeypatch, [H200], tmp_path)
    assert "not checked: whether times of nvidia-h200 repeat and its clock holds" in text
    assert "small product" not in text


def test_a_torch_that_cannot_use_the_card_is_said_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines: list[str] = []
    software = replace(CUDA_TORCH, torch="2.13.0+cpu", cuda=None)
    for module in ("roofcal.study.doctor", "roofcal.study.discover"):
        monkeypatch.setattr(f"{module}.visible_gpus", lambda: [H200])
        monkeypatch.setattr(f"{module}.installed_software", lambda: software)
    with pytest.raises(DiscoverError, match="built without CUDA"):
        lines.extend(doctor.examine(DEVICES, tmp_path))
    text = "\n".join(lines)
    assert "NVIDIA H200, 132 SMs" in text
    assert "is refused: torch 2.13.0+cpu is built without CUDA" in lines[-1]
    assert "`make env TORCH=cuda`" in lines[-1]
    assert "with every op" not in text


def test_what_nvml_does_not_say_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gb10 = replace(H200, memory_bytes=None, memory_free_bytes=None, driver=None)
    text = said(monkeypatch, [gb10], tmp_path)
    assert "132 SMs, memory unknown (GPU-test-doctor)" in text
    assert "free memory unknown, driver unknown" in text


def test_a_slice_has_no_datasheet_and_neighbours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    part = replace(H200, name="NVIDIA H200 MIG 1g.18gb", compute_units=16, mig=True)
    text = said(monkeypatch, [part], tmp_path)
    assert "no file of config/devices lists the name 'NVIDIA H200 MIG 1g.18gb'" in text
    assert "what runs on its other slices" in text
    assert "measures nvidia-h200-mig-1g.18gb with every op" in text


def test_a_drift_under_a_cpu_quota_is_not_the_work_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "product_drift", lambda: 0.9)
    monkeypatch.setattr(doctor, "throttled_share", lambda _: 0.5)
    monkeypatch.setattr(doctor, "cpu_quota", lambda: 1.5)
    text = said(monkeypatch, [], tmp_path)
    assert "The CPU quota of the container stopped its threads in 50 % of periods" in text
    assert "the CPU quota of the container is 1.5 cores" in text
    assert "stop other work" not in text


def test_a_home_without_caches_is_named_with_the_variables_that_cure_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("TRITON_HOME", "/tmp")
    assert "without it set XDG_CACHE_HOME=FOLDER" in said(monkeypatch, [], tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp")
    assert "no caches can be kept" not in said(monkeypatch, [], tmp_path)


def test_the_drift_is_the_slowest_turn_over_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([9.0, 1.0, 1.1, 1.05, 1.0, 1.2])  # the first warms up
    monkeypatch.setattr(doctor, "_median_seconds", lambda *_: next(turns))
    assert product_drift() == pytest.approx(0.2)


def test_a_turn_has_one_product_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[int] = count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    assert product_drift(seconds=0.0) == 0.0
