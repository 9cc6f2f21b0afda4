"""Each model gets the files it reads, and no other."""

from pathlib import Path

import pytest

from roofcal.cli.device_sources import device_sources
from roofcal.models.errors import PredictError

pytestmark = pytest.mark.usefixtures("checkout")


def test_the_calibrated_model_gets_the_calibration() -> None:
    sources, place = device_sources("made-up", None, "calibrated")
    assert sources.calibration is not None
    assert sources.spec is None
    assert place == Path("reports/published/made-up/e1")


def test_other_models_get_the_datasheet() -> None:
    sources, place = device_sources("nvidia-b200", None, "torchao")
    assert sources.spec is not None
    assert sources.calibration is None
    assert place == Path("config/devices/nvidia-b200.yaml")


def test_a_device_that_nobody_calibrated_is_an_error() -> None:
    with pytest.raises(PredictError, match="made-up"):
        device_sources("made-op", None, "calibrated")
