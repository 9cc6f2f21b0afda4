"""Timers: seconds per call of a contender, by methods that do not agree.

These traps once produced wrong numbers:
- one buffer timed again and again measures the cache: inputs and outputs rotate over up to 512
  copies, beyond twice the last-level cache unless very small (not if the protocol says hot);
- eager launches of short kernels measure Python: a CUDA graph holds enough calls for one sample to
  last `sample_s`, and slices are queued whole before the host waits;
- an event recorded on an idle GPU waits for the host: each slice starts behind a spinning kernel;
- a kernel that starts while its predecessor drains is faster than alone. `graph` shows what a chain
  of layers sees, `events_flush` and `profiler` show the other number.

Where several devices share a point:
- ranks that start apart measure each other's delay: a barrier on the device comes before each
  sample, behind a spinning kernel, and the slowest rank counts;
- a rank that runs one more call than the others waits for ever: rank 0 decides on counts;
- calls that alternate between two buffers end an odd graph on the buffer that the next replay
  starts with: graphs hold an even number of calls.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle, pairwise
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
_PER_LOOK: Final = 16  # flushes and calls between two looks at the clock
EventPair = tuple[torch.cuda.Event, torch.cuda.Event]


class Timer(Protocol):
    """How samples of a contender are taken."""

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """Samples (seconds per call) for about that long; `while_busy` runs as the device works."""


class _Sampler(Protocol):
    """How one of several ranks takes samples, each of which averages over `calls` calls."""

    calls: int

    def samples(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """Seconds per call of `count` samples, each begun after a barrier of all ranks."""


def _idle() -> None:
    """Nothing to do while the device is busy."""


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
        loop = LoopTimer(contender, shortest_s, ranks)
        return SharedTimer(contender, ranks, loop, shortest_s) if is_shared else loop
    if is_shared and method not in ("events_flush", *REPLAYED):
        several = "several have graph and events_flush"
        raise Unsupported(f"method '{method}' is for one device; {several}")
    if method in REPLAYED:
        if is_shared:
            return SharedTimer(contender, ranks, SharedGraphTimer(contender, sample_s, ranks))
        return GraphTimer(contender, sample_s)
    if method == "wall":
        return WallTimer(contender)
    scratch = torch.empty(flush_bytes // 4, device=device)
    if method == "profiler":
        return ProfilerTimer(contender, scratch)
    flushed = FlushTimer(contender, scratch, ranks)
    return SharedTimer(contender, ranks, flushed) if is_shared else flushed


def rotation(contender: Contender) -> Callable[[], Any]:
    """A function that calls the contender on the next copy each time."""
    copies = cycle(contender.copies)
    return lambda: contender.call(next(copies))


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


class GraphTimer:
    """Events around replays of a CUDA graph that holds `calls_per_sample` calls."""

    capture_mode: CaptureMode = "global"

    def __init__(self, contender: Contender, sample_s: float) -> None:
        self._call = rotation(contender)
        self._keep = len(contender.copies)
        self._peak_bytes = 0
        one = self._one_call_s(sample_s)
        self.calls = self._calls_for(one, sample_s)
        self._graph, self._outputs = self._capture(self.calls)
        self._estimate = one * self.calls
        contender.calls_per_sample = self.calls
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
        return self._replay(graph, 3, _idle)[-1] / calls

    def _calls_for(self, one: float, sample_s: float) -> int:
        """Calls of one sample: whole rotations, at least sample_s long, at most 2000 nodes."""
        rounds = max(1, round(min(sample_s / one, MOST_NODES) / self._keep))
        return rounds * self._keep

    def _capture(self, calls: int) -> tuple[torch.cuda.CUDAGraph, Any]:
        """(graph of `calls` calls, outputs). Outputs rotate like inputs: one per copy is kept."""
        # PyTorch's allocator counts blocks that it handed out, not what it keeps in reserve. cuBLAS
        # has its workspace of this stream since the first call.
        with _beside():
            held = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self._call()
            self._peak_bytes = torch.cuda.max_memory_allocated() - held
        outputs: deque[Any] = deque(maxlen=self._keep)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=self.capture_mode):
            for _ in range(calls):
                outputs.append(self._call())
        return graph, outputs

    def _replay(
        self, graph: torch.cuda.CUDAGraph, count: int, while_busy: Callable[[], None]
    ) -> list[float]:
        """Seconds of each of so many replays in a row."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        torch.cuda._sleep(SPIN_CYCLES)
        events[0].record()
        for event in events[1:]:
            graph.replay()
            event.record()
        return seconds_of(pairwise(events), while_busy)

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer."""
        count = min(MOST_QUEUED, max(2, round(seconds / self._estimate)))
        samples = self._replay(self._graph, count, while_busy)
        self._estimate = sum(samples) / len(samples)
        return [sample / self.calls for sample in samples]


class SharedGraphTimer(GraphTimer):
    """The same on several devices, where all ranks begin each replay together."""

    # Other threads (NCCL's watchdog) may ask CUDA something meanwhile.
    capture_mode = "thread_local"

    def __init__(self, contender: Contender, sample_s: float, ranks: SingleRank) -> None:
        self._ranks = ranks
        super().__init__(contender, sample_s)

    def _one_call_s(self, sample_s: float) -> float:  # noqa: ARG002 (ranks agree on a graph's)
        calls = max(4, self._keep + self._keep % 2)
        graph, _outputs = self._capture(calls)
        return self._ranks.broadcast(self._replay(graph, 3, _idle)[-1] / calls)

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

    def samples(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """See _Sampler."""
        return [s / self.calls for s in self._replay(self._graph, count, while_busy)]


class FlushTimer:
    """Events around one eager call, launch included, after the cache was overwritten."""

    calls = 1

    def __init__(
        self, contender: Contender, scratch: torch.Tensor, ranks: SingleRank = SINGLE_RANK
    ) -> None:
        self._call, self._scratch, self._ranks = rotation(contender), scratch, ranks
        if ranks.world_size == 1:
            contender.kernel_names = graph_kernel_names(self._call)

    def samples(self, count: int, while_busy: Callable[[], None]) -> list[float]:
        """See _Sampler."""
        pairs: list[EventPair] = []
        for _ in range(count):
            self._scratch.zero_()
            pairs.append(timed(self._call, self._ranks))
        return seconds_of(pairs, while_busy)

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer; the time of the flushes counts towards `seconds`."""
        samples: list[float] = []
        end = time.perf_counter() + seconds
        while not samples or time.perf_counter() < end:
            samples += self.samples(_PER_LOOK, while_busy)
        return samples


