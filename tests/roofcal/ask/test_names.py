"""Short names of devices and recipes."""

import pytest

from roofcal.ask.names import device_ids, device_named, recipe_named
from roofcal.models.errors import PredictError


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
    assert device_named(text) == device


def test_every_id_is_its_own_name() -> None:
    assert [device_named(device) for device in device_ids()] == device_ids()


def test_a_part_of_several_ids_is_refused() -> None:
    with pytest.raises(PredictError, match="may be any of: nvidia-h100-nvl, nvidia-h100-pcie"):
        device_named("h100")


def test_an_alias_is_understood_where_its_recipe_exists() -> None:
    assert recipe_named("rowwise", ("bf16", "fp8_axiswise")) == "fp8_axiswise"
    assert recipe_named("rowwise", ("bf16", "rowwise")) == "rowwise"
    assert recipe_named("rowwise", ("bf16",)) == "rowwise"
