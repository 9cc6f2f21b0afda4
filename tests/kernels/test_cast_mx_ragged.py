"""mxfp8 casts of rows that begin anywhere: to the bit on Hopper, refused elsewhere."""

from typing import Literal

import pytest
import torch

from kernels import cast_mx_ragged, configs
from kernels.cast_blocks import mxfp8_both, mxfp8_dim0, mxfp8_dim1
from tests.kernels.fp8_reference import E4M3, E5M2, mx
from tests.kernels.test_cast_blocks import compare
from tests.kernels.test_cast_fp8 import drawn

SHAPES = [(65, 67), (129, 133), (255, 257), (1001, 130), (300, 515)]


def test_a_cpu_tensor_does_not_fit() -> None:
    assert not cast_mx_ragged.fits(torch.zeros(255, 257), transposing=True)


@pytest.mark.parametrize(
    ("rows", "cols", "rows_only", "transposing"),
    [
        (4095, 4097, True, True),
        (4095, 4096, False, True),
        (4096, 4097, True, True),
        (4096, 4096, False, False),
        (1000, 1000, False, False),
        (1004, 1004, True, True),
        (configs.FEW_ROWS, 4097, False, False),
        (4097, configs.FEW_ROWS, False, False),
    ],
)
def test_what_moves_in_bits_is_ragged(
    rows: int, cols: int, rows_only: bool, transposing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs, "RAGGED_MOST_ALIGNMENT", 4)
    x = torch.empty(rows, cols, device="meta")
    assert cast_mx_ragged.is_ragged(x, transposing=False) == rows_only
    assert cast_mx_ragged.is_ragged(x, transposing=True) == transposing


def test_rows_of_a_wider_matrix_are_ragged() -> None:
    x = torch.empty(128, 129, device="meta")[:, :128]
    assert cast_mx_ragged.is_ragged(x, transposing=False)


@pytest.mark.gpu
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("dtype", "rounding"), [(E4M3, "floor"), (E5M2, "ceil")])
@pytest.mark.parametrize(("rows", "cols"), SHAPES)
def test_it_casts_as_the_reference_does(
    rows: int,
    cols: int,
    dtype: torch.dtype,
    rounding: Literal["floor", "ceil"],
    source: torch.dtype,
    device: torch.device,
) -> None:
    x = drawn(rows, cols, device).to(source)
    x[rows // 2, cols // 2] = float("nan")
    if not cast_mx_ragged.fits(x, transposing=True):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    by_rows = mx(x, dtype, rounding)
    by_columns = mx(x.t().contiguous(), dtype, rounding)
    compare(mxfp8_dim0(x, dtype, rounding=rounding), by_rows)
    compare(mxfp8_dim1(x, dtype, rounding=rounding), by_columns)
    compare(mxfp8_both(x, dtype, rounding=rounding), (*by_rows, *by_columns))
