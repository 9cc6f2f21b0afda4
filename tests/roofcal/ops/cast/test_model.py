"""The equation of a cast's time in its limits; test_constants.py holds it to written values."""

import numpy as np
import pytest

from roofcal.ops.cast.model import GROUPS, evaluate, groups_of, least_bytes
from roofcal.ops.cast.spec import OP, work
from tests.roofcal.calibrate.probe_runs import CAST_TRUTH, PROCESSOR_CAST_TRUTH

UNITS, DIM0 = 132, "fp8_rowwise_dim0"
FIXED, MEMORY = CAST_TRUTH["fixed_s"], CAST_TRUTH["bytes_per_s"]


def seconds(
    rows: int,
    cols: int,
    family: str = "plain",
    recipe: str = DIM0,
    **changed: float,
) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    return float(evaluate(CAST_TRUTH | changed, family, recipe, sizes, UNITS).total[0])


def moved_bytes(rows: int, cols: int) -> int:
    """By fp8_rowwise_dim0."""
    return 3 * rows * cols + 4 * rows


@pytest.mark.parametrize("recipe", OP.recipes)
def test_bytes_are_those_of_the_op(recipe: str) -> None:
    by_shape = least_bytes(recipe, np.array([3.0, 100.0]), np.array([7.0, 64.0]))
    assert by_shape[0] == work(recipe, {"rows": 3, "cols": 7}).dram_bytes
    assert by_shape[1] == work(recipe, {"rows": 100, "cols": 64}).dram_bytes


def test_a_cast_is_a_start_and_its_bytes_at_the_bandwidth() -> None:
    for side in (1024, 65536):
        assert seconds(side, side) == pytest.approx(FIXED + moved_bytes(side, side) / MEMORY)
    more = seconds(200, 100, fill_s=1e-6, further_s=1.0) - seconds(200, 100)
    assert more == pytest.approx(0.5e-6)  # 20,000 elements fill half; plain kernels are one


def test_rows_off_16_elements_are_slower() -> None:
    moving, ragged = (seconds(1024, cols) - FIXED for cols in (1024, 1023))
    assert ragged == pytest.approx(CAST_TRUTH["misaligned"] * moving, rel=0.01)


def in_columns(rows: int, cols: int, recipe: str = "fp8_rowwise_dim1", **changed: float) -> float:
    """Seconds of our casts along columns, without their start."""
    return seconds(rows, cols, "ours_columns", recipe, uneven=1.3, **changed) - FIXED


def test_ragged_sizes_slow_only_columns_that_do_not_stay_in_registers() -> None:
    for rows, cols in ((2047, 1056), (2048, 1055), (2047, 1055)):
        assert in_columns(rows, cols, misaligned=9.0) == in_columns(rows, cols), (rows, cols)
    whole, ragged_columns, ragged_rows = (
        in_columns(rows, cols, misaligned=1.5) / (rows * cols)
        for rows, cols in ((8192, 8192), (8192, 8191), (8191, 8192))
    )
    assert ragged_columns == pytest.approx(1.5 * whole, rel=1e-3)
    assert ragged_rows == pytest.approx(1.3 * whole, rel=1e-3)  # off a line of the result


@pytest.mark.parametrize("family", ["plain", "inductor_rows"])
def test_more_rows_never_take_less_time(family: str) -> None:
    times = [seconds(16 * i, 4096, family) for i in range(1, 400)]
    assert times == sorted(times)


def on_a_processor(rows: int, cols: int, units: int = 2) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    parts = evaluate(PROCESSOR_CAST_TRUTH, "threads", "fp8_rowwise_dim0", sizes, units)
    return float(parts.total[0])


def test_a_thread_of_a_processor_takes_32768_elements_at_least() -> None:
    assert on_a_processor(128, 256, units=64) == on_a_processor(128, 256, units=1)
    assert on_a_processor(512, 512, units=64) == on_a_processor(512, 512, units=8)
    assert on_a_processor(512, 512, units=8) < on_a_processor(512, 512, units=4)


def test_rows_off_16_bytes_are_a_group_of_their_own() -> None:
    rows = np.array([16.0, 4096.0, 16384.0, 16384.0])
    cols = np.array([4096.0, 1000.0, 8192.0, 8188.0])
    groups = groups_of("", (rows, cols)).tolist()
    assert groups == ["few_rows", "small", "large", "unaligned"]
    assert set(groups) == set(GROUPS)
