"""Timers of a point on several devices: the ranks meet before each sample, the slowest one counts.

Beside the traps of roofcal.measure.timing:
- ranks that start apart measure each other's delay: a barrier on the device stands before each
  sample, behind a kernel that spins for as long as the host needs to queue the first one;
- a rank that runs one more call than the others waits for ever: counts are agreed upon;
- a graph of an odd number of calls ends on the buffer it starts with, where calls alternate between
  two: graphs hold an even number.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from roofcal.measure.contender import Contender
from roofcal.measure.failures import reason_of, status_of
from roofcal.measure.ranks import Alone, slowest
from roofcal.measure.timing import (
    MOST_NODES,
    MOST_QUEUED,
    SPIN_CYCLES,
    GraphTimer,
    Timer,
    rotation,
)
from roofcal.ops.spec import Unsupported

_LEAST = 2


def make_rank_timer(
    contender: Contender, device: torch.device, sample_s: float, flush_bytes: int, ranks: Alone
) -> Timer:
    """The timer of the contender's protocol; raises Unsupported for a method it has not."""
    method = contender.point.protocol.method
    if device.type == "cpu":
        if method not in ("graph", "wall"):
            raise Unsupported(f"method '{method}' needs GPUs; CPUs have graph (a loop) and wall")
        loop = _Loop(contender, ranks)
        return SharedTimer(contender, ranks, loop, sample_s if method == "graph" else 0.0)
    if method == "graph":
        return SharedTimer(contender, ranks, _Graph(contender, sample_s, ranks), 0.0)
    if method == "events_flush":
        scratch = torch.empty(flush_bytes // 4, device=device)
        return SharedTimer(contender, ranks, _Eager(contender, scratch, ranks), 0.0)
    raise Unsupported(f"method '{method}' is for one device; several have graph and events_flush")


class _Samples(Protocol):
    """How one rank takes samples; `calls` says how many calls each averages over."""

    calls: int

    def take(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """Seconds per call of `count` samples, each begun when all ranks were there."""


class SharedTimer:
    """As many samples on every rank as rank 0 says; of each the time of the slowest rank."""

    def __init__(self, contender: Contender, ranks: Alone, own: _Samples, sample_s: float) -> None:
        self._contender, self._ranks, self._own = contender, ranks, own
        one = self._shared(3, lambda: None)[0]
        if sample_s:
            self._own.calls = max(1, min(MOST_NODES, round(sample_s / max(min(one), 1e-7))))
            self._shared(1, lambda: None)
        contender.calls_per_sample = self._own.calls

    def _shared(
        self, count: int, while_busy: Callable[[], None]
    ) -> tuple[list[float], list[float], list[float]]:
        """(slowest, fastest, own) samples; notes how long one takes with all that is around it."""
        start = time.perf_counter()
        own = self._own.take(count, while_busy)
        self._estimate = self._ranks.agree((time.perf_counter() - start) / count)
        return (*slowest(self._ranks, own), own)

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer."""
        count = min(MOST_QUEUED, max(_LEAST, round(seconds / self._estimate)))
        samples, fastest, own = self._shared(count, while_busy)
        self._contender.fastest_samples += fastest
        self._contender.own_samples += own
        return samples


class _Loop:
    """Host clock around calls on a CPU."""

    def __init__(self, contender: Contender, ranks: Alone) -> None:
        self._call, self._ranks, self.calls = rotation(contender), ranks, 1

    def take(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """See _Samples."""
        samples = [self._one() for _ in range(count)]
        while_busy()
        return samples

    def _one(self) -> float:
        self._ranks.align()
        start = time.perf_counter()
        for _ in range(self.calls):
            self._call()
        return (time.perf_counter() - start) / self.calls


Events = list[tuple[torch.cuda.Event, torch.cuda.Event]]


class _Eager:
    """Events around one eager call after the cache was overwritten: launches count, as they do."""

    calls = 1

    def __init__(self, contender: Contender, scratch: torch.Tensor, ranks: Alone) -> None:
        self._call, self._scratch, self._ranks = rotation(contender), scratch, ranks

    def take(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """See _Samples."""
        pairs: Events = []
        for _ in range(count):
            self._scratch.zero_()
            pairs.append(timed(self._call, self._ranks))
        return seconds_of(pairs, while_busy)


class _Graph(GraphTimer):
    """Events around replays of a CUDA graph of many calls, each replay begun together."""

    # Other threads (NCCL's watchdog) may ask CUDA something meanwhile.
    capture_mode = "thread_local"

    def __init__(self, contender: Contender, sample_s: float, ranks: Alone) -> None:
        self._ranks = ranks
        super().__init__(contender, sample_s)
        self.calls = self._calls

    def _one_call_s(self) -> float:
        calls = _even(max(4, self._keep))
        graph, _outputs = self._capture(calls)
        return self._ranks.agree(self._replay(graph, 3)[-1] / calls)

    def _calls_for(self, one: float, sample_s: float) -> int:
        """Whole rotations, so that no replay begins with the copy that the last one ended with."""
        calls = super()._calls_for(one, sample_s)
        return calls + calls % 2 * self._keep

    def _capture(self, calls: int) -> tuple[torch.cuda.CUDAGraph, Any]:
        try:
            return super()._capture(calls)
        except Exception as error:
            if status_of(error) != "failed":
                raise
            raise Unsupported(f"can not be captured in a CUDA graph: {reason_of(error)}") from error

    def _replay(self, graph: torch.cuda.CUDAGraph, count: int) -> list[float]:
        torch.cuda._sleep(SPIN_CYCLES)
        pairs = [timed(graph.replay, self._ranks) for _ in range(count)]
        return seconds_of(pairs, self._after_queueing)

    def take(self, count: float, while_busy: Callable[[], None]) -> list[float]:
        """See _Samples."""
        self._after_queueing = while_busy
        return [sample / self._calls for sample in self._replay(self._graph, int(count))]


def _even(calls: int) -> int:
    return calls + calls % 2


def timed(run: Callable[[], Any], ranks: Alone) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Events around `run`, recorded behind a barrier of all ranks' devices."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    ranks.align()
    start.record()
    run()
    stop.record()
    return start, stop


def seconds_of(pairs: Events, while_busy: Callable[[], None]) -> list[float]:
    """Seconds between the events of each pair, once the device has come to the last."""
    while_busy()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1e3 for start, stop in pairs]
