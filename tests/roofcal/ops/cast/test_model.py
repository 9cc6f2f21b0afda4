"""The equation of a cast's time by hand, and in its limits."""

import numpy as np
import pytest

from roofcal.ops.cast.model import GROUPS, evaluate, groups_of, least_bytes
from roofcal.ops.cast.spec import OP, work
from tests.roofcal.calibrate.probe_runs import CAST_TRUTH, PROCESSOR_CAST_TRUTH

CACHE, UNITS, DIM0 = 64e6, 132, "fp8_rowwise_dim0"
FIXED, MEMORY = CAST_TRUTH["fixed_s"], CAST_TRUTH["bytes_per_s"]
WIDE = CAST_TRUTH | {"extra_columns": 1e-9}  # no matrix is narrow


def seconds(
    rows: int,
    cols: int,
    family: str = "plain",
    recipe: str = DIM0,
    cache: float = CACHE,
    **changed: float,
) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    return float(evaluate(WIDE | changed, recipe, sizes, family, cache, UNITS).total[0])


def moved_bytes(rows: int, cols: int) -> int:
    """By fp8_rowwise_dim0."""
    return 3 * rows * cols + 4 * rows


@pytest.mark.parametrize("recipe", OP.recipes)
def test_bytes_are_those_of_the_op(recipe: str) -> None:
    by_shape = least_bytes(recipe, np.array([3.0, 100.0]), np.array([7.0, 64.0]))
    assert by_shape[0] == work(recipe, {"rows": 3, "cols": 7}).dram_bytes
    assert by_shape[1] == work(recipe, {"rows": 100, "cols": 64}).dram_bytes


def test_a_large_cast_runs_at_the_bandwidth_of_memory_and_a_small_one_at_that_of_the_cache() -> (
    None
):
    large, small = moved_bytes(65536, 65536), moved_bytes(1024, 1024)
    assert seconds(65536, 65536) == pytest.approx(large / MEMORY, rel=0.01)
    cached = FIXED + small / CAST_TRUTH["cached_bytes_per_s"]
    assert seconds(1024, 1024) == pytest.approx(cached)
    assert seconds(1024, 1024, cache=0.0) == pytest.approx(FIXED + small / MEMORY)
    # Inductor's have one bandwidth
    assert seconds(1024, 1024, "inductor", cached_bytes_per_s=1.0) == seconds(
        1024, 1024, "inductor"
    )


def test_rows_off_16_elements_are_slower() -> None:
    moving, ragged = (seconds(1024, cols) - FIXED for cols in (1024, 1023))
    assert ragged == pytest.approx(CAST_TRUTH["misaligned"] * moving, rel=0.01)


def test_padding_costs_as_much_as_the_columns_it_fills() -> None:
    plain = seconds(8192, 1040)
    padded = plain + (2048 / 1040 - 1) * (plain - FIXED)
    assert seconds(8192, 1040, "padded_1024") == pytest.approx(padded)
    assert seconds(8192, 2048, "padded_1024") == seconds(8192, 2048)


def test_a_narrow_matrix_takes_as_long_as_one_with_some_columns_more() -> None:
    narrow, wide = (seconds(65536, 400, extra_columns=more) - FIXED for more in (200.0, 1e-9))
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


def test_loads_of_few_elements_are_slower_the_fewer_they_are() -> None:
    times = [seconds(1024, cols, "divisor") / cols for cols in (1024, 1020, 1022, 1021)]
    assert times == sorted(times)
    moving = seconds(1024, 1021, "divisor") - FIXED
    whole = seconds(1024, 1021, misaligned=1.0) - FIXED
    assert moving == pytest.approx(CAST_TRUTH["misaligned"] * whole)


def test_rows_padded_to_a_power_of_two_load_what_they_do_not_hold() -> None:
    little, much = (
        seconds(4096, cols, "ours_padded", padded_loads=3.0) / cols for cols in (4095, 2049)
    )
    assert 1.8 < much / little < 2.1
    # padding that probes did not identify costs nothing
    for cols in (2049, 4095, 16385):
        padded, plain = (seconds(4096, cols, f, misaligned=1.0) for f in ("ours_padded", "ours"))
        assert padded == plain


