"""Timers of a point on several devices: the ranks meet before each sample, the slowest one counts.

Traps beside those of roofcal.measure.timing:
- ranks that start apart measure each other's delay: a barrier on the device comes before each
  sample, behind a kernel that spins for as long as the host needs to queue the first one;
- a rank that runs one more call than the others waits for ever: rank 0 decides on counts;
- calls that alternate between two buffers end an odd graph on the buffer that the next replay
  starts with: graphs hold an even number of calls.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from roofcal.measure.contender import Contender
from roofcal.measure.failures import reason_of, status_of
from roofcal.measure.ranks import SingleRank
from roofcal.measure.timing import (
    MOST_NODES,
    MOST_QUEUED,
    REPLAYED,
    SPIN_CYCLES,
    GraphTimer,
    Timer,
    rotation,
)
from roofcal.ops.spec import Unsupported

_LEAST_SAMPLES = 2


def make_rank_timer(
    contender: Contender, device: torch.device, sample_s: float, flush_bytes: int, ranks: SingleRank
) -> Timer:
    """The timer of the contender's protocol; raises Unsupported for a method that there is not."""
    method = contender.point.protocol.method
    if method == "energy":
        raise Unsupported("method 'energy' is for one device: it reads the counter of one board")
    if device.type == "cpu":
        if method not in ("wall", *REPLAYED):
            raise Unsupported(f"method '{method}' needs GPUs; CPUs have graph (a loop) and wall")
        loop = _Loop(contender, ranks)
        return SharedTimer(contender, ranks, loop, 0.0 if method == "wall" else sample_s)
    if method in REPLAYED:
        return SharedTimer(contender, ranks, _Graph(contender, sample_s, ranks), 0.0)
    if method == "events_flush":
        scratch = torch.empty(flush_bytes // 4, device=device)
        return SharedTimer(contender, ranks, _Eager(contender, scratch, ranks), 0.0)
    raise Unsupported(f"method '{method}' is for one device; several have graph and events_flush")


class _Sampler(Protocol):
    """How one rank takes samples; `calls` is the number of calls that each averages over."""

    calls: int

    def take(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """Seconds per call of `count` samples, each begun after a barrier of all ranks."""


class SharedTimer:
    """Takes as many samples on every rank as rank 0 says; the time of the slowest rank counts."""

    def __init__(
        self, contender: Contender, ranks: SingleRank, own: _Sampler, sample_s: float
    ) -> None:
        self._contender, self._ranks, self._own = contender, ranks, own
        first = self._take_together(3, lambda: None)[0]
        if sample_s:
            self._own.calls = max(1, min(MOST_NODES, round(sample_s / max(min(first), 1e-7))))
            self._take_together(1, lambda: None)
        contender.calls_per_sample = self._own.calls

    def _take_together(
        self, count: int, while_busy: Callable[[], None]
    ) -> tuple[list[float], list[float], list[float]]:
        """(slowest, fastest, own) samples; notes how long one takes, barrier and all."""
        start = time.perf_counter()
        own = self._own.take(count, while_busy)
        self._estimate = self._ranks.broadcast((time.perf_counter() - start) / count)
        by_sample = list(zip(*self._ranks.all_gather(list(own)), strict=True))
        return [max(times) for times in by_sample], [min(times) for times in by_sample], own

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer."""
        count = min(MOST_QUEUED, max(_LEAST_SAMPLES, round(seconds / self._estimate)))
        samples, fastest, own = self._take_together(count, while_busy)
        self._contender.fastest_samples += fastest
        self._contender.own_samples += own
        return samples


class _Loop:
    """Host clock around calls on a CPU."""

    def __init__(self, contender: Contender, ranks: SingleRank) -> None:
        self._call, self._ranks, self.calls = rotation(contender), ranks, 1

    def take(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """See _Sampler."""
        samples = []
        for _ in range(count):
            self._ranks.barrier()
            start = time.perf_counter()
            for _ in range(self.calls):
                self._call()
            samples.append((time.perf_counter() - start) / self.calls)
        while_busy()
        return samples


Events = list[tuple[torch.cuda.Event, torch.cuda.Event]]


class _Eager:
    """Events around one eager call, launch included, after the cache was overwritten."""

    calls = 1

    def __init__(self, contender: Contender, scratch: torch.Tensor, ranks: SingleRank) -> None:
        self._call, self._scratch, self._ranks = rotation(contender), scratch, ranks

    def take(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """See _Sampler."""
        pairs: Events = []
        for _ in range(count):
            self._scratch.zero_()
            pairs.append(timed(self._call, self._ranks))
        return seconds_of(pairs, while_busy)


class _Graph(GraphTimer):
    """Events around replays of a CUDA graph of many calls, each replay begun together."""

    # Other threads (NCCL's watchdog) may ask CUDA something meanwhile.
    capture_mode = "thread_local"

    def __init__(self, contender: Contender, sample_s: float, ranks: SingleRank) -> None:
        self._ranks = ranks
        super().__init__(contender, sample_s)
        self.calls = self._calls

    def _one_call_s(self, sample_s: float) -> float:  # noqa: ARG002 (ranks agree on a graph's)
        calls = max(4, self._keep + self._keep % 2)
        graph, _outputs = self._capture(calls)
        return self._ranks.broadcast(self._replay(graph, 3, lambda: None)[-1] / calls)

    def _calls_for(self, one: float, sample_s: float) -> int:
        """An even number of whole rotations: a replay does not begin with the last one's copy."""
        calls = super()._calls_for(one, sample_s)
        return calls + calls % 2 * self._keep

    def _capture(self, calls: int) -> tuple[torch.cuda.CUDAGraph, Any]:
        try:
            return super()._capture(calls)
        except Exception as error:
            if status_of(error) != "failed":
                raise
            raise Unsupported(f"can not be captured in a CUDA graph: {reason_of(error)}") from error

    def _replay(
        self, graph: torch.cuda.CUDAGraph, count: int, while_busy: Callable[[], None]
    ) -> list[float]:
        torch.cuda._sleep(SPIN_CYCLES)
        pairs = [timed(graph.replay, self._ranks) for _ in range(count)]
        return seconds_of(pairs, while_busy)

    def take(self, count: float, while_busy: Callable[[], None]) -> list[float]:
        """See _Sampler."""
        samples = self._replay(self._graph, int(count), while_busy)
        return [sample / self._calls for sample in samples]


def timed(run: Callable[[], Any], ranks: SingleRank) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Events around `run`, recorded behind a barrier of all ranks' devices."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    ranks.barrier()
    start.record()
    run()
    stop.record()
    return start, stop


def seconds_of(pairs: Events, while_busy: Callable[[], None]) -> list[float]:
    """Seconds between the events of each pair, once the device has come to the last."""
    while_busy()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1e3 for start, stop in pairs]
