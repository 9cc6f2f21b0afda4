"""Casts with a scale per block, to the bit, in the interpreter or on the GPU."""

from typing import Any

import pytest
import torch

from kernels.cast import blocks
from tests.kernels.cast.every_cast import Check, EveryCast, assert_refuses_other_inputs
from tests.kernels.cast.fp8_reference import (
    E4M3,
    assert_all_equal,
    assert_equal,
    assert_read_by_products,
    blockwise,
    mx,
    normal_matrix,
    squares,
    transposed,
)

TILE = blocks.ALONG_COLUMNS
SHAPES = [(1, 1), (1, 100), (5, 70), (100, 1), (33, 17), (32, 64), (TILE.rows + 1, TILE.cols + 3)]


def check_mx(rounding: Any) -> Check:
    def check(x: torch.Tensor, dtype: torch.dtype = E4M3) -> None:
        by_rows, by_columns = mx(x, dtype, rounding), mx(transposed(x), dtype, rounding)
        assert_all_equal(blocks.mxfp8_dim0(x, dtype, rounding=rounding), by_rows)
        assert_all_equal(blocks.mxfp8_dim1(x, dtype, rounding=rounding), by_columns)
        assert_all_equal(blocks.mxfp8_both(x, dtype, rounding=rounding), (*by_rows, *by_columns))

    return check


def check_blockwise(x: torch.Tensor, dtype: torch.dtype = E4M3) -> None:
    by_rows = blocks.blockwise_1x128(x, dtype)
    by_columns = blocks.blockwise_1x128_dim1(x, dtype)
    assert_all_equal(by_rows, blockwise(x, dtype))
    assert_all_equal(by_columns, blockwise(transposed(x), dtype))
    assert_read_by_products(by_rows[1])
    assert_read_by_products(by_columns[1])


def check_squares(x: torch.Tensor, dtype: torch.dtype = E4M3) -> None:
    assert_all_equal(blocks.blockwise_128x128(x, dtype), squares(x, dtype))


CHECKS = {
    "mx_floor": check_mx("floor"),
    "mx_ceil": check_mx("ceil"),
    "blockwise": check_blockwise,
    "squares": check_squares,
}
CASTS = (
    blocks.mxfp8_dim0,
    blocks.mxfp8_dim1,
    blocks.mxfp8_both,
    blocks.blockwise_1x128,
    blocks.blockwise_1x128_dim1,
    blocks.blockwise_128x128,
)


class TestEveryCast(EveryCast):
    checks = CHECKS
    ragged_shapes = SHAPES
    sizes = (1e-38, 1e-30, 1e30, 1e38)
    shape = (40, 40)

    def test_reads_rows_that_lie_apart(self, check: Check, device: torch.device) -> None:
        check(normal_matrix(32, 70, device)[:, 3:40])


def test_scales_rounded_up_saturate_nothing_and_exact_powers_are_kept(
    device: torch.device,
) -> None:
    # amax exactly 448, the next float above it, and just below 512, in blocks of their own
    x = torch.zeros(3, 32, device=device)
    x[:, 0] = torch.tensor([448.0, 448.00003, 511.99997])
    up, down = (blocks.mxfp8_dim0(x, rounding=rounding) for rounding in ("ceil", "floor"))
    assert up[1].view(torch.uint8).flatten().tolist() == [127, 128, 128]
    assert down[1].view(torch.uint8).flatten().tolist() == [127, 127, 127]
    assert up[0][:, 0].float().tolist() == [448.0, 224.0, 256.0]
    assert down[0][:, 0].float().tolist() == [448.0, 448.0, 448.0]


@pytest.mark.parametrize("cast", CASTS)
def test_casts_of_nothing(cast: Any, device: torch.device) -> None:
    for rows, cols in [(0, 5), (5, 0), (0, 0)]:
        outputs = cast(torch.zeros(rows, cols, device=device))
        assert sorted(outputs[0].shape) == sorted((rows, cols))
        assert all(output.numel() == 0 for output in outputs)


@pytest.mark.parametrize("cast", CASTS)
def test_refuses_other_inputs(cast: Any, device: torch.device) -> None:
    assert_refuses_other_inputs(cast, device)


@pytest.mark.parametrize("cast", CASTS[:3])
def test_an_unknown_rounding_is_refused(cast: Any, device: torch.device) -> None:
    with pytest.raises(ValueError, match="rounding: wanted floor or ceil, got up"):
        cast(torch.zeros(3, 4, device=device), rounding="up")


@pytest.mark.parametrize("cast", CASTS[3:])
def test_powers_of_two(cast: Any, device: torch.device) -> None:
    x = normal_matrix(40, 140, device)
    exact, rounded = cast(x)[1], cast(x, power_of_two=True)[1]
    assert_equal(rounded, torch.exp2(torch.ceil(torch.log2(exact))))


def test_a_row_beyond_one_tile(device: torch.device) -> None:
    x = normal_matrix(2, blocks.ALONG_ROWS.elements + 40, device)
    assert_all_equal(blocks.mxfp8_dim0(x), mx(x, E4M3, "floor"))
    assert_all_equal(blocks.blockwise_1x128(x), blockwise(x, E4M3))


@pytest.mark.parametrize(("rows", "cols"), [(70, 72), (16, 1000)])
def test_rows_of_less_than_16_byte_units(rows: int, cols: int, device: torch.device) -> None:
    check_mx("floor")(normal_matrix(rows, cols, device))
    check_blockwise(normal_matrix(rows, cols, device))


def test_few_rows_may_be_cast_as_many_are(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(blocks, "FEW_ROWS", 0)
    check_mx("floor")(normal_matrix(33, 40, device))


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_small_matrices_may_be_cast_as_large_ones_are(
    check: Check, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(blocks, "SMALL_MOST_ELEMENTS", 0)
    check(normal_matrix(TILE.rows + 1, TILE.cols + 3, device))
