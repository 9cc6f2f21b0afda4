"""Sizes on the command line, the files of a device, and where text goes."""

from pathlib import Path

import pytest

from roofcal.cli.arguments import datasheet, device_sources, write_or_print
from roofcal.cli.main import main
from roofcal.models.errors import PredictError


@pytest.mark.parametrize("size", ["0", "-1", "1.5", "many"])
def test_a_size_is_a_whole_number_above_zero(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["predict", "--device", "made-up", "--m", size])
    assert caught.value.code == 2
    assert "is not a whole number above 0" in capsys.readouterr().err


def test_text_goes_to_the_file_or_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_or_print("a,b\n", tmp_path / "deep/out.csv")
    assert (tmp_path / "deep/out.csv").read_text() == "a,b\n"
    assert capsys.readouterr().out == ""
    write_or_print("a,b\n", None)
    assert capsys.readouterr().out == "a,b\n"


@pytest.mark.usefixtures("checkout")
def test_a_device_without_a_datasheet_has_none() -> None:
    sheet = datasheet("nvidia-h200")
    assert sheet is not None
    assert sheet.peak_flops_per_s["bf16"] > 0
    assert datasheet("made-up") is None


@pytest.mark.usefixtures("checkout")
def test_a_device_has_its_wave_description_where_its_file_has_one() -> None:
    described, other = datasheet("nvidia-h200"), datasheet("nvidia-b200")
    assert described is not None
    assert described.wave is not None
    assert described.wave.compute_units == 132
    assert other is not None
    assert other.wave is None


@pytest.mark.usefixtures("checkout")
def test_the_calibrated_model_gets_the_calibration() -> None:
    sources, place = device_sources("made-up", None, "calibrated")
    assert sources.calibration is not None
    assert sources.spec is None
    assert place == Path("reports/published/made-up/e1")


@pytest.mark.usefixtures("checkout")
def test_other_models_get_the_datasheet() -> None:
    sources, place = device_sources("nvidia-b200", None, "torchao")
    assert sources.spec is not None
    assert sources.calibration is None
    assert place == Path("config/devices/nvidia-b200.yaml")


@pytest.mark.usefixtures("checkout")
def test_a_device_that_nobody_calibrated_is_an_error() -> None:
    with pytest.raises(PredictError, match="made-up"):
        device_sources("made-op", None, "calibrated")
