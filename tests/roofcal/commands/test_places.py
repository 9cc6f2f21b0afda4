"""Datasheets by device."""

import pytest

from roofcal.commands.places import datasheet


@pytest.mark.usefixtures("checkout")
def test_a_device_without_a_datasheet_has_none() -> None:
    known = datasheet("nvidia-h200")
    assert known is not None
    assert known.peak_flops_per_s["bf16"] > 0
    assert datasheet("made-up") is None
