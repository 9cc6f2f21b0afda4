"""The equation of a cast's time by hand, and in its limits."""

import numpy as np
import pytest

from roofcal.ops.cast.model import GROUPS, evaluate, groups_of, least_bytes
from roofcal.ops.cast.spec import OP, work
from tests.roofcal.calibrate.probe_runs import CAST_TRUTH, PROCESSOR_CAST_TRUTH

CACHE = 64e6
UNITS = 132


WIDE = CAST_TRUTH | {"extra_columns": 1e-9}  # no matrix is narrow


def seconds(
    rows: int,
    cols: int,
    family: str = "plain",
    cache: float = CACHE,
    constants: dict[str, float] = WIDE,
    recipe: str = "fp8_rowwise_dim0",
) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    return float(evaluate(constants, recipe, sizes, family, cache, UNITS).total[0])


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


def test_loads_of_few_elements_are_slower_the_fewer_they_are() -> None:
    times = [seconds(1024, cols, "divisor") / cols for cols in (1024, 1020, 1022, 1021)]
    assert times == sorted(times)
    moving = seconds(1024, 1021, "divisor") - CAST_TRUTH["fixed_s"]
    whole = seconds(1024, 1021, constants=WIDE | {"misaligned": 1.0}) - CAST_TRUTH["fixed_s"]
    assert moving == pytest.approx(CAST_TRUTH["misaligned"] * whole)


def test_rows_padded_to_a_power_of_two_load_what_they_do_not_hold() -> None:
    little, much = (
        seconds(4096, cols, "ours_padded", constants=WIDE | {"padded_loads": 3.0}) / cols
        for cols in (4095, 2049)
    )
    assert 1.8 < much / little < 2.1


def test_padding_that_probes_did_not_identify_costs_nothing() -> None:
    without = {name: value for name, value in WIDE.items() if name != "misaligned"}
    for cols in (2049, 4095, 16385):
        padded, plain = (seconds(4096, cols, f, constants=without) for f in ("ours_padded", "ours"))
        assert padded == plain


def test_rows_of_the_result_that_cross_lines_are_slower_even_where_loads_are_whole() -> None:
    uneven = WIDE | {"uneven": 1.4}
    for recipe, sizes in {"mxfp8_dim0": (4096, 4224), "mxfp8_dim1": (4224, 4096)}.items():
        ours = [seconds(*sizes, "ours_256", constants=c, recipe=recipe) for c in (WIDE, uneven)]
        moving = ours[0] - CAST_TRUTH["fixed_s"]
        assert ours[1] - ours[0] == pytest.approx(0.4 * moving)


def test_many_programs_take_longer_to_start_than_one_and_a_launch_more_longer_still() -> None:
    filling = WIDE | {"fill_s": 1e-6, "further_s": 3e-6}
    for (rows, cols), launches in {(1, 8192): 0, (2, 8192): 1, (4096, 4096): 1}.items():
        more, plain = (
            seconds(rows, cols, "ours", constants=constants, recipe="fp8_tensorwise")
            for constants in (filling, WIDE)
        )
        filled = rows * cols / (rows * cols + 20_000)
        assert more - plain == pytest.approx(1e-6 * filled + 3e-6 * launches)


def on_a_processor(rows: int, cols: int, units: int = 2) -> float:
    sizes = np.array([float(rows)]), np.array([float(cols)])
    parts = evaluate(PROCESSOR_CAST_TRUTH, "fp8_rowwise_dim0", sizes, "threads", CACHE, units)
    return float(parts.total[0])


def test_a_processor_adds_its_passes_by_hand() -> None:
    # 64 x 500: one thread; 64 rows off 64 elements; fewer bytes than stay in the cache
    moved = 3 * 64 * 500 + 4 * 64
    alone = 1.3e-5 + moved / 4e9 + moved / 2e10 + 64 * 8e-8
    assert on_a_processor(64, 500) == pytest.approx(alone)
    # 1024 x 1024: two threads, of whole vectors, 1.3 MB of it in the cache
    moved = 3 * 1024**2 + 4 * 1024
    shared = 1.3e6 / 4e9 + (moved - 1.3e6) / 1.5e9
    both = 1.3e-5 + 1.6e-5 + shared / 2 + moved / 2e10
    assert on_a_processor(1024, 1024) == pytest.approx(both)


def test_a_thread_of_a_processor_takes_32768_elements_at_least() -> None:
    assert on_a_processor(128, 256, units=64) == on_a_processor(128, 256, units=1)
    assert on_a_processor(512, 512, units=64) == on_a_processor(512, 512, units=8)
    assert on_a_processor(512, 512, units=8) < on_a_processor(512, 512, units=4)


def test_a_compiled_row_costs_whole_blocks_and_a_second_read() -> None:
    truth = CAST_TRUTH | {"further_s": 1e-6, "extra_columns": 500.0}
    moved = least_bytes("fp8_rowwise_dim0", np.array([8192.0]), np.array([1280.0]))[0]
    start = truth["fixed_s"] + 0.5e-6  # a loop is half of a launch
    expected = start + moved * (2048 + 500) / 1280 / truth["bytes_per_s"]
    assert seconds(8192, 1280, "inductor_rows", constants=truth) == pytest.approx(expected)
    in_registers = truth["fixed_s"] + moved * 1.0 / truth["bytes_per_s"] * 1024 / 1280
    assert seconds(8192, 1024, "inductor_rows", constants=truth) == pytest.approx(
        in_registers, rel=0.01
    )


def test_narrow_loads_of_a_compiled_row_hide_its_padding() -> None:
    truth = CAST_TRUTH | {"further_s": 1e-9, "misaligned": 2.5}
    moved = least_bytes("fp8_rowwise_dim0", np.array([8192.0]), np.array([1281.0]))[0]
    assert seconds(8192, 1281, "inductor_rows", constants=truth) == pytest.approx(
        truth["fixed_s"] + 2.5 * moved / truth["bytes_per_s"], rel=1e-3
    )


def test_a_tensorwise_cast_in_odd_parts_is_slower() -> None:
    truth = CAST_TRUTH | {"further_s": 1e-6, "misaligned": 1.5, "extra_columns": 1e-9}
    even, odd = (
        seconds(16384, cols, "inductor_parts", constants=truth, recipe="fp8_tensorwise") / cols
        for cols in (7168, 8192)
    )
    assert odd / even == pytest.approx(1.5, rel=0.02)


def test_small_compiled_casts_have_the_bandwidth_of_large_ones() -> None:
    slow_cache = CAST_TRUTH | {"cached_bytes_per_s": 1.0}
    assert seconds(1024, 1024, "inductor", constants=slow_cache) == seconds(
        1024, 1024, "inductor", constants=CAST_TRUTH
    )


def test_rows_off_16_bytes_are_a_group_of_their_own() -> None:
    rows = np.array([16.0, 4096.0, 16384.0, 16384.0])
    cols = np.array([4096.0, 1000.0, 8192.0, 8188.0])
    groups = groups_of("", (rows, cols))
    assert groups == ["few_rows", "small", "large", "unaligned"]
    assert set(groups) == set(GROUPS)
