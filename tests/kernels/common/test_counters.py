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


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> torch.Tensor:
    left = torch.zeros(12, dtype=torch.int32, device=device)
    monkeypatch.setitem(counters._left_for_graphs, device, left)
    monkeypatch.setattr(counters, "_of_captures", {})
    return left


def test_every_stream_of_every_capture_gets_a_piece_of_its_own(
    pool: torch.Tensor, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    captures = {1: 7, 2: 7}  # stream -> the capture that it belongs to
    monkeypatch.setattr(counters, "_capture_number", captures.get)

    def first_counter(count: int, stream: int) -> int:
        lent = counters._counters_of_capture(count, device, stream)
        assert lent.numel() == count
        return (lent.data_ptr() - pool.data_ptr()) // 4

    assert [first_counter(3, 1), first_counter(2, 1), first_counter(4, 1)] == [0, 0, 0]
    assert first_counter(3, 2) == 4  # from 16 bytes on, as a branch of the same graph
    captures[1] = 8
    assert first_counter(3, 1) == 8
    assert not 0 <= first_counter(5, 1) < 12  # none are left: the graph zeroes its own


@pytest.mark.gpu
@CUDA
def test_streams_do_not_share_counters() -> None:
    device = torch.device("cuda")
    here = counters.zeroed_counters(3, device)
    with torch.cuda.stream(torch.cuda.Stream()):
        there = counters.zeroed_counters(3, device)
    assert here.data_ptr() != there.data_ptr()
    assert counters.zeroed_counters(3, device).data_ptr() == here.data_ptr()


@pytest.mark.gpu
@CUDA
def test_launches_of_a_stream_share_counters_within_a_capture_alone() -> None:
    device = torch.device("cuda")
    counters.zeroed_counters(8, device)
    addresses: list[list[int]] = []
    for _ in range(2):
        graph, branch = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph):
            lent = [counters.zeroed_counters(count, device).data_ptr() for count in (8, 4)]
            branch.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(branch):
                lent.append(counters.zeroed_counters(4, device).data_ptr())
            torch.cuda.current_stream().wait_stream(branch)
        addresses.append(lent)
    (first, again, of_branch), (of_next, *_) = addresses
    assert first == again
    assert len({first, of_branch, of_next}) == 3
