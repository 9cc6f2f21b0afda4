"""Mistakes in a file of config/wave: all of them in one message."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from roofcal.models.errors import PredictError
from roofcal.models.wave.load import load_wave_device, missing_description
from tests.paths import ROOT

FOLDER = ROOT / "config" / "wave"


def raw(name: str = "nvidia-h200") -> Any:
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def written(folder: Path, content: Any, name: str = "nvidia-h200") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def refused(path: Path) -> str:
    with pytest.raises(PredictError) as caught:
        load_wave_device(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    return str(caught.value)


def test_units_of_the_file_become_si() -> None:
    device = load_wave_device(FOLDER / "nvidia-h200.yaml")
    assert device.clock_hz == 1.83e9
    assert device.lds_bytes == 228 * 1024
    assert device.dram_bytes_per_s == 4.8e12
    assert device.launch_s == 2e-6
    assert device.link_latency_s == pytest.approx(3.6e-6)
    assert device.link_bytes_per_s == 450e9
    assert device.tiles[0] == (64, 16)
    assert device.softmax_per_clock["exponential"] == 16


def test_the_notebooks_terms_are_read() -> None:
    terms = load_wave_device(FOLDER / "amd-mi300x-notebook.yaml").notebook
    assert terms is not None
    assert terms.launch_loss == 0.05
    assert terms.estimate_dram_bytes_per_s == pytest.approx(5.4272e12)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    content = raw()
    content["values"]["clock_mzh"] = content["values"].pop("clock_mhz")
    content["values"]["compute_units"]["value"] = "132"
    content["values"]["matrix_fraction"]["value"] = 1.5
    del content["values"]["softmax_per_clock"]["value"]["sum"]
    content["values"]["launch_us"]["source"] = "torchoa"
    said = refused(written(tmp_path, content))
    assert "values.clock_mzh: unknown key; did you mean 'clock_mhz'?" in said
    assert "values.clock_mhz: missing, and required" in said
    assert "values.compute_units.value: Input should be a valid integer (got '132')" in said
    assert "values.matrix_fraction.value: Input should be less than or equal to 1" in said
    assert "values.softmax_per_clock.value.sum: missing, and required" in said
    assert "values.launch_us.source: no source 'torchoa'; did you mean 'torchao'?" in said


def test_a_source_that_no_value_names_is_refused(tmp_path: Path) -> None:
    content = raw()
    content["sources"]["idle"] = {"title": "idle", "date": 2025}
    assert "sources.idle: no value names it" in refused(written(tmp_path, content))


def test_a_file_of_another_device_is_refused(tmp_path: Path) -> None:
    said = refused(written(tmp_path, raw(), "nvidia-h100"))
    assert "device: 'nvidia-h200' differs from the file name" in said


@pytest.mark.parametrize("text", ["a: [", "just text", ""])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert refused(written(tmp_path, text))


def test_a_missing_file_is_named_with_those_there_are() -> None:
    said = missing_description(FOLDER / "nvidia-h20.yaml")
    assert "config/wave/nvidia-h20.yaml; did you mean 'nvidia-h200'?" in said
    assert "knows amd-mi300x, amd-mi300x-notebook, nvidia-h200; describe another" in said


def test_a_missing_folder_leaves_no_device_to_name(tmp_path: Path) -> None:
    assert "x.yaml. The wave model knows no device; " in missing_description(tmp_path / "x.yaml")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "none.yaml")
