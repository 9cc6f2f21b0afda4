"""Counters are zeros, and no two graphs share them."""

import pytest
import torch

from kernels.common import counters

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="streams and graphs need a GPU")


def test_counters_begin_at_zero(device: torch.device) -> None:
    zeros = counters.zeroed_counters(5, device)
    assert zeros.shape == (5,)
    assert zeros.dtype == torch.int32
    assert not zeros.any()


def test_more_than_a_stream_has_are_made(device: torch.device) -> None:
    count = counters._COUNTERS_OF_A_STREAM + 1
    assert counters.zeroed_counters(count, device).numel() == count


def test_graphs_get_pieces_that_do_not_overlap(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    pool = torch.zeros(10, dtype=torch.int32, device=device)
    monkeypatch.setitem(counters._left_for_graphs, device, [pool])
    first, second = (counters._counters_of_graph(4, device) for _ in range(2))
    assert first.data_ptr() == pool.data_ptr()
    assert second.data_ptr() == pool[4:].data_ptr()
    last = counters._counters_of_graph(4, device)  # two are left: not enough
    assert last.numel() == 4
    assert not pool.data_ptr() <= last.data_ptr() < pool.data_ptr() + 40


@pytest.mark.gpu
@CUDA
def test_streams_do_not_share_counters() -> None:
    device = torch.device("cuda")
    here = counters.zeroed_counters(3, device)
    with torch.cuda.stream(torch.cuda.Stream()):
        there = counters.zeroed_counters(3, device)
    assert here.data_ptr() != there.data_ptr()
    assert counters.zeroed_counters(3, device).data_ptr() == here.data_ptr()
