"""Sizes on the command line, the files of a device, and where text goes."""

from pathlib import Path

import pytest

from roofcal.ask.devices import datasheet, device_sources
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


SIZES = ["64x4096x8192", "--device", "nvidia-h200"]


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict", "--points", "p.csv", "--recipe", "bf16", "--m", "4"], "--recipe, --m do not"),
        (["predict", "--points", "p.csv", "64x64x64"], "MxNxK does not go with --points"),
        (["predict", "--run", "r", "--device", "made-up"], "--device does not go with --run"),
        (["predict", "--run", "r", "--points", "p.csv"], "--points does not go with --run"),
        (["predict", "--run", "r", "--world-size", "1"], "--world-size does not go with --run"),
        (["predict", *SIZES, "--out", "o"], "--out needs --symbolic or --run or --points"),
        (["predict", *SIZES, "--also", "c", "--linear"], "--also needs --run; --linear needs --sy"),
        (["predict", "4x4", "--op", "cast", "--recipe", "fp8_tensorwise", "--m", "4",
          "--device", "made-up"], "--m does not go with --op cast"),
        (["predict", *SIZES, "--model", "wave", "--environment", "e"], "'wave' reads no calibra"),
        (["judge", "p.csv", "--device", "nvidia-h200", "--model", "torchao", "--environment", "e"],
         "model 'torchao' reads no calibration: leave out the environment 'e'"),
        (["advise", "--shapes", "s.csv", "--energy", "4x4x4"], "--energy, MxNxK do not go with --"),
        (["advise", *SIZES, "--out", "o"], "--out needs --shapes"),
        (["breakeven", "--run", "r", "--model", "wave"], "--model does not go with --run"),
        (["breakeven", "4x4", "--out", "o"], "--out needs --run"),
        (["breakeven", "4x4", "--casts", "none", "--weights", "cast"], "--weights does not go wit"),
        (["llm", "--run", "r", "--batch", "1"], "--batch does not go with --run"),
        (["llm", "--sweep", "--tp", "2", "--batch", "4"], "--tp, --batch do not go with --sweep"),
        (["llm", "--sweep", "--curve"], "--curve does not go with --sweep"),
        (["llm", "--curve", "--tp", "2", "--batch", "4"],
         "--batch does not go with --curve at a given --tp or --pp"),
        (["llm", "--curve", "--price-per-hour", "2"], "--price-per-hour does not go with --curve"),
        (["llm", "--gpus", "4"], "--gpus needs --sweep"),
        (["llm", "--by", "notebook", "--batch", "4"], "--batch does not go with --by notebook"),
        (["claims", "--environment", "e"], "--environment needs --device"),
        (["health", "--node", "n"], "--node needs --every-card"),
        (["health", "--every-card", "--json"], "--json does not go with --every-card"),
        (["doctor", "--profile", "p", "--json"], "--json does not go with --profile"),
        (["doctor", "--write-environment", "w", "--json"], "--json does not go with --write-env"),
        (["plan", "--slice", "{}"], "--slice needs --out"),
        (["plan", "--out", "o", "--study", "quick"], "--study does not go with --out"),
        (["plan", "--out", "o", "--op", "cast", "--environment", "e", "--slice", '{"op": "gemm"}'],
         "--op cast, and --slice is of op gemm"),
    ],
)  # fmt: skip
def test_an_argument_that_would_not_be_read_is_refused_by_its_name(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert says in message
    assert message.count("\n") == 1


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
