"""Sizes on the command line, the files of a device, and where text goes."""

from pathlib import Path

import pytest

from roofcal.ask.sources import datasheet, device_sources
from roofcal.cli.arguments import write_or_print
from roofcal.cli.main import main
from roofcal.models.errors import PredictError


@pytest.mark.parametrize("size", ["0", "-1", "1.5", "many", "1073741825", "1" * 400, "9" * 5000])
def test_a_size_is_a_whole_number_up_to_two_to_the_thirtieth(
    size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["predict", "--device", "made-up", "--m", size])
    assert caught.value.code == 2
    assert "is not a whole number from 1 to 1073741824" in capsys.readouterr().err


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
    described, other = datasheet("nvidia-h200"), datasheet("nvidia-l40s")
    assert described is not None
    assert described.wave is not None
    assert described.wave.compute_units == 132
    assert other is not None
    assert other.wave is None


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("device", "model", "place"),
    [
        ("made-up", "calibrated", "reports/published/made-up/e1"),
        ("nvidia-b200", "torchao", "config/devices/nvidia-b200.yaml"),
    ],
)
def test_the_calibrated_model_gets_the_calibration_and_others_the_datasheet(
    device: str, model: str, place: str
) -> None:
    sources, source_place = device_sources(device, None, model)
    assert (sources.calibration is not None) == (model == "calibrated")
    assert (sources.spec is None) == (model == "calibrated")
    assert source_place == Path(place)


@pytest.mark.usefixtures("checkout")
def test_a_device_that_nobody_calibrated_is_an_error() -> None:
    with pytest.raises(PredictError, match="made-up"):
        device_sources("made-op", None, "calibrated")
