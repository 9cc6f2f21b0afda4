"""Which environment a machine is, from what NVML, /proc and installed packages say."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.devices import load_devices
from roofcal.study import discover as module
from roofcal.study.discover import (
    DiscoverError,
    check_environment,
    cpu_name,
    device_id,
    discover,
    last_level_cache_bytes,
    slug,
)
from tests.roofcal.study.test_doctor import DEVICES, H200


def seen(monkeypatch: pytest.MonkeyPatch, *gpus: object) -> None:
    monkeypatch.setattr(module, "visible_gpus", lambda: list(gpus))


def test_a_gpu_with_a_datasheet_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, H200)
    (found,) = discover(DEVICES)
    assert (found.device, found.vendor, found.compute_units) == ("nvidia-h200", "nvidia", 132)
    assert found.driver == "580.1"
    assert found.backend == "cuda"


def test_equal_cards_are_one_environment_and_others_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(H200, name="NVIDIA Something 9", uuid="GPU-2")
    seen(monkeypatch, H200, replace(H200, uuid="GPU-1"), other)
    assert [e.device for e in discover(DEVICES)] == ["nvidia-h200", "nvidia-something-9"]


def test_a_card_of_another_bandwidth_has_no_datasheet() -> None:
    specs = load_devices(DEVICES)
    assert device_id(H200, specs) == "nvidia-h200"
    custom = replace(H200, name="NVIDIA H100 80GB HBM3", memory_bus_bits=3000)
    assert device_id(custom, specs) == "nvidia-h100-80gb-hbm3"


def test_without_a_gpu_it_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch)
    (found,) = discover(DEVICES)
    assert found.device.startswith("cpu-")
    assert found.threads == found.compute_units
    assert found.backend == "cpu"
    assert found.torch[0].isdigit()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Intel(R) Xeon(R) Platinum 8480+", "intel-xeon-platinum-8480"),
        ("AMD EPYC 9B14 96-Core Processor", "amd-epyc-9b14-96-core-processor"),
        ("NVIDIA GeForce RTX 4090", "nvidia-geforce-rtx-4090"),
    ],
)
def test_a_name_becomes_a_folder_name(name: str, short: str) -> None:
    assert slug(name) == short


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


def test_an_environment_that_is_here_may_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, H200)
    check_environment(discover(DEVICES)[0], DEVICES)


def test_another_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, H200)
    planned = replace(discover(DEVICES)[0], driver="570.0")
    with pytest.raises(DiscoverError, match=r"another environment.*driver 570\.0 -> 580\.1"):
        check_environment(planned, DEVICES)


def test_another_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, H200)
    planned = replace(discover(DEVICES)[0], device="nvidia-b200")
    with pytest.raises(DiscoverError, match="for nvidia-b200; here is nvidia-h200"):
        check_environment(planned, DEVICES)


def test_a_missing_torch_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DiscoverError, match="`make env` installs it"):
        discover(DEVICES)
