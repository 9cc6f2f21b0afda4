"""Casts with a scale per block, to the bit, in the interpreter or on the GPU."""

from typing import Any

import pytest
import torch

from kernels.cast import blocks
from tests.kernels.cast.fp8_reference import assert_equal, normal_matrix
from tests.kernels.cast.test_every_cast import check

TILE = blocks.ALONG_COLUMNS


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


@pytest.mark.parametrize("cast", [blocks.mxfp8_dim0, blocks.mxfp8_dim1, blocks.mxfp8_both])
def test_an_unknown_rounding_is_refused(cast: Any, device: torch.device) -> None:
    with pytest.raises(ValueError, match="rounding: wanted floor or ceil, got up"):
        cast(torch.zeros(3, 4, device=device), rounding="up")


@pytest.mark.parametrize(
    "cast", [blocks.blockwise_1x128, blocks.blockwise_1x128_dim1, blocks.blockwise_128x128]
)
def test_powers_of_two(cast: Any, device: torch.device) -> None:
    x = normal_matrix(10, 140, device)
    exact, rounded = cast(x)[1], cast(x, power_of_two=True)[1]
    assert_equal(rounded, torch.exp2(torch.ceil(torch.log2(exact))))


def test_a_row_beyond_one_tile(device: torch.device) -> None:
    x = normal_matrix(2, blocks.ALONG_ROWS.elements + 40, device)
    check("mx floor", x)
    check("strips", x)


@pytest.mark.parametrize(("rows", "cols"), [(20, 72), (3, 1000)])
@pytest.mark.parametrize("name", ["mx floor", "mx floor both ways", "strips", "strips down"])
def test_units_of_rows_may_be_smaller_than_16_bytes(
    name: str, rows: int, cols: int, device: torch.device
) -> None:
    check(name, normal_matrix(rows, cols, device))


@pytest.mark.parametrize("name", ["mx floor down", "mx floor both ways"])
def test_few_rows_may_be_cast_as_many_are(
    name: str, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(blocks, "FEW_ROWS", 0)
    check(name, normal_matrix(33, 40, device))


@pytest.mark.parametrize("name", ["mx floor", "mx ceil down", "mx ceil both ways", "strips"])
def test_small_matrices_may_be_cast_as_large_ones_are(
    name: str, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(blocks, "SMALL_MOST_ELEMENTS", 0)
    check(name, normal_matrix(TILE.rows + 1, TILE.cols + 3, device))
