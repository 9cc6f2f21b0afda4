"""The descriptor of a matrix; the order of tiles is tested through the products."""

import torch

from kernels.common.tiles import tile_descriptor


def test_the_stride_of_a_single_row_means_nothing(device: torch.device) -> None:
    row = torch.zeros(5, 40, device=device).to(torch.float8_e4m3fn)[:1, :32]
    assert tile_descriptor(row, [16, 16]).strides == [32, 1]
