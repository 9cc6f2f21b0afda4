"""Timers of several ranks: equally many samples on each, begun together, the slowest counts."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from roofcal.measure.ranks import SingleRank
from roofcal.measure.timing import SharedTimer, make_timer
from roofcal.ops.spec import Unsupported
from tests.roofcal.measure.contenders import contender
from tests.roofcal.measure.stand_in_cuda import StandInCuda

CPU = torch.device("cpu")


class Pair(SingleRank):
    """Two ranks in one process: the other is twice as fast, and rank 0 decides what it is told."""

    world_size = 2

    def __init__(self, decided: float | None = None) -> None:
        self.decided = decided
        self.meetings = 0

    def broadcast(self, value: float) -> float:
        return value if self.decided is None else self.decided

    def all_gather(self, value: Any) -> list[Any]:
        return [value, [sample / 2 for sample in value]]

    def barrier(self) -> None:
        self.meetings += 1


class Script:
    """Samples of 3, 1, 2, 3, ... seconds."""

    calls = 1

    def __init__(self) -> None:
        self.taken = 0

    def samples(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        while_busy()
        self.taken += count
        return [float(1 + (index + 2) % 3) for index in range(count)]


def test_the_slowest_rank_counts_and_the_fastest_is_kept() -> None:
    found = contender()
    timer = SharedTimer(found, Pair(decided=1.0), Script(), 0.0)
    assert timer.take(4.0, lambda: None) == [3.0, 1.0, 2.0, 3.0]
    assert found.fastest_samples == [1.5, 0.5, 1.0, 1.5]
    assert found.own_samples == [3.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(("per_sample", "count"), [(0.25, 8), (100.0, 2), (1e-9, 600)])
def test_rank_0_says_how_many_samples_all_take(per_sample: float, count: int) -> None:
    script, found = Script(), contender()
    timer = SharedTimer(contender(), Pair(decided=per_sample), script, 0.0)
    before = script.taken
    assert len(timer.take(2.0, lambda: None)) == script.taken - before == count
    SharedTimer(found, Pair(), script, 10.0)  # repeated to its length by the slowest rank
    assert found.calls_per_sample == script.calls == 10  # the shortest of 3, 1, 2 seconds


def test_all_ranks_meet_before_each_sample_on_a_cpu() -> None:
    pair, calls = Pair(decided=0.5), list[float]()

    def call(_: Any) -> None:
        calls.append(time.perf_counter())

    found = contender(call=call, method="wall")
    timer = make_timer(found, CPU, 1e-3, 0, pair)
    pair.meetings, calls[:] = 0, []
    assert len(timer.take(2.0, lambda: None)) == pair.meetings == len(calls) == 4


def test_graphs_hold_an_even_number_of_calls_and_are_replayed_together(cuda: StandInCuda) -> None:
    found, pair = contender(copies=3, call=cuda.call(1e-4)), Pair()
    timer = make_timer(found, torch.device("cuda"), 1e-3, 0, pair)
    assert [len(graph.work) % 2 for graph in cuda.graphs] == [0, 0]
    assert found.calls_per_sample == len(cuda.graphs[-1].work)
    assert found.calls_per_sample % 3 == 0, "whole rotations: a copy twice running is in the cache"
    before, meetings = cuda.log.count("replay"), pair.meetings
    samples = timer.take(0.01, lambda: None)
    assert samples == pytest.approx([1e-4] * len(samples))
    assert cuda.log.count("replay") - before == pair.meetings - meetings == len(samples)


@pytest.mark.parametrize(
    ("error", "raised", "says"),
    [
        (
            RuntimeError("operation not permitted when stream is capturing"),
            Unsupported,
            "not be captured in a CUDA graph: RuntimeError: operation not permitted",
        ),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError, "out of memory"),
    ],
)
def test_what_cannot_be_captured_is_unsupported_unless_memory_ran_out(
    cuda: StandInCuda,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    raised: type[Exception],
    says: str,
) -> None:
    modes: list[str] = []

    def refuse(*_: Any, capture_error_mode: str) -> None:
        modes.append(capture_error_mode)
        raise error

    found = contender(call=cuda.call(1e-4))
    monkeypatch.setattr(torch.cuda, "graph", refuse)
    with pytest.raises(raised, match=says):
        make_timer(found, torch.device("cuda"), 1e-3, 0, Pair())
    # Other threads may call CUDA while a rank captures: NCCL's watchdog does.
    assert modes == ["thread_local"]
