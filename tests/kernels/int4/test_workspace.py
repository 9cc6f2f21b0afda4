"""Workspaces are kept, grow, and are clean."""

import pytest
import torch

from kernels.int4 import workspace as int4_workspace
from kernels.int4.workspace import Workspace, allocate, cached


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int4_workspace, "_CACHED", {})


def test_counters_start_at_zero_and_sizes_are_rounded_up(device: torch.device) -> None:
    space = allocate(3 << 20, (1 << 14) + 1, device)
    assert space.partials.numel() == 1 << 22
    assert space.counters.numel() == 1 << 15
    assert int(space.counters.abs().sum()) == 0
    assert space.fits(1 << 22, 1 << 15)
    assert not space.fits((1 << 22) + 1, 1)


def test_the_device_keeps_its_workspace(empty: None, device: torch.device) -> None:
    first = cached(10, 10, device)
    assert cached(1 << 20, 5, device) is first


def test_an_outgrown_workspace_is_kept_for_graphs_that_use_it(
    empty: None, device: torch.device
) -> None:
    first = cached(10, 10, device)
    second = cached(1 << 21, 10, device)
    assert second is not first
    assert any(known is first for known in int4_workspace._CACHED[device])


def test_none_is_made_during_a_capture(empty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match=r"100 sums and 7 counters during a CUDA graph capture"):
        cached(100, 7, torch.device("cuda:0"))


def test_a_workspace_holds_what_it_was_given(device: torch.device) -> None:
    space = Workspace(
        partials=torch.zeros(8, device=device),
        counters=torch.zeros(2, dtype=torch.int32, device=device),
    )
    assert space.fits(8, 2)
    assert not space.fits(8, 3)
