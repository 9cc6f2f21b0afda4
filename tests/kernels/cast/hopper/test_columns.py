"""The transposing cast for Hopper, compared with the plain one on such a GPU, refused elsewhere."""

import pytest
import torch

from kernels.cast.columns import rowwise_dim1
from kernels.cast.hopper import columns
from tests.kernels.cast import fp8_reference as reference


def test_a_cpu_tensor_does_not_fit() -> None:
    assert not columns.fits(torch.zeros(16, 16))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [reference.E4M3, reference.E5M2])
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(16, 1), (256, 128), (272, 130), (1024, 777)])
def test_it_casts_as_torch_does(
    shape: tuple[int, int], source: torch.dtype, dtype: torch.dtype, device: torch.device
) -> None:
    x = reference.normal_matrix(*shape, device).to(source)
    if not columns.fits(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    reference.assert_all_equal(
        rowwise_dim1(x, dtype), reference.rowwise(reference.transposed(x), dtype)
    )
