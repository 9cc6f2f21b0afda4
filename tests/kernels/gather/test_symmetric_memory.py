"""Which ranks can address each other's memory, as far as that can be told before torch is asked."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from kernels.gather import symmetric_memory
from kernels.gather.symmetric_memory import NoPeerAccess


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        ([("a", 0, "x"), ("b", 0, "y")], "ranks are on several hosts: a, b"),
        ([("a", 0, "x"), ("a", -1, "")], "rank 1 has no GPU that torch can use"),
        ([("a", 0, "x"), ("a", 0, "x")], "two ranks use the same GPU; call torch.cuda.set_device"),
    ],
)
def test_obstacles_are_named(places: list[tuple[str, int, str]], reason: str) -> None:
    found = symmetric_memory._obstacle(places)
    assert found is not None
    assert found.startswith(reason)


def test_processes_that_see_one_gpu_each_are_left_to_torch() -> None:
    assert symmetric_memory._obstacle([("a", 0, "x"), ("a", 0, "y")]) is None


def test_gpus_without_access_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda _, other: other != 2)
    places = [("a", 0, "x"), ("a", 1, "y"), ("a", 2, "z")]
    found = symmetric_memory._obstacle(places)
    assert found == "GPU 1 cannot access the memory of GPU 2"
    assert symmetric_memory._obstacle(places[:2]) is None


class Group:
    """What allocate asks of a group."""

    def rank(self) -> int:
        return 0


def allocate(
    monkeypatch: pytest.MonkeyPatch, empty: Callable[[int], Any], of_others: Sequence[object] = ()
) -> None:
    """Allocate where `empty` makes the memory of this rank, and the others say this of theirs."""

    def rendezvous(*_: object) -> None:
        raise AssertionError("it waits for a rank that will not come")

    monkeypatch.setattr(symmetric_memory, "_gathered", lambda value, _: [value, *of_others])
    monkeypatch.setattr(symmetric_memory, "_check_peers", lambda _: None)
    if of_others:
        monkeypatch.setattr(symmetric_memory, "_agree", lambda *_: None)
    monkeypatch.setattr(symmetric_memory, "_empty", empty)
    monkeypatch.setattr(symmetric_memory, "_mapped", rendezvous)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    group: Any = Group()
    symmetric_memory.allocate(1, group)


def test_multicast_is_switched_off_before_memory_is_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def empty(size_bytes: int) -> None:
        seen.append(os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"])
        raise RuntimeError("no such device")

    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "0")
    with pytest.raises(NoPeerAccess, match=r"maps no memory of peers: no such device; use NCCL"):
        allocate(monkeypatch, empty)
    assert seen == ["1"]


def test_a_rank_without_memory_is_not_taken_for_one_without_access(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def empty(size_bytes: int) -> None:
        raise RuntimeError("CUDA driver error: out of memory")

    with pytest.raises(torch.OutOfMemoryError, match="rank 0: CUDA driver error"):
        allocate(monkeypatch, empty)


def test_no_rank_waits_in_a_rendezvous_for_one_without_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "rank 1: CUDA driver error: out of memory"
    with pytest.raises(torch.OutOfMemoryError, match="rank 1: CUDA driver error"):
        allocate(monkeypatch, torch.empty, [said])
