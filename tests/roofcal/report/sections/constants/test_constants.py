"""Constants as people read them."""

from pathlib import Path

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import analyse
from roofcal.report.data.constants import constants_table
from roofcal.report.kit.blocks import Prose
from roofcal.report.kit.numbers import is_missing
from roofcal.report.sections.constants import probe_errors_table, readable_constants
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.synthetic import MadeUpRun, add_constants


def test_value_interval_and_datasheet_share_one_unit(h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    add_constants(made_up, {"bf16": 600e12})
    table = readable_constants(constants_table(made_up.calibration(), h200)).set_index("name")

    copy = table.loc["dram_copy_bytes_per_s"]
    assert (copy["value"], copy["unit"], copy["interval"]) == ("4.000", "TB/s", "3.920 to 4.080")
    assert (copy["datasheet"], copy["value_si"], copy["datasheet_si"]) == ("4.800", 4e12, 4.8e12)
    assert table.loc["launch_graph_s", "unit"] == "\N{MICRO SIGN}s"


def test_a_count_is_whole_and_has_no_interval(h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    add_constants(made_up, {"bf16": 600e12})
    table = readable_constants(constants_table(made_up.calibration(), h200)).set_index("name")

    units = table.loc["compute_units"]
    assert (units["value"], units["unit"]) == ("132", "")
    assert is_missing(units["interval"])
    assert table.loc["gemm.cublaslt.bf16.tile_family", "value"] == "tile_128x128"


def test_a_shape_in_the_evidence_loses_its_braces() -> None:
    made_up = MadeUpRun()
    made_up.constant("x", 1.5, "s")
    table = constants_table(made_up.calibration(), None).assign(
        evidence="fastest: {'m': 8, 'n': 16}"
    )
    assert list(readable_constants(table)["evidence"]) == ["fastest: m: 8, n: 16"]


def test_errors_of_the_fit_are_listed_by_recipe() -> None:
    made_up = MadeUpRun()
    add_constants(made_up, {"bf16": 600e12})
    (row,) = probe_errors_table(made_up.calibration()).to_dict("records")
    named = {"op": "gemm", "provider": "cublaslt", "recipe": "bf16"}
    assert row == named | {"count": 64.0, "mape": 0.05, "median": 0.04, "p95": 0.12}


def test_a_run_that_is_not_calibrated_says_so(bare: Path) -> None:
    (only,) = blocks_of(analyse(load_run(bare), None), "constants")
    assert only == Prose(
        text="This run is not calibrated: it has no calibration.jsonl.", quiet=True
    )
