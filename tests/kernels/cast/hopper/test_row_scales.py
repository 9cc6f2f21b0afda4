"""The transposing cast for Hopper: compared with the plain one on such a GPU, refused elsewhere."""

import pytest
import torch

from kernels.cast import columns as cast_fp8_columns
from kernels.cast.hopper import row_scales as cast_fp8_hopper
from tests.kernels.cast.fp8_reference import E4M3, E5M2, assert_equal, rowwise
from tests.kernels.cast.test_tensorwise_and_rows import drawn


def test_a_cpu_tensor_does_not_fit() -> None:
    assert not cast_fp8_hopper.fits(torch.zeros(16, 16))


@pytest.mark.parametrize(("warps", "bytes_wide"), [(1, 32), (2, 64), (4, 128), (8, 128)])
def test_a_tile_is_swizzled_as_wide_as_its_runs(warps: int, bytes_wide: int) -> None:
    assert cast_fp8_hopper.tile_layout(warps).swizzle_byte_width == bytes_wide


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("rows", "cols"), [(16, 1), (256, 128), (272, 130), (1024, 777)])
def test_it_casts_as_torch_does(
    rows: int, cols: int, source: torch.dtype, dtype: torch.dtype, device: torch.device
) -> None:
    x = drawn(rows, cols, device).to(source)
    if not cast_fp8_hopper.fits(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    expected = rowwise(x.t().contiguous(), dtype)
    for found, wanted in zip(cast_fp8_columns.rowwise_dim1(x, dtype), expected, strict=True):
        assert_equal(found, wanted)
