"""The notebook's device is read from the file beside its formulas, all mistakes at once."""

from pathlib import Path

import pytest
import yaml

from roofcal.core.yaml_files import ConfigError
from roofcal.models.wave.notebook.device import FILE, load_notebook_device


def test_the_notebooks_numbers_are_read_in_si() -> None:
    device = load_notebook_device()
    assert device.launch_loss == 0.05
    assert device.estimate_dram_bytes_per_s == pytest.approx(5.4272e12)
    assert device.link_bytes_per_s == 448e9
    assert (device.dram_bytes_per_s, device.dram_bytes) == (6.5536e12, 192e9)
    assert device.matrix_flops_per_clock["bf16"] == 2048


def test_mistakes_are_named_with_their_place(tmp_path: Path) -> None:
    content = yaml.safe_load(FILE.read_text())
    content["notebook"]["write_fraction"]["value"] = 1.5
    content["notebook"]["launch_loss"]["source"] = "sistem"
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as caught:
        load_notebook_device(path)
    range_error, source_error = str(caught.value).splitlines()
    assert range_error.startswith(f"{path}: notebook.write_fraction.value: Input should be less")
    assert source_error.startswith(f"{path}: notebook.launch_loss.source: no source 'sistem'; did")
