"""Casts with a scale per column, transposed, to the bit, in the interpreter or on the GPU."""

import math
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest
import torch

from kernels.cast import both_ways, columns, rule, short_columns
from tests.kernels.cast.fp8_reference import assert_all_equal, normal_matrix
from tests.kernels.cast.test_every_cast import check
from tests.paths import ROOT


@pytest.mark.parametrize("most_partials", [1, 4, 8])
def test_maxima_of_all_steps_and_programs_count(
    most_partials: int, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    config = replace(
        columns.COLUMN_MAXIMA, rows=8, programs_per_unit=16, most_partials=most_partials
    )
    monkeypatch.setattr(columns, "COLUMN_MAXIMA", config)
    monkeypatch.setattr(columns, "compute_units", lambda *_: 1)
    height = 9 * config.rows + 5
    x = normal_matrix(height, config.cols + 3, device)
    for place, row in enumerate((0, config.rows, 4 * config.rows, height - 1)):
        x[row, place::5] = 1000.0
    check("columns in two passes", x)


@pytest.mark.parametrize("name", ["columns", "rows and columns"])
@pytest.mark.parametrize("shape", [(16, 72), (100, 8), (70, 130)])
def test_several_programs_cast_short_columns(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(short_columns, "compute_units", lambda *_: 9)
    check(name, normal_matrix(*shape, device))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 8192), (4, 64, 1)),
        ((16, 8192), (16, 64, 1)),
        ((512, 8192), (512, 16, 8)),
        ((1024, 1024), (1024, 8, 8)),
        ((2048, 2048), (2048, 8, 16)),
    ],
)
def test_short_columns_make_programs_for_all_units(
    shape: tuple[int, int], expected: tuple[int, int, int]
) -> None:
    limits = {"least_rows": 4, "least_cols": 8, "most_cols": 64, "most_elements_of_program": 8192}
    warps = {"elements_per_thread": 32, "most_warps": 32}
    config = replace(rule.SHORT_COLUMNS, **limits, **warps)
    assert rule.short_columns_tile(*shape, 132, config) == expected


@pytest.mark.parametrize(
    ("shape", "most_partials", "expected"),
    [
        *(((8192, 8192), 32, (4, 16)), ((100, 16384), 32, (1, 1)), ((300, 100), 32, (4, 1))),
        *(((8192, 4096), 32, (8, 8)), ((13440, 1024), 32, (32, 4)), ((13440, 1024), 4, (4, 27))),
        *(((8192, 128), 64, (64, 1)), ((8192, 128), 1, (1, 64))),
    ],
)
def test_few_programs_share_a_column_and_more_where_the_matrix_is_narrow(
    shape: tuple[int, int], most_partials: int, expected: tuple[int, int]
) -> None:
    config = replace(columns.COLUMN_MAXIMA, wide_partials=4, most_partials=most_partials)
    assert columns.column_maxima_grid(*shape, 132, config) == expected


@pytest.mark.parametrize(
    ("load_bytes", "expected"), [(8192, 3), (32768, 3), (65536, 2), (1 << 20, 1)]
)
def test_what_is_ahead_fits(load_bytes: int, expected: int) -> None:
    config = columns.PersistentConfig(warps_per_unit=16, stages=3, most_bytes_ahead=65536)
    assert columns.stages_ahead(load_bytes, config) == expected


