"""Timers: seconds per call of a contender, by methods that do not agree.

These traps once produced wrong numbers:
- one buffer timed again and again measures the cache: inputs and outputs rotate over up to 512
  copies, which exceed twice the last-level cache unless they are very small (not if the protocol
  says hot);
- eager launches of short kernels measure Python: a CUDA graph holds enough calls for one sample to
  last `sample_s`, and slices are queued whole before the host waits;
- an event recorded on an idle GPU waits for the host: each slice starts behind a spinning kernel;
- a kernel that starts while its predecessor drains is faster than alone. A chain of layers sees the
  first number, which `graph` shows; `events_flush` and `profiler` show the second.

Where several devices share a point, the ranks meet before each sample, and the slowest one counts:
- ranks that start apart measure each other's delay: a barrier on the device comes before each
  sample, behind a kernel that spins for as long as the host needs to queue the first one;
- a rank that runs one more call than the others waits for ever: rank 0 decides on counts;
- calls that alternate between two buffers end an odd graph on the buffer that the next replay
  starts with: graphs hold an even number of calls.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal, Protocol

import torch

from roofcal.measure.contender import Contender
from roofcal.measure.failures import reason_of, status_of
from roofcal.measure.ranks import SINGLE_RANK, SingleRank
from roofcal.ops.spec import Unsupported

SPIN_CYCLES = 200_000  # 0.1 ms at 2 GHz: longer than the host needs to queue the first replay
REPLAYED = ("graph", "alone", "burst", "energy")  # methods that differ in who takes turns and when
CaptureMode = Literal["global", "thread_local"]  # whose CUDA calls would spoil a capture
MOST_NODES = 2000  # of one graph
MOST_QUEUED = 600  # replays before the host waits: a turn of half a second
_LONG_CALL: Final = 4  # samples and times of the host: so long a call needs no graph to be timed
_LEAST_SAMPLES: Final = 2  # of a turn of several ranks
Events = list[tuple[torch.cuda.Event, torch.cuda.Event]]


class Timer(Protocol):
    """How samples of a contender are taken."""

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """Samples (seconds per call) for about that long; `while_busy` runs as the device works."""


def make_timer(
    contender: Contender,
    device: torch.device,
    sample_s: float,
    flush_bytes: int,
    ranks: SingleRank = SINGLE_RANK,
) -> Timer:
    """The timer of the contender's protocol; raises Unsupported for a method that there is not."""
    method = contender.point.protocol.method
    is_shared = ranks.world_size > 1
    if is_shared and method == "energy":
        raise Unsupported("method 'energy' is for one device: it reads the counter of one board")
    if device.type == "cpu":
        if method not in ("wall", *REPLAYED) or method == "energy":
            raise Unsupported(f"method '{method}' needs a GPU; a CPU has graph (a loop) and wall")
        shortest_s = 0.0 if method == "wall" else sample_s
        if not is_shared:
            return LoopTimer(contender, shortest_s)
        return SharedTimer(contender, ranks, _Loop(contender, ranks), shortest_s)
    if is_shared:
        if method not in ("events_flush", *REPLAYED):
            several = "several have graph and events_flush"
            raise Unsupported(f"method '{method}' is for one device; {several}")
        own: _Sampler
        if method == "events_flush":
            own = _Eager(contender, torch.empty(flush_bytes // 4, device=device), ranks)
        else:
            own = _Graph(contender, sample_s, ranks)
        return SharedTimer(contender, ranks, own)
    if method in REPLAYED:
        return GraphTimer(contender, sample_s)
    if method == "wall":
        return WallTimer(contender)
    scratch = torch.empty(flush_bytes // 4, device=device)
    return (FlushTimer if method == "events_flush" else ProfilerTimer)(contender, scratch)


def rotation(contender: Contender) -> Callable[[], Any]:
    """A function that calls the contender on the next copy each time."""
    index = 0

    def call() -> Any:
        nonlocal index
        inputs = contender.copies[index]
        index = (index + 1) % len(contender.copies)
        return contender.call(inputs)

    return call


@cache
def _side_stream() -> torch.cuda.Stream:
    """One stream for all first calls: cuBLAS keeps a workspace per stream, 32 MiB on Hopper."""
    return torch.cuda.Stream()


@contextmanager
def _beside() -> Iterator[None]:
    """Device work on the side stream, between what was queued before and what comes after."""
    stream = _side_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def peak_bytes(call: Callable[[], Any]) -> int:
    """Most device memory that a call holds at a time beyond what was held before it, in bytes.

    As PyTorch's allocator counts it: blocks handed out, not what it keeps in reserve.
    """
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return torch.cuda.max_memory_allocated() - held


class GraphTimer:
    """Events around replays of a CUDA graph that holds `calls_per_sample` calls."""

    capture_mode: CaptureMode = "global"

    def __init__(self, contender: Contender, sample_s: float) -> None:
        self._call = rotation(contender)
        self._keep = len(contender.copies)
        self._peak_bytes = 0
        one = self._one_call_s(sample_s)
        self._calls = self._calls_for(one, sample_s)
        self._graph, self._outputs = self._capture(self._calls)
        self._estimate = one * self._calls
        contender.calls_per_sample = self._calls
        contender.peak_bytes = self._peak_bytes
        contender.kernel_names = graph_kernel_names(self._call, self.capture_mode)

    def _one_call_s(self, sample_s: float) -> float:
        """Seconds per call, of an eager one if it is long, else of a short graph.

        That graph is gone when the real one is captured. Its nine calls took 0.7 s of each visit of
        a product of 32768 on an H200.
        """
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with _beside():
            torch.cuda._sleep(SPIN_CYCLES)
            first.record()
            start = time.perf_counter()
            self._call()
            host_s = time.perf_counter() - start
            last.record()
        eager_s = first.elapsed_time(last) / 1e3
        if eager_s > _LONG_CALL * max(sample_s, host_s):
            return eager_s
        calls = max(3, self._keep)
        graph, _outputs = self._capture(calls)
        return self._replay(graph, 3, lambda: None)[-1] / calls

    def _calls_for(self, one: float, sample_s: float) -> int:
        """Calls of one sample: whole rotations, at least sample_s long, at most 2000 nodes."""
        rounds = max(1, round(min(sample_s / one, MOST_NODES) / self._keep))
        return rounds * self._keep

    def _capture(self, calls: int) -> tuple[torch.cuda.CUDAGraph, Any]:
        """(graph of `calls` calls, outputs). Outputs rotate like inputs: one per copy is kept."""
        with (
            _beside()
        ):  # after the first call there: cuBLAS has its workspace of this stream by then
            self._peak_bytes = peak_bytes(self._call)
        outputs: deque[Any] = deque(maxlen=self._keep)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=self.capture_mode):
            for _ in range(calls):
                outputs.append(self._call())
        return graph, outputs

    def _replay(
        self, graph: torch.cuda.CUDAGraph, count: int, while_busy: Callable[[], None]
    ) -> list[float]:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        torch.cuda._sleep(SPIN_CYCLES)
        events[0].record()
        for event in events[1:]:
            graph.replay()
            event.record()
        while_busy()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in pairwise(events)]

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer."""
        count = min(MOST_QUEUED, max(2, round(seconds / self._estimate)))
        samples = self._replay(self._graph, count, while_busy)
        self._estimate = sum(samples) / len(samples)
        return [sample / self._calls for sample in samples]


class FlushTimer:
    """Events around one eager call after the cache was overwritten."""

    def __init__(self, contender: Contender, scratch: torch.Tensor) -> None:
        self._call, self._scratch = rotation(contender), scratch
        contender.kernel_names = graph_kernel_names(self._call)

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer; the time of the flushes counts towards `seconds`."""
        samples: list[float] = []
        end = time.perf_counter() + seconds
        while not samples or time.perf_counter() < end:
            pairs: Events = []
            for _ in range(16):
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                self._scratch.zero_()
                start.record()
                self._call()
                stop.record()
                pairs.append((start, stop))
            samples += seconds_of(pairs, while_busy)
        return samples


class ProfilerTimer:
    """Sum of the kernels' own durations as CUPTI reports them, each call after a flush."""

    def __init__(self, contender: Contender, scratch: torch.Tensor) -> None:
        self._call, self._scratch, self._contender = rotation(contender), scratch, contender

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:  # noqa: ARG002
        """See Timer; takes 16 samples at a time, starting the profiler costs far more."""
        activities = [torch.profiler.ProfilerActivity.CUDA]
        marks = 16
        with torch.profiler.profile(activities=activities, acc_events=True) as profile:
            for _ in range(marks):
                self._scratch.zero_()
                self._call()
            while_busy()
            torch.cuda.synchronize()
        kernels = [e for e in profile.events() if e.device_type.name == "CUDA"]
        kernels.sort(key=lambda event: event.time_range.start)
        per_call, rest = divmod(len(kernels), marks)
        if rest or per_call < 2:
            raise RuntimeError(f"profiler saw {len(kernels)} kernels for {marks} flushes and calls")
        calls = [kernels[i * per_call + 1 : (i + 1) * per_call] for i in range(marks)]
        self._contender.kernel_names = tuple(event.name for event in calls[0])
        return [sum(event.time_range.elapsed_us() for event in call) / 1e6 for call in calls]


class WallTimer:
    """Host clock around one eager call and a synchronisation, as in a Python loop."""

    def __init__(self, contender: Contender) -> None:
        self._call = rotation(contender)
        contender.kernel_names = graph_kernel_names(self._call)

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer."""
        samples: list[float] = []
        end = time.perf_counter() + seconds
        while_busy()
        while not samples or time.perf_counter() < end:
            start = time.perf_counter()
            self._call()
            torch.cuda.synchronize()
            samples.append(time.perf_counter() - start)
        return samples


class LoopTimer:
    """Host clock around enough calls on a CPU, where a call returns when it is done."""

    def __init__(self, contender: Contender, sample_s: float) -> None:
        self._call = rotation(contender)
        self._calls = 1
        one = min(self._sample() for _ in range(3))
        self._calls = max(1, min(MOST_NODES, round(sample_s / max(one, 1e-7))))
        contender.calls_per_sample = self._calls

    def _sample(self) -> float:
        start = time.perf_counter()
        for _ in range(self._calls):
            self._call()
        return (time.perf_counter() - start) / self._calls

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer."""
        end = time.perf_counter() + seconds
        samples = [self._sample()]
        while time.perf_counter() < end:
            samples.append(self._sample())
        while_busy()
        return samples


class _Sampler(Protocol):
    """How one rank takes samples; `calls` is the number of calls that each averages over."""

    calls: int

    def take(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """Seconds per call of `count` samples, each begun after a barrier of all ranks."""


class SharedTimer:
    """Takes as many samples on every rank as rank 0 says; the time of the slowest rank counts."""

    def __init__(
        self, contender: Contender, ranks: SingleRank, own: _Sampler, sample_s: float = 0.0
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


def graph_kernel_names(
    call: Callable[[], Any], capture_mode: CaptureMode = "global"
) -> tuple[str, ...]:
    """Mangled kernel names of one call in launch order; () where cuda-bindings is not installed."""
    try:
        from cuda.bindings import driver  # noqa: PLC0415 (CUDA builds of torch bring it)
    except ImportError:
        return ()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, capture_error_mode=capture_mode):
        output = call()
    del output
    handle = driver.CUgraph(graph.raw_cuda_graph())
    _, nodes, count = _checked(driver, driver.cuGraphGetNodes(handle))
    _, nodes, count = _checked(driver, driver.cuGraphGetNodes(handle, count))
    return tuple(name for node in nodes[:count] if (name := _name(driver, node)))


def _name(driver: Any, node: Any) -> str:
    kind = _checked(driver, driver.cuGraphNodeGetType(node))[1]
    if kind != driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
        return str(kind.name).rsplit("TYPE_", 1)[-1].lower()
    parameters = _checked(driver, driver.cuGraphKernelNodeGetParams(node))[1]
    if int(parameters.func):
        name = _checked(driver, driver.cuFuncGetName(parameters.func))[1]
    else:
        name = _checked(driver, driver.cuKernelGetName(parameters.kern))[1]
    return name.decode() if isinstance(name, bytes) else str(name)


def _checked(driver: Any, answer: tuple[Any, ...]) -> tuple[Any, ...]:
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA driver: {answer[0]}")
    return answer