def test_rows_of_the_result_that_cross_lines_are_slower_even_where_loads_are_whole() -> None:
    for recipe, sizes in {"mxfp8_dim0": (4096, 4224), "mxfp8_dim1": (4224, 4096)}.items():
        even, uneven = (seconds(*sizes, "ours_256", recipe, uneven=slow) for slow in (1.0, 1.4))
        assert uneven - even == pytest.approx(0.4 * (even - FIXED))


@pytest.mark.parametrize(
    ("rows", "cols", "launches"), [(1, 8192, 0), (2, 8192, 1), (4096, 4096, 1)]
)
def test_many_programs_take_longer_to_start_than_one_and_a_launch_more_longer_still(
    rows: int, cols: int, launches: int
) -> None:
    filling = {"fill_s": 1e-6, "further_s": 3e-6}
    plain, more = (
        seconds(rows, cols, "ours", "fp8_tensorwise", **changed) for changed in ({}, filling)
    )
    filled = rows * cols / (rows * cols + 20_000)
    assert more - plain == pytest.approx(1e-6 * filled + 3e-6 * launches)


def on_a_processor(rows: int, cols: int, units: int = 2) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    parts = evaluate(PROCESSOR_CAST_TRUTH, "fp8_rowwise_dim0", sizes, "threads", CACHE, units)
    return float(parts.total[0])


def test_a_processor_adds_its_passes_by_hand() -> None:
    # 64 x 500: one thread; 64 rows off 64 elements; fewer bytes than stay in the cache
    moved = moved_bytes(64, 500)
    alone = 1.3e-5 + moved / 4e9 + moved / 2e10 + 64 * 8e-8
    assert on_a_processor(64, 500) == pytest.approx(alone)
    # 1024 x 1024: two threads, of whole vectors, 1.3 MB of it in the cache
    moved = moved_bytes(1024, 1024)
    shared = 1.3e6 / 4e9 + (moved - 1.3e6) / 1.5e9
    both = 1.3e-5 + 1.6e-5 + shared / 2 + moved / 2e10
    assert on_a_processor(1024, 1024) == pytest.approx(both)


def test_a_thread_of_a_processor_takes_32768_elements_at_least() -> None:
    assert on_a_processor(128, 256, units=64) == on_a_processor(128, 256, units=1)
    assert on_a_processor(512, 512, units=64) == on_a_processor(512, 512, units=8)
    assert on_a_processor(512, 512, units=8) < on_a_processor(512, 512, units=4)


def test_a_compiled_row_costs_whole_blocks_and_a_second_read() -> None:
    looped = {"further_s": 1e-6, "extra_columns": 500.0}
    start = FIXED + 0.5e-6  # a loop is half of a launch
    expected = start + moved_bytes(8192, 1280) * (2048 + 500) / 1280 / MEMORY
    assert seconds(8192, 1280, "inductor_rows", DIM0, **looped) == pytest.approx(expected)
    in_registers = FIXED + moved_bytes(8192, 1024) / MEMORY
    assert seconds(8192, 1024, "inductor_rows", DIM0, **looped) == pytest.approx(
        in_registers, rel=0.01
    )
    # narrow loads hide the padding
    narrow = seconds(8192, 1281, "inductor_rows", misaligned=2.5, further_s=1e-9)
    assert narrow == pytest.approx(FIXED + 2.5 * moved_bytes(8192, 1281) / MEMORY, rel=1e-3)


def test_a_tensorwise_cast_in_odd_parts_is_slower() -> None:
    even, odd = (
        seconds(16384, cols, "inductor_parts", "fp8_tensorwise", misaligned=1.5) / cols
        for cols in (7168, 8192)
    )
    assert odd / even == pytest.approx(1.5, rel=0.02)


def test_rows_off_16_bytes_are_a_group_of_their_own() -> None:
    rows = np.array([16.0, 4096.0, 16384.0, 16384.0])
    cols = np.array([4096.0, 1000.0, 8192.0, 8188.0])
    groups = groups_of("", (rows, cols))
    assert groups == ["few_rows", "small", "large", "unaligned"]
    assert set(groups) == set(GROUPS)
