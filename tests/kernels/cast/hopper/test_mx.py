"""The transposing mxfp8 casts for Hopper: to the bit on such a GPU, refused elsewhere."""

import pytest
import torch

from kernels.cast.blocks import Rounding, mxfp8_both, mxfp8_dim1
from kernels.cast.hopper import mx as hopper_mx
from kernels.common.architecture import has_tensor_memory_unit
from tests.kernels.cast.fp8_reference import (
    E4M3,
    E5M2,
    assert_all_equal,
    mx,
    normal_matrix,
    transposed,
)


def check(x: torch.Tensor, dtype: torch.dtype, rounding: Rounding) -> None:
    by_rows, by_columns = mx(x, dtype, rounding), mx(transposed(x), dtype, rounding)
    assert_all_equal(mxfp8_dim1(x, dtype, rounding=rounding), by_columns)
    assert_all_equal(mxfp8_both(x, dtype, rounding=rounding), (*by_rows, *by_columns))


def test_a_cpu_tensor_does_not_fit() -> None:
    assert not hopper_mx.fits(torch.zeros(128, 128, dtype=torch.bfloat16))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize(
    ("shape", "source", "fits"),
    [
        *[(shape, torch.bfloat16, True) for shape in ((80, 8), (272, 136), (1040, 200))],
        *[(shape, torch.bfloat16, True) for shape in ((256, 128), (2048, 1024))],
        # rows that begin anywhere, and other types
        *[(shape, torch.bfloat16, False) for shape in ((16, 1), (272, 130), (1024, 777))],
        *[(shape, torch.float32, False) for shape in ((272, 136), (1024, 777), (2048, 1024))],
        ((272, 136), torch.float16, False),
    ],
)
def test_it_casts_as_the_reference_does(
    shape: tuple[int, int],
    source: torch.dtype,
    fits: bool,
    rounding: Rounding,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    x = normal_matrix(*shape, device).to(source)
    x[shape[0] // 2, shape[1] // 2] = float("nan")
    if not has_tensor_memory_unit(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    assert hopper_mx.fits(x) == fits
    check(x, dtype, rounding)


def odd_matrix(kind: str, device: torch.device) -> torch.Tensor:
    """A column of rows that begin at multiples of 16 bytes or not, or rows that are the same."""
    if kind == "same rows":
        return normal_matrix(1, 64, device).expand(128, 64)
    return normal_matrix(128, 64 if kind == "aligned column" else 65, device)[:, :1]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("kind", "fits"), [("aligned column", True), ("odd column", False), ("same rows", False)]
)
def test_strides_that_the_tensor_memory_unit_does_not_take_go_another_way(
    kind: str, fits: bool, device: torch.device
) -> None:
    """Rows 128 bytes apart are for it; rows 130 or no bytes apart are not."""
    x = odd_matrix(kind, device)
    assert hopper_mx.fits(x) == (fits and has_tensor_memory_unit(x))
    contiguous = x.contiguous()
    by_rows = mx(contiguous, E4M3, "floor")
    by_columns = mx(transposed(contiguous), E4M3, "floor")
    assert_all_equal(mxfp8_dim1(x, E4M3, rounding="floor"), by_columns)
    assert_all_equal(mxfp8_both(x, E4M3, rounding="floor"), (*by_rows, *by_columns))
