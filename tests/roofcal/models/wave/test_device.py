"""What follows from a description, and the descriptions there are beside the datasheets."""

import pytest

from roofcal.core.devices import load_devices
from roofcal.models.wave.load import load_wave_device
from tests.paths import ROOT
from tests.roofcal.models.runs import WAVE

CONFIG = ROOT / "config"
SPECS = load_devices(CONFIG / "devices")
DEVICES = {p.stem: load_wave_device(p) for p in sorted((CONFIG / "wave").glob("*.yaml"))}
ON_SALE = sorted(DEVICES.keys() & SPECS.keys())


def test_the_memory_and_cache_that_a_kernel_gets() -> None:
    assert WAVE.stream_bytes_per_s == pytest.approx(2e12)
    assert WAVE.l2_bytes_per_clock_and_unit == pytest.approx(80)


def test_the_devices_asked_for_are_described() -> None:
    assert ON_SALE == ["amd-mi300x", "nvidia-h200"]
    assert DEVICES.keys() - SPECS.keys() == {"amd-mi300x-notebook"}


@pytest.mark.parametrize("name", ON_SALE)
def test_a_description_agrees_with_the_datasheet(name: str) -> None:
    device, spec = DEVICES[name], SPECS[name]
    assert device.compute_units == spec.compute_units
    assert device.dram_bytes_per_s == spec.dram_bytes_per_s
    assert device.dram_bytes == spec.dram_bytes
    assert device.link_bytes_per_s == spec.link_bytes_per_s
    for dtype, per_clock in device.matrix_flops_per_clock.items():
        peak = per_clock * device.clock_hz * device.compute_units
        assert peak == pytest.approx(spec.peak_flops_per_s[dtype], rel=1e-3), dtype


@pytest.mark.parametrize("name", DEVICES)
def test_every_value_has_a_source(name: str) -> None:
    sources = DEVICES[name].sources
    assert all(len(source) > 20 for source in sources.values())
    assert len(sources) == (34 if DEVICES[name].notebook else 26)


def test_only_the_notebooks_device_has_its_terms() -> None:
    assert [name for name, device in DEVICES.items() if device.notebook] == ["amd-mi300x-notebook"]
