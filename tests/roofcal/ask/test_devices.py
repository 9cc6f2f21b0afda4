"""Short names of devices and recipes, and what a model of time reads of a device."""

from pathlib import Path

import pytest

from roofcal.ask.devices import datasheet, device_choice, device_sources
from roofcal.ask.points import recipe_named
from roofcal.core import paths
from roofcal.core.files import write_bytes
from roofcal.models.errors import CalibrationWarning, PredictError


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("h200", "nvidia-h200"),
        ("H200", "nvidia-h200"),
        ("NVIDIA H200", "nvidia-h200"),
        ("h200-nvl", "nvidia-h200-nvl"),
        ("4090", "nvidia-rtx-4090"),
        ("mi300x", "amd-mi300x"),
        ("h20", "h20"),  # a device of its own, which nobody described
        ("nothing", "nothing"),
    ],
)
def test_a_device_is_named_by_a_part_of_its_id(text: str, device: str) -> None:
    assert device_choice(text) == (device, "")


def test_of_several_devices_the_only_one_that_was_measured_is_meant_and_the_remark_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("PUBLISHED", "REPLAY", "RESULTS"):
        monkeypatch.setattr(paths, folder, tmp_path / folder.lower())
    with pytest.raises(PredictError, match=r"may be any of: .*nvidia-h100-sxm$"):
        device_choice("h100")
    for folder in ("published/nvidia-h100-sxm", "results/nvidia-h100-sxm", "results/nvidia-h200"):
        write_bytes(tmp_path / folder / "environment/calibration.jsonl", b"")
    device, remark = device_choice("h100")
    assert device == "nvidia-h100-sxm"
    assert remark == (
        "'h100' is taken as nvidia-h100-sxm, which was measured; not nvidia-h100-nvl, "
        "nvidia-h100-pcie"
    )
    assert device_choice("h100-sxm") == ("nvidia-h100-sxm", "")
    write_bytes(tmp_path / "results/nvidia-h100-pcie/environment/calibration.jsonl", b"")
    with pytest.raises(PredictError, match=r"; measured: nvidia-h100-pcie, nvidia-h100-sxm$"):
        device_choice("h100")


def test_an_alias_is_understood_where_its_recipe_exists() -> None:
    assert recipe_named("rowwise", ("bf16", "fp8_axiswise")) == "fp8_axiswise"
    assert recipe_named("rowwise", ("bf16", "rowwise")) == "rowwise"
    assert recipe_named("rowwise", ("bf16",)) == "rowwise"


@pytest.mark.usefixtures("checkout")
def test_of_a_device_that_nobody_measured_a_warning_says_whose_constants_answer() -> None:
    with pytest.warns(CalibrationWarning, match="nobody measured nvidia-h100-nvl") as caught:
        sources, place = device_sources("nvidia-h100-nvl", None, "calibrated")
    assert "(sm_90.jsonl)" in str(caught[0].message)
    assert sources.calibration is not None
    assert sources.calibration.device == "nvidia-h100-nvl"
    assert sources.spec == datasheet("nvidia-h100-nvl")
    assert place == Path("config/priors/sm_90.jsonl")
    with pytest.raises(PredictError, match="no calibration of device 'nvidia-a100-sxm-80gb'"):
        device_sources("nvidia-a100-sxm-80gb", None, "calibrated")
