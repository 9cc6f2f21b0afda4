"""Largest values and how scales lie; the device functions are tested through the casts."""

import pytest
import torch

from kernels.common.fp8_scales import LARGEST, in_aligned_columns, new_block_scales


def test_the_largest_values_are_those_of_the_types() -> None:
    for dtype, largest in LARGEST.items():
        assert largest == torch.finfo(dtype).max


def test_scales_of_blocks_lie_transposed_in_columns_of_16_bytes(device: torch.device) -> None:
    scales = new_block_scales(10, 3, device)
    assert (scales.shape, scales.stride(), scales.dtype) == ((10, 3), (1, 12), torch.float32)
    assert in_aligned_columns(scales) is scales


@pytest.mark.parametrize(
    ("steps", "rows", "aligned"), [(3, 8, True), (3, 12, True), (3, 10, False), (1, 10, True)]
)
def test_scales_that_do_not_lie_in_aligned_columns_are_copied_there(
    steps: int, rows: int, aligned: bool, device: torch.device
) -> None:
    scales = torch.rand(steps, rows, device=device).t()
    in_rows = scales.contiguous()  # those of one step lie in a column, too
    for given, is_kept in ((scales, aligned), (in_rows, steps == 1), (scales[1:], False)):
        laid = in_aligned_columns(given)
        assert (laid is given) == is_kept
        assert in_aligned_columns(laid) is laid
        assert torch.equal(laid, given)
