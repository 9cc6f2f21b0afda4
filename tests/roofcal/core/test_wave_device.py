"""Section `wave` of a device's file, and what follows from it."""

from pathlib import Path

import pytest
import yaml

from roofcal.core.devices import load_device, load_devices
from roofcal.core.yaml_files import ConfigError
from tests.paths import ROOT
from tests.roofcal.models.runs import WAVE

FOLDER = ROOT / "config" / "devices"
SPECS = load_devices(FOLDER)
DESCRIBED = [
    *("amd-mi300x", "amd-mi325x", "amd-mi355x"),
    *("nvidia-b200", "nvidia-b300", "nvidia-gb200", "nvidia-h200"),
]


def test_the_memory_and_cache_that_a_kernel_gets() -> None:
    assert WAVE.stream_bytes_per_s == pytest.approx(2e12)
    assert WAVE.l2_bytes_per_clock_and_unit == pytest.approx(80)


def test_the_devices_asked_for_are_described() -> None:
    assert [name for name, spec in SPECS.items() if spec.wave is not None] == DESCRIBED


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_description_agrees_with_the_datasheet(name: str) -> None:
    spec, device = SPECS[name], SPECS[name].wave
    assert device is not None
    assert device.compute_units == spec.compute_units
    assert device.dram_bytes_per_s == spec.dram_bytes_per_s
    assert device.dram_bytes == spec.dram_bytes
    assert device.link_bytes_per_s == spec.link_bytes_per_s
    for dtype, per_clock in device.matrix_flops_per_clock.items():
        peak = per_clock * device.clock_hz * device.compute_units
        assert peak == pytest.approx(spec.peak_flops_per_s[dtype], rel=1e-3), dtype


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_value_has_a_source(name: str) -> None:
    sources = SPECS[name].wave_sources
    assert all(len(source) > 20 for source in sources.values())
    assert len(sources) == 22


def test_units_of_the_file_become_si() -> None:
    device = SPECS["nvidia-h200"].wave
    assert device is not None
    assert device.clock_hz == 1.83e9
    assert device.lds_bytes == 228 * 1024
    assert device.dram_bytes_per_s == 4.8e12
    assert device.launch_s == 2e-6
    assert device.link_latency_s == pytest.approx(3.6e-6)
    assert device.link_bytes_per_s == 450e9
    assert device.tiles[0] == (64, 16)
    assert device.softmax_per_clock["exponential"] == 16


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    content = yaml.safe_load((FOLDER / "nvidia-h200.yaml").read_text())
    wave = content["wave"]
    wave["clock_mzh"] = wave.pop("clock_mhz")
    wave["lds_kib"]["value"] = "132"
    wave["matrix_fraction"]["value"] = 1.5
    del wave["softmax_per_clock"]["value"]["sum"]
    wave["launch_us"]["source"] = "torchoa"
    said = refused(tmp_path, content)
    for message in (
        "wave.clock_mzh: unknown key; did you mean 'clock_mhz'?",
        "wave.clock_mhz: missing, and required",
        "wave.lds_kib.value: Input should be a valid integer (got '132')",
        "wave.matrix_fraction.value: Input should be less than or equal to 1",
        "wave.softmax_per_clock.value.sum: missing, and required",
        "wave.launch_us.source: no source 'torchoa'; did you mean 'torchao'?",
    ):
        assert message in said


def test_a_description_without_a_link_is_refused(tmp_path: Path) -> None:
    content = yaml.safe_load((FOLDER / "nvidia-h200.yaml").read_text())
    del content["values"]["link_gb_per_s"]
    assert "values.link_gb_per_s: missing, and section `wave` needs it" in refused(
        tmp_path, content
    )


def refused(folder: Path, content: object) -> str:
    path = folder / "nvidia-h200.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as caught:
        load_device(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    return str(caught.value)
