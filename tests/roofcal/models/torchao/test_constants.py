"""torchao's devices by name of ours, and the rule for the others."""

from dataclasses import replace

import pytest

from roofcal.core.devices import load_devices
from roofcal.models.errors import PredictError
from roofcal.models.torchao.constants import (
    SETS,
    check_name,
    choose_constants,
    from_datasheet,
)
from tests.paths import ROOT
from tests.roofcal.models.runs import SPEC

DEVICES = ROOT / "config/devices"


def test_every_device_of_torchao_is_one_of_ours() -> None:
    ours = load_devices(DEVICES)
    assert {device for rows in SETS.values() for device in rows} <= ours.keys()


def test_torchaos_peaks_are_the_datasheets_to_a_tenth() -> None:
    """Bandwidth apart: torchao's H100 is a custom board."""
    ours = load_devices(DEVICES)
    for rows in SETS.values():
        for device, constants in rows.items():
            for operand, rate in constants.peak_flops_per_s.items():
                assert rate == pytest.approx(ours[device].peak_flops_per_s[operand], rel=0.101)


def test_the_sets_differ_where_torchao_changed_its_mind() -> None:
    old, new = SETS["torchao-2025"], SETS["torchao-0.18.0"]
    assert old["nvidia-h100-sxm"] == replace(new["nvidia-h100-sxm"], name="torchao-2025")
    assert new["nvidia-b200"].dram_bytes_per_s == pytest.approx(7.672e12, rel=1e-4)
    assert (old["amd-mi300x"].math_fraction, new["amd-mi300x"].math_fraction) == (0.47, 0.78)


@pytest.mark.parametrize(("vendor", "fractions"), [("nvidia", (0.78, 0.92)), ("amd", (0.47, 0.72))])
def test_a_device_that_torchao_does_not_list_has_its_vendors_fractions(
    vendor: str, fractions: tuple[float, float]
) -> None:
    rates = {"bf16": 1e15, "fp8": 2e15, "fp64": 1e13}
    spec = replace(SPEC, vendor=vendor, peak_flops_per_s=rates)  # type: ignore[arg-type]
    constants = from_datasheet(spec)
    assert (constants.math_fraction, constants.dram_fraction) == fractions
    assert constants.peak_flops_per_s == {"bf16": 1e15, "fp8": 2e15}
    assert (constants.dram_bytes_per_s, constants.device) == (4.8e12, "made-up")


CHOSEN_SETS = {  # (device, set that is asked for) -> set
    ("nvidia-b200", None): "torchao-2025",
    ("nvidia-b300", None): "torchao-0.18.0",
    ("made-up", None): "datasheet",
    ("nvidia-b200", "torchao-0.18.0"): "torchao-0.18.0",
    ("nvidia-b200", "datasheet"): "datasheet",
}


@pytest.mark.parametrize(("device_and_set", "chosen"), CHOSEN_SETS.items())
def test_the_first_set_that_lists_a_device_is_taken_unless_another_is_asked_for(
    device_and_set: tuple[str, str | None], chosen: str
) -> None:
    assert choose_constants(*device_and_set, SPEC).name == chosen


@pytest.mark.parametrize(
    ("device", "name", "message"),
    [
        ("made-up", None, "no config/devices/made-up.yaml; torchao lists amd-mi300x, nvidia-b200"),
        ("nvidia-b200", "torchao-2052", "did you mean 'torchao-2025'.*known: datasheet, torchao"),
        ("nvidia-b300", "torchao-2025", "device of torchao-2025 'nvidia-b300'.*amd-mi300x"),
    ],
)
def test_an_unknown_set_or_device_lists_what_is_known(
    device: str, name: str | None, message: str
) -> None:
    with pytest.raises(PredictError, match=message):
        choose_constants(device, name, None)


def test_a_set_by_name() -> None:
    assert choose_constants("amd-mi300x", "torchao-2025", None).dram_fraction == 0.72
    with pytest.raises(PredictError, match="unknown set of constants 'x'"):
        choose_constants("amd-mi300x", "x", None)


def test_an_allowed_name_passes() -> None:
    check_name("role", "input", ["input", "weight"])


def test_an_unknown_name_gets_the_nearest_and_all() -> None:
    message = r"^torchao: unknown role 'inptu'; did you mean 'input'\? known: input, weight$"
    with pytest.raises(PredictError, match=message):
        check_name("role", "inptu", ["weight", "input"])


def test_a_name_like_none_of_them_gets_the_list_alone() -> None:
    with pytest.raises(PredictError, match=r"^torchao: unknown role 'x'; known: input$"):
        check_name("role", "x", ["input"])
