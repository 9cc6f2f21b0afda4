"""The files of config/devices by device."""

import pytest

from roofcal.cli.places import datasheet


@pytest.mark.usefixtures("checkout")
def test_a_device_without_a_datasheet_has_none() -> None:
    known = datasheet("nvidia-h200")
    assert known is not None
    assert known.peak_flops_per_s["bf16"] > 0
    assert datasheet("made-up") is None


@pytest.mark.usefixtures("checkout")
def test_a_device_has_its_wave_description_where_its_file_has_one() -> None:
    described, other = datasheet("nvidia-h200"), datasheet("nvidia-b200")
    assert described is not None
    assert described.wave is not None
    assert described.wave.compute_units == 132
    assert other is not None
    assert other.wave is None
