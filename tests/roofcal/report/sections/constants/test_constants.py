"""The constants beside the datasheet."""

from pathlib import Path

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.kit.numbers import is_missing
from roofcal.report.sections.constants import COLUMNS, constants_table, readable_constants
from tests.roofcal.report.chapters import shown_of
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
    assert list(dict.fromkeys(table["group"])) == [
        "device",
        "cublaslt bf16",
        "cublaslt fp8_axiswise",
    ]
    alone = constants_table(made_up.calibration(), None)
    assert len(alone) == len(made_up.constants)
    assert alone[["datasheet", "fraction"]].isna().all(axis=None)


def test_a_constant_without_a_description_is_shown_by_its_name(made_up: MadeUpRun) -> None:
    made_up.constant("gemm.cublaslt.bf16.brand_new_s", 1e-6, "s")
    made_up.constant("odd_thing", 3.0, "1")

    labels = constants_table(made_up.calibration(), None).set_index("name")["label"]

    assert labels["gemm.cublaslt.bf16.brand_new_s"] == "brand new s"
    assert labels["odd_thing"] == "odd thing"


def test_casts_stand_by_provider_and_recipe(made_up: MadeUpRun, h200: DeviceSpec) -> None:
    for provider in ("torch_eager", "torch_compile"):
        made_up.constant(f"cast.{provider}.fp8_tensorwise.cast_family", 1.0, "code")
        made_up.constant(f"cast.{provider}.fp8_tensorwise.bytes_per_s", 2.4e12, "B/s")
    table = constants_table(made_up.calibration(), h200).set_index("name")
    row = table.loc["cast.torch_compile.fp8_tensorwise.bytes_per_s"]
    assert (row["group"], row["fraction"]) == ("torch_compile fp8_tensorwise", 0.5)
    assert table.loc["cast.torch_eager.fp8_tensorwise.cast_family", "choice"] == "inductor"


def test_an_empty_calibration_is_an_empty_table() -> None:
    assert list(constants_table(MadeUpRun().calibration(), None)) == list(COLUMNS)


def test_value_interval_and_datasheet_share_one_unit(
    made_up: MadeUpRun, h200: DeviceSpec, tmp_path: Path
) -> None:
    made_up.constant("odd_shape", 1.5, "s", evidence="fastest: {'m': 8, 'n': 16}")
    shown = shown_of(made_up.analysed(tmp_path, h200), "constants")
    headline = shown.tables["headline"].frame.set_index("name")
    copy = headline.loc["dram_copy_bytes_per_s"]
    assert (copy["value"], copy["unit"], copy["interval"]) == ("4.000", "TB/s", "3.920 to 4.080")
    assert (copy["datasheet"], copy["value_si"], copy["datasheet_si"]) == ("4.800", 4e12, 4.8e12)
    assert headline.loc["launch_graph_s", "unit"] == "\N{MICRO SIGN}s"
    others = shown.tables["constants-all"].frame.set_index("name")
    assert others.loc["gemm.cublaslt.bf16.tile_family", "value"] == "tile_128x128"
    assert others.loc["odd_shape", "evidence"] == "fastest: m: 8, n: 16"
    assert "headline" not in shown.files["constants.csv"]
    (row,) = shown.tables["probe-errors"].frame.to_dict("records")
    assert row == {"op": "gemm", "provider": "cublaslt", "recipe": "bf16"} | {
        "count": 64.0,
        "mape": 0.05,
        "median": 0.04,
        "p95": 0.12,
    }


def test_a_count_is_whole_and_has_no_interval(made_up: MadeUpRun) -> None:
    table = readable_constants(constants_table(made_up.calibration(), None)).set_index("name")
    units = table.loc["compute_units"]
    assert (units["value"], units["unit"]) == ("132", "")
    assert is_missing(units["interval"])
