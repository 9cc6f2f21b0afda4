"""The transposing mxfp8 casts for Hopper: to the bit on such a GPU, refused elsewhere."""

from typing import Literal

import pytest
import torch

from kernels.cast import blocks as cast_blocks
from kernels.cast.hopper import mx_by_threads as cast_mx_hopper
from tests.kernels.cast.fp8_reference import E4M3, E5M2, mx
from tests.kernels.cast.test_blocks import compare
from tests.kernels.cast.test_tensorwise_and_rows import drawn


def test_a_cpu_tensor_does_not_fit() -> None:
    assert not cast_mx_hopper.fits(torch.zeros(32, 32))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("rows", "cols"), [(16, 1), (256, 128), (272, 130), (1024, 777)])
def test_it_casts_as_the_reference_does(
    rows: int,
    cols: int,
    source: torch.dtype,
    rounding: Literal["floor", "ceil"],
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    x = drawn(rows, cols, device).to(source)
    x[rows // 2, cols // 2] = float("nan")
    if not cast_mx_hopper.fits(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    by_rows = mx(x, dtype, rounding)
    by_columns = mx(x.t().contiguous(), dtype, rounding)
    compare(cast_blocks.mxfp8_dim1(x, dtype, rounding=rounding), by_columns)
    both = cast_blocks.mxfp8_both(x, dtype, rounding=rounding)
    compare(both, (*by_rows, *by_columns))