class ProfilerTimer:
    """Sum of the kernels' own durations as CUPTI reports them, each call after a flush."""

    def __init__(self, contender: Contender, scratch: torch.Tensor) -> None:
        self._call, self._scratch, self._contender = rotation(contender), scratch, contender

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:  # noqa: ARG002
        """See Timer; takes 16 samples at a time, starting the profiler costs far more."""
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, acc_events=True) as profile:
            for _ in range(_PER_LOOK):
                self._scratch.zero_()
                self._call()
            while_busy()
            torch.cuda.synchronize()
        kernels = [e for e in profile.events() if e.device_type.name == "CUDA"]
        kernels.sort(key=lambda event: event.time_range.start)
        per_call, rest = divmod(len(kernels), _PER_LOOK)
        if rest or per_call < 2:
            raise RuntimeError(
                f"profiler saw {len(kernels)} kernels for {_PER_LOOK} flushes and calls"
            )
        calls = [kernels[i * per_call + 1 : (i + 1) * per_call] for i in range(_PER_LOOK)]
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

    def __init__(
        self, contender: Contender, sample_s: float, ranks: SingleRank = SINGLE_RANK
    ) -> None:
        self._call, self._ranks, self.calls = rotation(contender), ranks, 1
        if ranks.world_size == 1:  # else SharedTimer counts, as all ranks decide it
            self.calls = loop_calls(min(self.samples(3, _idle)), sample_s)
            contender.calls_per_sample = self.calls

    def samples(self, count: int, while_busy: Callable[[], None]) -> list[float]:
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

    def take(self, seconds: float, while_busy: Callable[[], None]) -> list[float]:
        """See Timer."""
        end = time.perf_counter() + seconds
        samples = self.samples(1, _idle)
        while time.perf_counter() < end:
            samples += self.samples(1, _idle)
        while_busy()
        return samples


def loop_calls(one_s: float, sample_s: float) -> int:
    """How many calls of `one_s` seconds fill a sample."""
    return max(1, min(MOST_NODES, round(sample_s / max(one_s, 1e-7))))


class SharedTimer:
    """Takes as many samples on every rank as rank 0 says; the time of the slowest rank counts."""

    def __init__(
        self, contender: Contender, ranks: SingleRank, own: _Sampler, sample_s: float = 0.0
    ) -> None:
        self._contender, self._ranks, self._own = contender, ranks, own
        slowest, _, _ = self._take_together(3, _idle)
        if sample_s:
            own.calls = loop_calls(min(slowest), sample_s)
            self._take_together(1, _idle)
        contender.calls_per_sample = own.calls

    def _take_together(
        self, count: int, while_busy: Callable[[], None]
    ) -> tuple[list[float], list[float], list[float]]:
        """(slowest, fastest, own) samples; notes how long one takes, barrier and all."""
        start = time.perf_counter()
        own = self._own.samples(count, while_busy)
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


def timed(run: Callable[[], Any], ranks: SingleRank) -> EventPair:
    """Events around `run`, recorded behind a barrier of all ranks' devices."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    ranks.barrier()
    start.record()
    run()
    stop.record()
    return start, stop


def seconds_of(pairs: Iterable[EventPair], while_busy: Callable[[], None]) -> list[float]:
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

    def checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
        if answer[0] != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"CUDA driver: {answer[0]}")
        return answer[1:]

    def name_of(node: Any) -> str:
        kind = checked(driver.cuGraphNodeGetType(node))[0]
        if kind != driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            return str(kind.name).rsplit("TYPE_", 1)[-1].lower()
        parameters = checked(driver.cuGraphKernelNodeGetParams(node))[0]
        if int(parameters.func):
            name = checked(driver.cuFuncGetName(parameters.func))[0]
        else:
            name = checked(driver.cuKernelGetName(parameters.kern))[0]
        return name.decode() if isinstance(name, bytes) else str(name)

    handle = driver.CUgraph(graph.raw_cuda_graph())
    _, count = checked(driver.cuGraphGetNodes(handle))
    nodes, count = checked(driver.cuGraphGetNodes(handle, count))
    return tuple(name for node in nodes[:count] if (name := name_of(node)))
