"""A pool of processes that compiles points before the timing process comes to them.

Each process takes one point after the other, see roofcal.measure.compile_worker. The timing process
asks which of its groups are compiled, and takes those first, so that it does not wait for a
compiler while cores are idle. A pool that dies costs nothing but time: its points count as
compiled, and the timing process compiles what is missing itself. A point whose compilation takes
longer than a contender may take counts as compiled too, and its process is killed and replaced.

Points that a pool compiled before, for the same code and environment, are not compiled again: a
file in Triton's cache says so for each, and goes when the cache goes.
"""

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from roofcal.core.jsonl import encode
from roofcal.core.records import PlanPoint
from roofcal.measure.supervisor import START_S

_BYTES_PER_PROCESS: Final = 2 << 30  # torch, Triton and LLVM: 1.2 to 1.7 GiB resident
_CORES_BESIDE: Final = 2  # of the timing process and of what Snakemake does beside it
_MOST_PROCESSES: Final = 16
_TICK_S: Final = 1.0  # between two looks at a process that compiles
WORKER = "roofcal.measure.compile_worker"  # tests put a stand-in here


def pool_size() -> int:
    """Processes that find a core and memory beside the timing process; 0 where none does."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    by_cores = (cores or 1) - _CORES_BESIDE
    return max(0, min(by_cores, _available_bytes() // _BYTES_PER_PROCESS, _MOST_PROCESSES))


def _available_bytes() -> int:
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kib) << 10
    return 0


class CompilePool:
    """Compiles points in order; `wait_for_any` says which groups of points are compiled."""

    def __init__(
        self,
        points: Iterable[PlanPoint],
        visible: str,
        size: int,
        tell: Callable[[str], None],
        basis_of: Callable[[str], str],
        timeout_s: float,
    ) -> None:
        """Start the processes, as many as there are points to compile.

        Args:
            points: what to compile, the first needed first; points of several devices are left out.
            visible: the device, as CUDA_VISIBLE_DEVICES names it.
            size: most processes.
            tell: takes one line where the pool dies or a compilation takes too long.
            basis_of: op -> text that names the code and the environment that its kernels are for.
            timeout_s: most time of the compilation of a point.
        """
        from triton import knobs  # noqa: PLC0415 (0.3 s, which a CPU session need not spend)

        self._tell, self._basis_of, self._timeout_s = tell, basis_of, timeout_s
        self._compiled_folder = Path(knobs.cache.dir) / "roofcal-compiled"
        self._waiting = deque(
            point
            for point in points
            if point.world_size == 1 and not self._compiled_file(point).exists()
        )
        size = min(size, len(self._waiting))
        self._open = {point.point_id for point in self._waiting}
        self._changed = threading.Condition()
        self._is_alive = size > 0
        self._is_paused = False
        self._ready: list[subprocess.Popen[str]] = []
        self._locks = tempfile.TemporaryDirectory(prefix="roofcal-compile-")
        self._setup = json.dumps({"torch_device": "cuda:0", "locks": self._locks.name})
        variables = {"CUDA_VISIBLE_DEVICES": visible, "OMP_NUM_THREADS": "1"}
        self._environment = {**os.environ, **variables}
        self._processes = [self._new_process() for _ in range(size)]
        self._threads = [
            threading.Thread(target=self._feed, args=(process,), daemon=True)
            for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    def _new_process(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", WORKER, self._setup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            text=True,
            start_new_session=True,
        )

    def is_compiled(self, points: Sequence[PlanPoint]) -> bool:
        """Whether none of the points is still to be compiled by the pool."""
        with self._changed:
            return self._all_compiled(points)

    def _all_compiled(self, points: Sequence[PlanPoint]) -> bool:
        return not self._is_alive or self._open.isdisjoint(point.point_id for point in points)

    def wait_for_any(self, groups: Sequence[Sequence[PlanPoint]]) -> int:
        """The number of the first group that is compiled; waits until there is one."""
        with self._changed:
            while True:
                for number, points in enumerate(groups):
                    if self._all_compiled(points):
                        return number
                self._changed.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it no process compiles, because what the host times would wait for a core.

        Only processes that are ready are stopped: Linux ends these with the session, even stopped.
        The assembler that one of them may wait for (ptxas, a second or so) goes on to its end: were
        it stopped, it would outlive a session that is killed and hold the pipe of its log open.
        """
        self._pause(signal.SIGSTOP)
        try:
            yield
        finally:
            self._pause(signal.SIGCONT)

    def _pause(self, stop_or_go: signal.Signals) -> None:
        with self._changed:
            self._is_paused = stop_or_go == signal.SIGSTOP
            for process in self._ready:
                process.send_signal(stop_or_go)
            self._changed.notify_all()

    def stop(self) -> None:
        """End all processes, whatever they are compiling."""
        with self._changed:
            self._waiting.clear()
            self._is_alive = False
            self._changed.notify_all()
        for process in self._processes:
            _kill(process)
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()
        self._locks.cleanup()

    def _feed(self, process: "subprocess.Popen[str] | None") -> None:
        """Give a process and its successors one point after the other, until none is left."""
        while process is not None:
            process = self._served(process)

    def _served(self, process: "subprocess.Popen[str]") -> "subprocess.Popen[str] | None":
        """The successor of a process that was late; None at the end of the points or of it."""
        assert process.stdin is not None
        if not self._line_of(process, START_S):
            _kill(process)
            self._lose(process)
            return None
        with self._changed:
            self._ready.append(process)
        while (point := self._next()) is not None:
            answer: str | None = ""
            with suppress(BrokenPipeError, OSError):
                process.stdin.write(encode(point) + "\n")
                process.stdin.flush()
                answer = self._line_of(process, self._timeout_s)
            is_compiled = bool(answer and json.loads(answer)["reason"] is None)
            self._close(point, is_compiled=is_compiled)
            if answer is None:
                self._tell(
                    f"{point.op}: {point.recipe} {dict(point.shape)} is not compiled after "
                    f"{self._timeout_s:g} s: it is compiled where it is timed"
                )
                return self._replaced(process)
            if not answer:
                self._lose(process)
                return None
        return None

    def _line_of(self, process: "subprocess.Popen[str]", patience_s: float) -> str | None:
        """The next line of a process: "" where it ended, None where none came in time.

        Time during which the pool is paused does not count.
        """
        assert process.stdout is not None
        while patience_s > 0:
            tick_s = min(_TICK_S, patience_s)
            if select.select([process.stdout], [], [], tick_s)[0]:
                return process.stdout.readline()
            patience_s -= 0.0 if self._is_paused else tick_s
        return None

    def _next(self) -> PlanPoint | None:
        with self._changed:
            self._changed.wait_for(lambda: not (self._is_paused and self._is_alive))
            return self._waiting.popleft() if self._waiting else None

    def _compiled_file(self, point: PlanPoint) -> Path:
        """The file that says that a point was compiled before."""
        identity = f"{self._basis_of(point.op)} {point.point_id}"
        return self._compiled_folder / hashlib.sha256(identity.encode()).hexdigest()

    def _close(self, point: PlanPoint, *, is_compiled: bool) -> None:
        """Wait for a point no longer; the next session compiles it again unless it is compiled."""
        if is_compiled:
            with suppress(OSError):  # a full disk costs a compilation in the next session
                self._compiled_folder.mkdir(parents=True, exist_ok=True)
                self._compiled_file(point).touch()
        with self._changed:
            self._open.discard(point.point_id)
            self._changed.notify_all()

    def _replaced(self, process: "subprocess.Popen[str]") -> "subprocess.Popen[str] | None":
        """A new process in the place of one that is late; None once the pool is stopped.

        The thread that feeds it starts it: Linux kills a worker when its starting thread ends.
        """
        with self._changed:
            _kill(process)
            process.wait()
            if not self._is_alive:
                return None
            try:
                successor = self._new_process()
            except OSError:  # no memory for another process
                self._lose(process)
                return None
            self._processes[self._processes.index(process)] = successor
            return successor

    def _lose(self, process: "subprocess.Popen[str]") -> None:
        """A process ended by itself: the others go on, and without any the pool is dead."""
        code = process.wait()
        with self._changed:
            if not self._is_alive:
                return
            others = [p for p in self._processes if p is not process and p.poll() is None]
            if not others:
                self._is_alive = False
                self._waiting.clear()
                self._tell(
                    f"the processes that compile ahead ended (exit code {code}; SIGKILL is -9, "
                    "which comes when memory runs out): points are compiled where they are timed"
                )
            self._changed.notify_all()


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a process and the assembler it may wait for: each process leads a group of its own."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
