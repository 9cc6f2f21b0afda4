"""Counters are zeros, and no two graphs share them."""

import pytest
import torch

from kernels.common import counters as split_counters

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="streams and graphs need a GPU")


def test_counters_begin_at_zero(device: torch.device) -> None:
    counters = split_counters.zeroed_counters(5, device)
    assert counters.shape == (5,)
    assert counters.dtype == torch.int32
    assert not counters.any()


def test_more_than_a_stream_has_are_made(device: torch.device) -> None:
    count = split_counters._LENT_TO_STREAM + 1
    assert split_counters.zeroed_counters(count, device).numel() == count


def test_graphs_get_pieces_that_do_not_overlap(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    pool = torch.zeros(10, dtype=torch.int32, device=device)
    monkeypatch.setitem(split_counters._of_graphs, device, [pool])
    first, second = (split_counters._for_graph(4, device) for _ in range(2))
    assert first.data_ptr() == pool.data_ptr()
    assert second.data_ptr() == pool[4:].data_ptr()
    last = split_counters._for_graph(4, device)  # two are left: not enough
    assert last.numel() == 4
    assert not pool.data_ptr() <= last.data_ptr() < pool.data_ptr() + 40


@pytest.mark.gpu
@CUDA
def test_streams_do_not_share_counters() -> None:
    device = torch.device("cuda")
    here = split_counters.zeroed_counters(3, device)
    with torch.cuda.stream(torch.cuda.Stream()):
        there = split_counters.zeroed_counters(3, device)
    assert here.data_ptr() != there.data_ptr()
    assert split_counters.zeroed_counters(3, device).data_ptr() == here.data_ptr()
