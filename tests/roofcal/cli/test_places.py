"""Datasheets, and descriptions for the wave model, by device."""

import pytest

from roofcal.cli.places import datasheet, wave_device


@pytest.mark.usefixtures("checkout")
def test_a_device_without_a_datasheet_has_none() -> None:
    known = datasheet("nvidia-h200")
    assert known is not None
    assert known.peak_flops_per_s["bf16"] > 0
    assert datasheet("made-up") is None


@pytest.mark.usefixtures("checkout")
def test_a_device_without_a_wave_file_has_none() -> None:
    known = wave_device("nvidia-h200")
    assert known is not None
    assert known.compute_units == 132
    assert wave_device("made-up") is None
