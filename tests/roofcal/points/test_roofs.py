"""The least time of some work by a datasheet and by a calibration."""

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import Work
from roofcal.points.roofs import CalibratedRoof, datasheet_seconds
from tests.roofcal.report.synthetic import MadeUpRun, add_constants

MATH = Work(flops=1e12, math_dtype="bf16", dram_read_bytes=1e6)
MEMORY = Work(flops=1e6, math_dtype="bf16", dram_read_bytes=3e9, dram_write_bytes=1e9)


def roof() -> CalibratedRoof:
    made_up = MadeUpRun()
    add_constants(made_up, {"bf16": 500e12})
    made_up.constant("gemm.ours.bf16.ceiling_flops_per_s", 600e12, "flop/s")  # the fastest counts
    return CalibratedRoof(made_up.calibration())


def test_what_is_unknown_bounds_nothing(h200: DeviceSpec) -> None:
    assert datasheet_seconds(MATH, None) is None
    assert datasheet_seconds(Work(flops=1.0, math_dtype="fp4"), h200) is None
    assert datasheet_seconds(Work(), h200) is None
    assert roof().seconds("int8", MATH) is None
    assert CalibratedRoof(None).seconds("bf16", MEMORY) is None


def test_work_without_operations_needs_no_recipe() -> None:
    moved = Work(dram_read_bytes=4e12 * 1.02)
    assert roof().seconds("fp8_rowwise_dim0", moved) == pytest.approx(1.0)
