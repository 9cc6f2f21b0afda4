"""Casts with one scale, and with one per row, to the bit, in the interpreter or on the GPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from kernels.cast import both_ways, rows, rule, tensorwise
from kernels.common.fp8_scales import LARGEST
from tests.kernels.cast.fp8_reference import (
    E4M3,
    E5M2,
    assert_all_equal,
    assert_equal,
    assert_stored_as_divided,
    normal_matrix,
    rowwise,
    stored,
)
from tests.kernels.cast.test_every_cast import check
from tests.paths import ROOT


@pytest.mark.parametrize("name", ["tensorwise", "rows"])
@pytest.mark.parametrize("apart", [100, 1 << 28])
def test_offsets_of_rows_may_pass_2_to_the_31(name: str, apart: int, device: torch.device) -> None:
    """On a CPU most of that memory is never touched."""
    memory = torch.empty(8 * apart + 64, dtype=torch.bfloat16, device=device)
    x = memory.as_strided((9, 64), (apart, 1))
    check(name, x.copy_(normal_matrix(9, 64, device)))


def test_subnormals_of_fp8_are_kept(device: torch.device) -> None:
    x = torch.tensor([[448.0] + [2.0**-k for k in range(3, 12)]] * 2, device=device)
    check("tensorwise", x)
    check("rows", x)
    assert int((rows.rowwise_dim0(x)[0].float() != 0).sum()) >= 2 * 7


def test_many_blocks_and_steps(device: torch.device) -> None:
    elements = 3 * tensorwise.CAST_WITH_MAXIMA.steps * tensorwise.CAST_WITH_MAXIMA.block + 17
    check("tensorwise", normal_matrix(1, elements, device))
    check("tensorwise", normal_matrix(elements, 1, device))


def test_partial_maxima_of_many_programs_are_all_used(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(tensorwise, "compute_units", lambda *_: 3)
    x = normal_matrix(9, tensorwise.AMAX.block, device)
    for row in (0, 4, 8):
        x[row, -1] = 1000.0 * (row + 1)
        check("tensorwise", x)


@pytest.mark.parametrize("most_bytes", [0, 1 << 20])
@pytest.mark.parametrize("cols", [65, 129, 300])
def test_rows_read_twice_or_held_in_two_parts(
    cols: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(rule, "MOST_COLUMNS_OF_ROW", 64)
    monkeypatch.setattr(rule, "FEW_LONG_ROWS_BLOCK", 32)
    monkeypatch.setattr(rule, "MOST_BYTES_OF_LONG_ROW", most_bytes)
    x = normal_matrix(6, cols, device)
    x[0] = 0
    for row, place in enumerate((0, 63, 64, cols - 1), start=2):  # the largest in either part
        x[row, place] = -700.0
    check("rows", x)
    monkeypatch.setattr(rule, "FEW_LONG_ROWS", 1)
    monkeypatch.setattr(rule, "LONG_ROWS_BLOCK", 64)
    check("rows", x)


@pytest.mark.parametrize(
    ("rows_cols_bytes", "tile"),
    [
        ((1, 16385, 2), (16384, 1)),
        ((34, 17920, 2), (16384, 2048)),
        ((128, 28672, 2), (16384, 16384)),
        ((129, 28672, 2), None),  # more rows than multiprocessors
        ((1, 49152, 2), (32768, 16384)),
        ((1, 53248, 2), None),  # would spill
        ((1, 24576, 4), (16384, 8192)),
        ((1, 28672, 4), None),
    ],
)
def test_which_long_rows_stay_in_registers(
    rows_cols_bytes: tuple[int, int, int], tile: tuple[int, int] | None
) -> None:
    assert rule.long_row_tile(*rows_cols_bytes) == tile


def test_held_rows_are_faster_than_rows_read_twice() -> None:
    gains = []
    table = pd.read_csv(ROOT / "docs/kernels/long_rows.csv")
    for ways in (part for _, part in table.groupby(["cols", "rows"])):
        times = ways.set_index(["block", "tail", "warps"])["us"]
        tile = rule.long_row_tile(int(ways["rows"].iloc[0]), int(ways["cols"].iloc[0]))
        if tile is not None:
            taken = times[*tile, rows.HELD_ROW_WARPS]
            assert taken < 1.01 * times.min()
            gains.append(times[rule.LONG_ROWS_BLOCK, 0, 8] / taken)
    assert np.exp(np.log(gains).mean()) == pytest.approx(1.626, abs=5e-3)
    assert min(gains) > 1.36


@pytest.mark.parametrize("cols", [1, 33, 5000])
def test_division_would_store_the_same_but_for_rounding(cols: int, device: torch.device) -> None:
    x = normal_matrix(4, cols, device)
    assert_stored_as_divided(*rows.rowwise_dim0(x), x)
    assert_stored_as_divided(*tensorwise.tensorwise(x), x)


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("value", [1e-3, 0.5, 100.0])
def test_a_given_scale_is_used_and_saturates(
    value: float, dtype: torch.dtype, device: torch.device
) -> None:
    x = normal_matrix(5, 77, device, 1000.0)
    x[0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    given = torch.tensor(value, device=device)
    q, scale = tensorwise.tensorwise(x, dtype, scale=given)
    assert scale.shape == ()
    assert float(scale) == float(given)
    assert_equal(q, stored(x, 1 / given, dtype))
    assert q[0, 1].float() == LARGEST[dtype]


@pytest.mark.parametrize("wrong", [torch.ones(2), torch.ones(1, dtype=torch.float64)])
def test_a_scale_or_amax_of_another_kind_is_refused(
    wrong: torch.Tensor, device: torch.device
) -> None:
    x, wrong = torch.ones(2, 2, device=device), wrong.to(device)
    with pytest.raises(ValueError, match=r"scale: wanted one float32 on .*, got torch"):
        tensorwise.tensorwise(x, scale=wrong)
    for make in (tensorwise.tensorwise, both_ways.tensorwise_both):
        for values in (x, x[:0]):
            with pytest.raises(ValueError, match=r"amax: wanted one float32 on .*, got torch"):
                make(values, amax=wrong)
    one = torch.ones(1, device=device)
    with pytest.raises(ValueError, match="amax: wanted None beside a given scale"):
        tensorwise.tensorwise(x, amax=one, scale=one)
    with pytest.raises(ValueError, match="power_of_two: wanted False"):
        tensorwise.tensorwise(x, scale=one, power_of_two=True)


@pytest.mark.parametrize("cast", [tensorwise.tensorwise, both_ways.tensorwise_both])
@pytest.mark.parametrize("shape", [(3, 5), (33, 300), (0, 5)])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_a_known_amax_makes_the_cast_that_finding_it_makes(
    cast: Callable[..., Any], shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> None:
    x = normal_matrix(*shape, device)
    amax = x.abs().amax().float() if x.numel() else torch.zeros((), device=device)
    assert_all_equal(cast(x, dtype, amax=amax), cast(x, dtype))
    for sign in (1.0, -1.0):
        nan = torch.tensor(float("nan"), device=device).copysign(torch.tensor(sign, device=device))
        outputs = cast(x, dtype, amax=nan) if x.numel() else ()
        assert all(made.float().isnan().all() for made in outputs)


def test_scales_that_are_powers_of_two(device: torch.device) -> None:
    x = normal_matrix(6, 50, device)
    x[0] = 448.0
    x[1] = float("inf")
    x[2] = float("nan")
    q, scale = rows.rowwise_dim0(x, power_of_two=True)
    exact = rowwise(x, E4M3)[1]
    assert_equal(scale[3:], torch.exp2(torch.ceil(torch.log2(exact[3:]))))
    assert float(scale[0]) == 1.0
    assert scale[1].isinf()
    assert scale[2].isnan()
    assert_equal(q[3:], stored(x[3:], 1 / scale[3:], E4M3))
    one = tensorwise.tensorwise(x[3:], power_of_two=True)[1]
    assert float(one) == float(scale[3:].max())


@pytest.mark.parametrize(
    ("cols", "expected"), [(1, (1, 64, 1)), (100, (128, 32, 8)), (16384, (16384, 1, 16))]
)
def test_short_rows_share_a_program(cols: int, expected: tuple[int, int, int]) -> None:
    assert rows.rows_tile(cols, rows.ROWS) == expected
