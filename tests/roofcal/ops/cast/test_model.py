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
    return float(evaluate(CAST_TRUTH | changed, recipe, sizes, family, UNITS).total[0])


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


def test_short_columns_are_slower_by_the_root_alone() -> None:
    slow = {(4095, 4096): False, (4097, 4096): True, (2047, 65536): True}
    slow |= {(4096, 4097): True, (2048, 2049): True}  # whole rows of 16
    for (rows, cols), slower in slow.items():
        short, plain = (seconds(rows, cols, name) - FIXED for name in ("ours_short", "plain"))
        root = 1.0 if slower else CAST_TRUTH["misaligned"] ** 0.5
        assert plain == pytest.approx(root * short, rel=1e-3), (rows, cols)


@pytest.mark.parametrize("family", ["plain", "inductor_rows"])
def test_more_rows_never_take_less_time(family: str) -> None:
    times = [seconds(16 * i, 4096, family) for i in range(1, 400)]
    assert times == sorted(times)


def on_a_processor(rows: int, cols: int, units: int = 2) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    parts = evaluate(PROCESSOR_CAST_TRUTH, "fp8_rowwise_dim0", sizes, "threads", units)
    return float(parts.total[0])


def test_a_thread_of_a_processor_takes_32768_elements_at_least() -> None:
    assert on_a_processor(128, 256, units=64) == on_a_processor(128, 256, units=1)
    assert on_a_processor(512, 512, units=64) == on_a_processor(512, 512, units=8)
    assert on_a_processor(512, 512, units=8) < on_a_processor(512, 512, units=4)


def test_rows_off_16_bytes_are_a_group_of_their_own() -> None:
    rows = np.array([16.0, 4096.0, 16384.0, 16384.0])
    cols = np.array([4096.0, 1000.0, 8192.0, 8188.0])
    groups = groups_of("", (rows, cols))
    assert groups == ["few_rows", "small", "large", "unaligned"]
    assert set(groups) == set(GROUPS)


def test_a_processor_adds_its_passes_by_hand() -> None:
    moved = moved_bytes(64, 500)  # one thread; rows off 64 elements; all of it stays near
    alone = 1.3e-5 + moved / 4e9 + moved / 2e10 + 64 * 8e-8
    assert on_a_processor(64, 500) == pytest.approx(alone)
    moved = moved_bytes(1024, 1024)  # two threads, 1.3 MB of it near
    shared = 1.3e6 / 4e9 + (moved - 1.3e6) / 1.5e9
    both = 1.3e-5 + 1.6e-5 + shared / 2 + moved / 2e10
    assert on_a_processor(1024, 1024) == pytest.approx(both)


def test_narrow_loads_are_slower_the_fewer_elements_they_take() -> None:
    times = [seconds(1024, cols, "divisor") / cols for cols in (1024, 1020, 1022, 1021)]
    assert times[0] < times[1] < times[2] < times[3]
    narrow = seconds(1024, 1021, "divisor") - FIXED
    whole = seconds(1024, 1021, "divisor", misaligned=1.0) - FIXED
    assert narrow == pytest.approx(CAST_TRUTH["misaligned"] * whole)
    one_row = seconds(8192, 1281, "inductor_rows", further_s=1e-9, misaligned=2.5)
    assert one_row == pytest.approx(FIXED + 2.5 * moved_bytes(8192, 1281) / MEMORY, rel=1e-3)
