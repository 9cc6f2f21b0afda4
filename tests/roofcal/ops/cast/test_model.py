"""The equation of a cast's time by hand, and in its limits."""

import numpy as np
import pytest

from roofcal.ops.cast.model import evaluate, least_bytes
from roofcal.ops.cast.spec import OP, work
from tests.roofcal.calibrate.probe_runs import CAST_TRUTH

CACHE = 64e6


WIDE = CAST_TRUTH | {"extra_columns": 1e-9}  # no matrix is narrow


def seconds(
    rows: int,
    cols: int,
    family: str = "plain",
    cache: float = CACHE,
    constants: dict[str, float] = WIDE,
) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    return float(evaluate(constants, "fp8_rowwise_dim0", *sizes, family, cache).total[0])


@pytest.mark.parametrize("recipe", OP.recipes)
def test_bytes_are_those_of_the_op(recipe: str) -> None:
    by_shape = least_bytes(recipe, np.array([3.0, 100.0]), np.array([7.0, 64.0]))
    assert by_shape[0] == work(recipe, {"rows": 3, "cols": 7}).dram_bytes
    assert by_shape[1] == work(recipe, {"rows": 100, "cols": 64}).dram_bytes


def test_a_large_cast_runs_at_the_bandwidth_of_memory() -> None:
    rows = cols = 65536
    moved = 3 * rows * cols + 4 * rows
    assert seconds(rows, cols) == pytest.approx(moved / CAST_TRUTH["bytes_per_s"], rel=0.01)


def test_a_cast_within_the_cache_runs_at_that_of_the_cache() -> None:
    moved = 3 * 1024**2 + 4 * 1024
    cached = CAST_TRUTH["fixed_s"] + moved / CAST_TRUTH["cached_bytes_per_s"]
    assert seconds(1024, 1024) == pytest.approx(cached)


def test_rows_off_16_elements_are_slower() -> None:
    moving = seconds(1024, 1024) - CAST_TRUTH["fixed_s"]
    ragged = seconds(1024, 1023) - CAST_TRUTH["fixed_s"]
    assert ragged == pytest.approx(CAST_TRUTH["misaligned"] * moving, rel=0.01)


def test_padding_costs_as_much_as_the_columns_it_fills() -> None:
    assert seconds(8192, 1040, "padded_1024") == pytest.approx(
        seconds(8192, 1040) + (2048 / 1040 - 1) * (seconds(8192, 1040) - CAST_TRUTH["fixed_s"])
    )
    assert seconds(8192, 2048, "padded_1024") == seconds(8192, 2048)


def test_a_narrow_matrix_takes_as_long_as_one_with_some_columns_more() -> None:
    rows, fixed = 65536, CAST_TRUTH["fixed_s"]
    narrow, wide = (seconds(rows, 400, constants=c) - fixed for c in (CAST_TRUTH, WIDE))
    assert narrow == pytest.approx(600 / 400 * wide)


def test_short_columns_are_not_slower_off_16_elements_and_long_ones_are() -> None:
    slow = {(4095, 4096): False, (4097, 4096): True, (2047, 65536): True}
    slow |= {(4096, 4097): True, (2048, 2001): False, (2048, 2049): True}  # whole rows of 16
    for (rows, cols), slower in slow.items():
        short, plain = (seconds(rows, cols, family) for family in ("short_columns", "plain"))
        assert (short == pytest.approx(plain)) == slower, (rows, cols)


@pytest.mark.parametrize("family", ["plain", "padded_1024"])
def test_more_rows_never_take_less_time(family: str) -> None:
    times = [seconds(16 * i, 4096, family) for i in range(1, 400)]
    assert times == sorted(times)


def test_a_device_without_a_known_cache_has_one_bandwidth() -> None:
    moved = 3 * 1024**2 + 4 * 1024
    expected = CAST_TRUTH["fixed_s"] + moved / CAST_TRUTH["bytes_per_s"]
    assert seconds(1024, 1024, cache=0.0) == pytest.approx(expected)
