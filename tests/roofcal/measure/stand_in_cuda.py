"""A CUDA of whose clock a test is the master: stands in for torch.cuda where timers are tested."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class StandInCuda:
    """Work takes time when the device does it; a captured call takes none until it is replayed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []
        self.capturing: _Graph | None = None
        self.graphs: list[_Graph] = []
        self.allocated = self.most_allocated = 0

    def allocate(self, size: int) -> None:
        """Hand out `size` bytes, or take them back where it is negative."""
        self.allocated += size
        self.most_allocated = max(self.most_allocated, self.allocated)

    def memory_allocated(self) -> int:
        return self.allocated

    def max_memory_allocated(self) -> int:
        return self.most_allocated

    def reset_peak_memory_stats(self) -> None:
        self.most_allocated = self.allocated

    def call(self, seconds: float) -> Callable[[Any], str]:
        """A provider that takes that long on the device; its output names its input."""

        def run(inputs: Any) -> str:
            name = f"copy {float(inputs['x']):.0f}"
            if self.capturing is None:
                self.now += seconds
                self.log.append(name)
            else:
                self.capturing.work.append((name, seconds))
            return name

        return run

    def CUDAGraph(self) -> "_Graph":  # noqa: N802 (torch's name)
        self.graphs.append(_Graph(self))
        return self.graphs[-1]

    @contextmanager
    def graph(self, graph: "_Graph", capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode in ("global", "thread_local")
        self.capturing = graph
        yield
        self.capturing = None

    @contextmanager
    def stream(self, _: Any) -> Iterator[None]:
        yield

    def Stream(self) -> "_Stream":  # noqa: N802 (torch's name)
        return _Stream()

    def current_stream(self) -> "_Stream":
        return _Stream()

    def Event(self, *, enable_timing: bool) -> "_Event":  # noqa: N802 (torch's name)
        assert enable_timing
        return _Event(self)

    def _sleep(self, cycles: int) -> None:
        self.now += cycles / 2e9
        self.log.append("spin")

    def synchronize(self) -> None:
        self.log.append("wait")


class _Graph:
    def __init__(self, cuda: StandInCuda) -> None:
        self._cuda = cuda
        self.work: list[tuple[str, float]] = []

    def replay(self) -> None:
        self._cuda.now += sum(seconds for _, seconds in self.work)
        self._cuda.log.append("replay")


class _Stream:
    def wait_stream(self, other: "_Stream") -> None:
        assert isinstance(other, _Stream)


class _Event:
    def __init__(self, cuda: StandInCuda) -> None:
        self._cuda = cuda
        self.at = float("nan")

    def record(self) -> None:
        self.at = self._cuda.now

    def elapsed_time(self, later: "_Event") -> float:
        return (later.at - self.at) * 1e3