def test_each_program_of_both_casts_several_rows(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    one_warp = replace(columns.BOTH_PROGRAMS, warps_per_unit=1)
    monkeypatch.setattr(columns, "BOTH_PROGRAMS", one_warp)
    few_elements = replace(columns.BOTH_ROWS, least_elements=64)
    monkeypatch.setattr(columns, "BOTH_ROWS", few_elements)
    check("rows and maxima", normal_matrix(21, 40, device))


@pytest.mark.parametrize("most_bytes", [0, 1 << 20])
def test_both_of_rows_read_twice_or_held_in_two_parts(
    most_bytes: int, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(rule, "MOST_COLUMNS_OF_ROW", 32)
    monkeypatch.setattr(rule, "FEW_LONG_ROWS_BLOCK", 32)
    monkeypatch.setattr(rule, "MOST_BYTES_OF_LONG_ROW", most_bytes)
    check("rows and maxima", normal_matrix(16, 70, device))


@pytest.mark.parametrize(("least", "launches"), [(16 * 20, 1), (16 * 20 + 1, 0)])
def test_small_inputs_are_cast_one_way_after_the_other(
    least: int, launches: int, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    launches_seen: list[tuple[int, ...]] = []
    kernel = columns._rows_and_columns_kernel

    class Counted:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., object]:
            launches_seen.append(grid)
            return kernel[grid]

    monkeypatch.setattr(rule, "BOTH_LEAST_ELEMENTS", least)
    monkeypatch.setattr(columns, "_rows_and_columns_kernel", Counted())
    check("rows and columns in two passes", normal_matrix(16, 20, device))
    assert len(launches_seen) == launches


@pytest.mark.parametrize("least", [0, 1 << 25])
def test_powers_of_two(least: int, monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    monkeypatch.setattr(rule, "BOTH_LEAST_ELEMENTS", least)
    x = normal_matrix(16, 20, device)
    by_columns = columns.rowwise_dim1(x, power_of_two=True)
    by_rows = columns.rowwise_both(x.t().contiguous(), power_of_two=True)[:2]
    assert_all_equal(by_columns, by_rows)


@pytest.mark.parametrize("hopper", [False, True])
def test_columns_are_short_up_to_more_rows_on_hopper_where_they_are_ragged(
    hopper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_columns, "is_hopper", lambda _: hopper)
    is_short = {(2048, 2048): True, (4096, 16): False, (2049, 16): hopper, (4095, 4096): hopper}
    is_short |= {(4097, 8): False, (2047, 2050): hopper}  # more than 2^22 elements
    for shape, expected in is_short.items():
        assert short_columns.has_short_columns(torch.empty(shape, device="meta")) == expected, shape


@pytest.mark.parametrize(
    ("shape", "cols", "odd"),
    [((), 1, None), ((1, 1), 1500, math.nan), ((700, 1), 1, None), ((3, 1500), 1500, math.inf)],
)
def test_every_column_has_the_largest_of_all_scales(
    shape: tuple[int, ...], cols: int, odd: float | None, device: torch.device
) -> None:
    scales = torch.rand(shape) + 1e-3
    if odd is not None:
        scales.view(-1)[-1] = odd
    found = columns.spread_largest(scales.to(device), 448.0, cols)
    assert (found.shape, found.dtype) == ((1, cols), torch.int32)
    wanted = (scales.amax() * 448).expand(1, cols)
    torch.testing.assert_close(
        found.view(torch.float32).cpu(), wanted, rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize(
    ("shape", "strips", "squares"),
    [
        *(((128, 256), False, False), ((127, 256), True, False)),
        *(((128, 264), True, False), ((127, 255), True, True)),
    ],
)
def test_blocks_that_would_spill_are_held_in_parts(
    shape: tuple[int, int], strips: bool, squares: bool
) -> None:
    assert rule.holds_blocks_in_parts(*shape, strips=True) == strips
    assert rule.holds_blocks_in_parts(*shape, strips=False) == squares


def test_blocks_are_read_in_the_parts_that_were_the_fastest() -> None:
    times = pd.read_csv(ROOT / "docs/kernels/ragged_blocks.csv")
    shape, way = ["kind", "rows", "cols"], ["part", "warps"]
    in_parts = times.dropna(subset=["part"]).pivot_table(index=shape, columns=way, values="us")
    mean_log = in_parts.map(math.log).groupby("kind").mean()
    for kind, parts in both_ways.PARTS.items():
        assert mean_log.loc[kind].idxmin() == (parts.part, parts.num_warps)
    whole = times[times["part"].isna()].set_index(shape)["us"]
    faster = (whole / in_parts[32, 8])["squares"]  # what CHANGELOG.md says
    assert (round(faster.min(), 2), round(faster.max(), 2)) == (1.27, 1.58)
