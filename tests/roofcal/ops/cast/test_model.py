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


def in_columns(rows: int, cols: int, recipe: str = "fp8_rowwise_dim1", **changed: float) -> float:
    """Seconds of our casts along columns, without their start."""
    return seconds(rows, cols, "ours_columns", recipe, uneven=1.3, **changed) - FIXED


def test_columns_that_do_not_stay_in_registers_take_a_further_kernel() -> None:
    is_short = {(2048, 2048): True, (2048, 2064): False, (4095, 4080): True, (4097, 4080): False}
    is_short |= {(4080, 4080): False}  # rows of 16 go another way from 2048 of them on
    for (rows, cols), short in is_short.items():
        more = in_columns(rows, cols, further_s=1e-6) - in_columns(rows, cols)
        assert more == pytest.approx(0.0 if short else 1e-6, abs=1e-12), (rows, cols)


def test_ragged_sizes_slow_only_columns_that_do_not_stay_in_registers() -> None:
    for rows, cols in ((2047, 1056), (2048, 1055), (2047, 1055)):
        assert in_columns(rows, cols, misaligned=9.0) == in_columns(rows, cols), (rows, cols)
    whole, ragged_columns, ragged_rows = (
        in_columns(rows, cols, misaligned=1.5) / (rows * cols)
        for rows, cols in ((8192, 8192), (8192, 8191), (8191, 8192))
    )
    assert ragged_columns == pytest.approx(1.5 * whole, rel=1e-3)
    assert ragged_rows == pytest.approx(1.3 * whole, rel=1e-3)  # off a line of the result


def test_a_last_wave_of_short_columns_idles_less_where_programs_share_a_multiprocessor() -> None:
    """A program takes 8 columns of 1024 or 2048 rows; 132 multiprocessors take 1056 at once."""
    for rows, waves in ((1024, 2**0.5), (2048, 2.0)):
        one = in_columns(rows, 1056)
        assert in_columns(rows, 1057) == pytest.approx(waves * one, rel=2e-3), rows


def test_rows_that_pad_a_high_tile_take_half_of_their_time() -> None:
    whole, padded = in_columns(2048, 1056), in_columns(1040, 1056)
    assert padded / whole == pytest.approx((1040 / 2048) ** 0.5, rel=1e-3)


def test_rows_too_long_for_one_read_are_read_once_more_from_the_cache() -> None:
    ways = {
        ("ours_divisor", "fp8_rowwise_dim0"): 1.2,
        ("ours_columns", "fp8_rowwise_both"): 8.6 / 6,
    }
    for (family, recipe), ratio in ways.items():
        short, long = (
            (seconds(8192, cols, family, recipe) - FIXED) / cols for cols in (16384, 16400)
        )
        assert long / short == pytest.approx(ratio, rel=1e-3), recipe
    # Loads in pieces hide it.
    slow = seconds(8192, 16401, "ours_divisor", "fp8_rowwise_dim0", misaligned=3.0) - FIXED
    whole = seconds(8192, 16384, "ours_divisor", "fp8_rowwise_dim0") - FIXED
    assert slow / whole == pytest.approx(3.0 * 16401 / 16384, rel=1e-3)


def test_casts_both_ways_read_thrice_where_no_kernel_casts_rows_beside_columns() -> None:
    apart, together = (in_columns(rows, 4096, "fp8_rowwise_both") / rows for rows in (8176, 8192))
    assert apart == pytest.approx(8 / 6 * together, rel=1e-3)


def test_our_casts_with_one_scale_read_the_second_time_from_the_cache_what_it_holds() -> None:
    cache = {"near_bytes": 1e7, "cached_bytes_per_s": 5 * MEMORY}
    for side in (1024, 2048, 8192):  # 2, 8 and 134 MB
        moved = float(least_bytes("fp8_tensorwise", *(np.array([1.0 * side]),) * 2)[0])
        near = min(2.0 * side * side, 1e7)
        ours = seconds(side, side, "ours_256", "fp8_tensorwise", **cache)
        assert ours == pytest.approx(FIXED + (moved - near + near / 5) / MEMORY)
    other = [("ours_256", DIM0), ("plain", "fp8_tensorwise")]
    for family, recipe in other:
        assert seconds(1024, 1024, family, recipe, **cache) == seconds(1024, 1024, family, recipe)


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
