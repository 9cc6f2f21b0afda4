"""The constants beside the datasheet."""

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.constants import COLUMNS, constants_table
from tests.roofcal.report.synthetic import COPY, MadeUpRun, add_constants


@pytest.fixture
def made_up() -> MadeUpRun:
    run = MadeUpRun()
    add_constants(run, {"bf16": 600e12, "fp8_axiswise": 1000e12})
    return run


def test_each_constant_stands_beside_its_datasheet_figure(
    made_up: MadeUpRun, h200: DeviceSpec
) -> None:
    table = constants_table(made_up.calibration(), h200).set_index("name")

    copy = table.loc["dram_copy_bytes_per_s"]
    assert (copy["datasheet"], copy["fraction"]) == (4.8e12, pytest.approx(COPY / 4.8e12))
    fp8 = table.loc["gemm.cublaslt.fp8_axiswise.ceiling_flops_per_s"]
    assert (fp8["datasheet"], fp8["fraction"]) == (1979e12, pytest.approx(1000 / 1979))
    assert table.loc["gemm.cublaslt.bf16.sustained_power_w", "datasheet"] == 700.0
    assert (fp8["ci95_low"], fp8["ci95_high"]) == pytest.approx((980e12, 1020e12))


def test_without_a_datasheet_the_constants_stand_alone(made_up: MadeUpRun) -> None:
    table = constants_table(made_up.calibration(), None)
    assert len(table) == len(made_up.constants)
    assert table[["datasheet", "fraction"]].isna().all(axis=None)


def test_the_device_comes_first_then_recipe_by_recipe(made_up: MadeUpRun, h200: DeviceSpec) -> None:
    groups = list(dict.fromkeys(constants_table(made_up.calibration(), h200)["group"]))
    assert groups == ["device", "cublaslt bf16", "cublaslt fp8_axiswise"]


def test_a_constant_without_a_description_is_shown_by_its_name(made_up: MadeUpRun) -> None:
    made_up.constant("gemm.cublaslt.bf16.brand_new_s", 1e-6, "s")
    made_up.constant("odd_thing", 3.0, "1")

    labels = constants_table(made_up.calibration(), None).set_index("name")["label"]

    assert labels["gemm.cublaslt.bf16.brand_new_s"] == "brand new s"
    assert labels["odd_thing"] == "odd thing"


def test_a_code_says_what_it_stands_for(made_up: MadeUpRun) -> None:
    choices = constants_table(made_up.calibration(), None).set_index("name")["choice"]
    assert choices["gemm.cublaslt.bf16.tile_family"] == "tile_128x128"


def test_casts_stand_by_provider_and_recipe(made_up: MadeUpRun, h200: DeviceSpec) -> None:
    for provider in ("torch_eager", "torch_compile"):
        made_up.constant(f"cast.{provider}.fp8_tensorwise.cast_family", 1.0, "code")
        made_up.constant(f"cast.{provider}.fp8_tensorwise.bytes_per_s", 2.4e12, "B/s")
    table = constants_table(made_up.calibration(), h200).set_index("name")
    row = table.loc["cast.torch_compile.fp8_tensorwise.bytes_per_s"]
    assert (row["group"], row["fraction"]) == ("torch_compile fp8_tensorwise", 0.5)
    assert table.loc["cast.torch_eager.fp8_tensorwise.cast_family", "choice"] == "padded_1024"


def test_an_empty_calibration_is_an_empty_table() -> None:
    table = constants_table(MadeUpRun().calibration(), None)
    assert table.empty
    assert tuple(table.columns) == COLUMNS
