"""Which environment a machine is, from what NVML, /proc and installed packages say."""

from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from roofcal.ops.visit_times import most_devices
from roofcal.study import discover as module
from roofcal.study.discover import (
    DiscoverError,
    Software,
    check_environment,
    cpu_name,
    discover,
    last_level_cache_bytes,
    left_out,
    slug,
)
from tests.roofcal.core.machine.stand_in_nvml import H200, plug_in
from tests.roofcal.study.test_doctor import CUDA_TORCH, DEVICES


def seen(monkeypatch: pytest.MonkeyPatch, *gpus: object, torch: Software = CUDA_TORCH) -> None:
    monkeypatch.setattr(module, "visible_gpus", lambda: list(gpus))
    if gpus:
        monkeypatch.setattr(module, "installed_software", lambda: torch)


def test_a_gpu_with_a_datasheet_has_its_name_and_equal_cards_are_one_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(H200, name="NVIDIA Something 9", uuid="GPU-2")
    custom = replace(H200, name="NVIDIA H100 80GB HBM3", memory_bus_bits=3000)  # another bandwidth
    seen(monkeypatch, H200, replace(H200, uuid="GPU-1"), other, custom)
    found, *others = discover(DEVICES)
    assert (found.device, found.vendor, found.compute_units) == ("nvidia-h200", "nvidia", 132)
    assert (found.driver, found.backend) == ("580.1", "cuda")
    assert [e.device for e in others] == ["nvidia-something-9", "nvidia-h100-80gb-hbm3"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"driver": "570.0"}, r"another environment.*driver 570\.0 -> 580\.1"),
        ({"device": "nvidia-b200"}, "for nvidia-b200; here is nvidia-h200"),
    ],
)
def test_an_environment_that_is_not_here_is_not_measured_and_the_difference_is_named(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], says: str
) -> None:
    seen(monkeypatch, H200)
    (here,) = discover(DEVICES)
    check_environment(here, DEVICES)
    with pytest.raises(DiscoverError, match=says):
        check_environment(replace(here, **changes), DEVICES)  # type: ignore[arg-type]


def test_without_torch_or_linux_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _name: None)
        with pytest.raises(DiscoverError, match="`make env` installs it"):
            discover(DEVICES)
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(DiscoverError, match="measures on Linux alone, and this is darwin"):
        discover(DEVICES)


def test_a_name_becomes_a_folder_name() -> None:
    assert slug("Intel(R) Xeon(R) Platinum 8480+") == "intel-xeon-platinum-8480"
    assert slug("AMD EPYC 9B14 96-Core Processor") == "amd-epyc-9b14-96-core-processor"


def test_the_cpu_name_is_that_of_the_first_processor(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Some CPU\nmodel name\t: Other\n")
    assert cpu_name(path) == "Some CPU"
    assert cpu_name(tmp_path / "none")


def test_the_largest_cache_is_the_last_level(tmp_path: Path) -> None:
    for index, size in enumerate(("48K", "2048K", "105M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}/size").write_text(size + "\n")
    assert last_level_cache_bytes(tmp_path) == 105 << 20
    assert last_level_cache_bytes(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("torch", "cuda", "runs", "says"),
    [
        ("2.13.0+cpu", None, (13, 0), "is built without CUDA.*`make env TORCH=cuda`"),
        ("2.11.0+rocm7.2", None, (12, 8), "is built without CUDA.*`make env TORCH=cuda12`"),
        ("2.11.0+cpu", None, (11, 4), "is built without CUDA.*install driver 525 or newer"),
        ("2.11.0", "13.0", (12, 8), "needs CUDA 13, and driver 580.1.*TORCH=cuda12`.*driver 580 "),
        ("2.11.0+cu128", "12.8", (11, 4), "needs CUDA 12.*install driver 525 or newer"),
        ("2.15.0", "14.0", (13, 0), "needs CUDA 14.*TORCH=cuda`.*, or install a newer driver;"),
        ("2.11.0+cpu", None, None, "is built without CUDA.*`make env TORCH=cuda` installs a build"),
    ],
)
def test_a_torch_that_cannot_use_the_card_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
    torch: str,
    cuda: str | None,
    runs: tuple[int, int] | None,
    says: str,
) -> None:
    seen(monkeypatch, replace(H200, cuda=runs), torch=replace(CUDA_TORCH, torch=torch, cuda=cuda))
    with pytest.raises(DiscoverError, match=says):
        discover(DEVICES)


@pytest.mark.parametrize(("cuda", "runs"), [("12.8", (12, 2)), ("12.8", (13, 0)), ("14.0", None)])
def test_a_torch_of_the_same_or_an_older_cuda_may_be_used(
    monkeypatch: pytest.MonkeyPatch, cuda: str, runs: tuple[int, int] | None
) -> None:
    """A driver runs every minor version of its CUDA and all before; None: it does not say."""
    seen(monkeypatch, replace(H200, cuda=runs), torch=replace(CUDA_TORCH, cuda=cuda))
    assert discover(DEVICES)[0].device == "nvidia-h200"


def refuse_all(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    nvml = plug_in(monkeypatch)
    nvml.errors = {("nvmlDeviceGetHandleByIndex", f"GPU-{name}"): code for name in "abc"}


def test_where_no_gpu_answers_the_cpu_is_not_measured_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_all(monkeypatch, pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(DiscoverError, match=r"GPU 2 is left out.*CUDA_VISIBLE_DEVICES= make study"):
        discover(DEVICES)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert discover(DEVICES)[0].vendor == "cpu"


def test_the_cpu_is_measured_where_gpus_are_of_other_jobs_and_they_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_all(monkeypatch, pynvml.NVML_ERROR_NO_PERMISSION)
    assert [environment.vendor for environment in discover(DEVICES)] == ["cpu"]
    assert [sentence.partition(":")[0] for sentence in left_out()] == [
        f"GPU {number} is left out" for number in range(3)
    ]


def test_a_slice_is_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed_software", lambda: CUDA_TORCH)
    plug_in(monkeypatch).slices = {"GPU-a": ["MIG-1", "MIG-2"]}
    part, whole = discover(DEVICES)
    assert (part.device, part.compute_units) == ("nvidia-h200-mig-1g.18gb", 16)
    assert (part.memory_bytes, part.mig) == (17 << 30, True)
    assert (whole.compute_units, whole.mig) == (132, False)
    assert [most_devices(one, 2) for one in (part, whole)] == [1, 2]


def test_a_cpu_quota_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch)
    free = discover(DEVICES)[0]
    monkeypatch.setattr(module, "cpu_quota", lambda: 1.5)
    monkeypatch.setattr(module, "usable_cores", lambda: 1)
    limited = discover(DEVICES)[0]
    assert (limited.threads, limited.compute_units, limited.cpu_quota_cores) == (1, 1, 1.5)
    assert limited.device.endswith("-1t")
    assert limited.environment_id != replace(limited, cpu_quota_cores=None).environment_id
    assert free.cpu_quota_cores is None
