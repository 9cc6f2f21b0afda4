"""Parts of a rank's memory: large enough, aligned, apart from each other."""

import pytest
import torch

from kernels.gather.configs import FLAG_SPACING, chunks_of
from kernels.gather.layout import Layout
from kernels.gather.model import Gathered


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
@pytest.mark.parametrize("buffers", [2, 3])
def test_parts_do_not_overlap(dtype: torch.dtype, buffers: int) -> None:
    what = Gathered(world=3, shard_rows=50, k=48, n=8, dtype=dtype)
    layout = Layout(what, chunks_of(50, 16, 2), buffers)
    memory = torch.zeros(layout.size_bytes, dtype=torch.uint8)
    slots = layout.slots(memory)
    assert slots.flags.shape == (3, 2, FLAG_SPACING)
    assert slots.finished.shape == (3, FLAG_SPACING)
    assert [rows.shape for rows in slots.rows] == [(150, 48)] * buffers
    scaled = dtype.itemsize == 1
    assert [scales.shape for scales in slots.scales] == [(150,)] * (buffers * scaled)
    parts = [slots.flags, slots.finished, *slots.rows, *slots.scales]
    for part in parts:
        assert part.data_ptr() % 16 == memory.data_ptr() % 16
        assert not part.view(torch.uint8).any()
        part.view(torch.uint8).fill_(1)
    assert int(memory.sum()) == sum(part.numel() * part.element_size() for part in parts)
