"""The mxfp8 casts of tiles from the tensor memory unit: to the bit on Hopper, refused elsewhere."""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from kernels.cast.blocks import mxfp8_both, mxfp8_dim1
from kernels.cast.hopper import mx_by_tma as cast_mx_tiles
from kernels.common import configs
from tests.kernels.cast.fp8_reference import E4M3, E5M2, mx
from tests.kernels.cast.test_blocks import compare
from tests.kernels.cast.test_tensorwise_and_rows import drawn

SHAPES = [(80, 8), (256, 128), (272, 136), (1040, 200), (2048, 1024)]


def test_a_cpu_tensor_does_not_fit() -> None:
    assert not cast_mx_tiles.fits(torch.zeros(128, 128, dtype=torch.bfloat16))


@pytest.mark.parametrize(("columns", "bytes_wide"), [(2, 128), (4, 128), (1, 64)])
def test_the_swizzle_is_as_wide_as_a_row(columns: int, bytes_wide: int) -> None:
    how = replace(configs.TILES_MX, columns_per_thread=columns)
    assert cast_mx_tiles.source_layout(how).swizzle_byte_width == bytes_wide


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "rounding"), [(E4M3, "floor"), (E5M2, "ceil")])
@pytest.mark.parametrize(("rows", "cols"), SHAPES)
def test_it_casts_as_the_reference_does(
    rows: int,
    cols: int,
    dtype: torch.dtype,
    rounding: Literal["floor", "ceil"],
    device: torch.device,
) -> None:
    x = drawn(rows, cols, device)
    x[rows // 2, cols // 2] = float("nan")
    if not cast_mx_tiles.fits(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    by_rows = mx(x, dtype, rounding)
    by_columns = mx(x.t().contiguous(), dtype, rounding)
    compare(mxfp8_dim1(x, dtype, rounding=rounding), by_columns)
    compare(mxfp8_both(x, dtype, rounding=rounding), (*by_rows, *by_columns))


def odd_matrix(kind: str, device: torch.device) -> torch.Tensor:
    """A column of rows that begin at multiples of 16 bytes or not, or rows that are the same."""
    if kind == "same rows":
        return drawn(1, 64, device).expand(128, 64)
    return drawn(128, 64 if kind == "aligned column" else 65, device)[:, :1]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("kind", "fits"), [("aligned column", True), ("odd column", False), ("same rows", False)]
)
def test_strides_that_the_tensor_memory_unit_does_not_take_go_another_way(
    kind: str, fits: bool, device: torch.device
) -> None:
    """Rows 128 bytes apart are for it; rows 130 or no bytes apart are not."""
    x = odd_matrix(kind, device)
    hopper = x.is_cuda and torch.cuda.get_device_capability(x.device) >= (9, 0)
    assert cast_mx_tiles.fits(x) == (fits and hopper)
    whole = x.contiguous()
    by_rows, by_columns = mx(whole, E4M3, "floor"), mx(whole.t().contiguous(), E4M3, "floor")
    compare(mxfp8_dim1(x, E4M3, rounding="floor"), by_columns)
    compare(mxfp8_both(x, E4M3, rounding="floor"), (*by_rows, *by_columns))
