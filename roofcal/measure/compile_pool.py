"""A pool of processes that compiles points before the timing process comes to them.

Each process takes one point after the other, see roofcal.measure.compile_worker. A pool that dies
costs nothing but time: the timing process compiles what is missing itself. A point whose
compilation takes longer than a contender may take counts as compiled too, and its process is killed
and replaced.

Points that a pool compiled before, for the same code and environment, are not compiled again: a
file in Triton's cache says so for each, and goes when the cache goes.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roofcal.core.jsonl import decode
from roofcal.core.machine.cores import usable_cores
from roofcal.core.records import PlanPoint
from roofcal.measure.supervisor import START_S

_BYTES_PER_PROCESS: Final = 2 << 30  # torch, Triton and LLVM: 1.2 to 1.7 GiB resident
_CORES_BESIDE: Final = 2  # of the timing process and of what Snakemake does beside it
_MOST_PROCESSES: Final = 16
_TICK_S: Final = 1.0  # between two looks at a process that compiles
WORKER = "roofcal.measure.compile_worker"  # tests put a stand-in here


def pool_size() -> int:
    """Processes that find a core and memory beside the timing process; 0 where none does."""
    by_cores = usable_cores() - _CORES_BESIDE
    return max(0, min(by_cores, _available_bytes() // _BYTES_PER_PROCESS, _MOST_PROCESSES))


def _available_bytes() -> int:
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kib) << 10
    return 0


@dataclass(frozen=True, slots=True)
class Task:
    """A point to compile: `key` names it together with its code and environment."""

    key: str
    point: str  # the text of its record


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSetup:
    """How a pool compiles.

    visible    the device, as CUDA_VISIBLE_DEVICES names it
    size       most processes
    timeout_s  most time of the compilation of a point
    """

    visible: str
    size: int
    timeout_s: float


class CompilePool:
    """Compiles points in the order in which they were added, and reports what becomes of them."""

    def __init__(self, setup: PoolSetup, report: Callable[[dict[str, Any]], None]) -> None:
        """Prepare a pool without processes; `add` starts them.

        Args:
            setup: which device, how many processes, how long.
            report: takes {"closed": key} where a point is waited for no longer, {"tell": line}
                where one takes too long, and {"dead": line} where all processes have ended.
        """
        from triton import knobs  # noqa: PLC0415 (0.3 s, which no session need spend)

        self._report, self._timeout_s, self._size = report, setup.timeout_s, setup.size
        self._compiled_folder = Path(knobs.cache.dir) / "roofcal-compiled"
        self._waiting: deque[Task] = deque()
        self._open: set[str] = set()
        self._changed = threading.Condition()
        self.death: str | None = None
        self._is_stopped = self._is_paused = False
        self._processes: list[subprocess.Popen[str]] = []
        self._ready: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._feeding = 0
        self._locks = tempfile.TemporaryDirectory(prefix="roofcal-compile-")
        self._worker_setup = json.dumps({"torch_device": "cuda:0", "locks": self._locks.name})
        variables = {"CUDA_VISIBLE_DEVICES": setup.visible, "OMP_NUM_THREADS": "1"}
        self._environment = {**os.environ, **variables}

    def add(self, tasks: Iterable[Task]) -> list[str]:
        """Compile points that were not compiled before; the keys of those still to be compiled."""
        tasks = list(tasks)
        with self._changed:
            if self.death or self._is_stopped:
                return []
            for task in tasks:
                if task.key not in self._open and not self._compiled_file(task.key).exists():
                    self._open.add(task.key)
                    self._waiting.append(task)
            while self._feeding < min(self._size, len(self._waiting)):
                self._feeding += 1
                self._threads.append(threading.Thread(target=self._feed, daemon=True))
                self._threads[-1].start()
            self._changed.notify_all()
            return [task.key for task in tasks if task.key in self._open]

    def prefer(self, keys: Sequence[str]) -> None:
        """Compile these points before the others that wait, in this order."""
        rank = {key: number for number, key in enumerate(keys)}
        with self._changed:
            ordered = sorted(self._waiting, key=lambda task: rank.get(task.key, len(rank)))
            self._waiting = deque(ordered)

    @property
    def process_ids(self) -> list[int]:
        """The processes of the pool."""
        with self._changed:
            return [process.pid for process in self._processes]

    def pause(self, *, paused: bool) -> None:
        """Stop or resume compiling: what the host times would wait for a core.

        Only processes that are ready are stopped: Linux ends these with the pool, even stopped.
        The assembler that one of them may wait for (ptxas, a second or so) goes on to its end: were
        it stopped, it would outlive a pool that is killed and hold the pipe of its log open.
        """
        with self._changed:
            self._is_paused = paused
            for process in self._ready:
                process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)
            self._changed.notify_all()

    def stop(self) -> None:
        """End all processes, whatever they are compiling."""
        with self._changed:
            self._waiting.clear()
            self._is_stopped = True
            for process in self._processes:
                _kill(process)
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._locks.cleanup()

    def _feed(self) -> None:
        """Give a process and its successors one point after the other, until none is left.

        The thread that feeds a process starts it: Linux kills a worker when its starter ends.
        """
        while True:
            with self._changed:
                process = self._started()
                if process is None:
                    self._feeding -= 1
                    return
            is_lost = self._served(process)
            self._end(process)
            if is_lost:
                with self._changed:
                    self._feeding -= 1
                return

    def _started(self) -> "subprocess.Popen[str] | None":
        """A new process; None where no point is left to compile, or no memory for a process."""
        if self._is_stopped or not self._waiting:
            return None
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", WORKER, self._worker_setup],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            self._lose(None, str(error))
            return None
        self._processes.append(process)
        return process

    def _end(self, process: "subprocess.Popen[str]") -> None:
        with self._changed:
            self._processes.remove(process)
            if process in self._ready:
                self._ready.remove(process)
            _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # a point that a dead process has not read
                pipe.close()

    def _served(self, process: "subprocess.Popen[str]") -> bool:
        """Give a process points while there are any; True where it ended by itself."""
        assert process.stdin is not None
        if not self._line_of(process, START_S):
            _kill(process)
            self._lose(process, f"exit code {process.wait()}")
            return True
        with self._changed:
            self._ready.append(process)
        while (task := self._next()) is not None:
            answer: str | None = ""
            with suppress(BrokenPipeError, OSError):
                process.stdin.write(task.point + "\n")
                process.stdin.flush()
                answer = self._line_of(process, self._timeout_s)
            is_compiled = bool(answer and json.loads(answer)["reason"] is None)
            self._close(task.key, is_compiled=is_compiled)
            if answer is None:
                point = decode(task.point)
                assert isinstance(point, PlanPoint)
                self._report(
                    {
                        "tell": f"{point.op}: {point.recipe} {dict(point.shape)} is not compiled "
                        f"after {self._timeout_s:g} s: it is compiled where it is timed"
                    }
                )
                return False
            if not answer:
                reason = (
                    f"exit code {process.wait()}; SIGKILL is -9, which comes when memory runs out"
                )
                self._lose(process, reason)
                return True
        return False

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

    def _next(self) -> Task | None:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_paused or self._is_stopped)
            return self._waiting.popleft() if self._waiting else None

    def _compiled_file(self, key: str) -> Path:
        """The file that says that a point was compiled before."""
        return self._compiled_folder / key

    def _close(self, key: str, *, is_compiled: bool) -> None:
        """Wait for a point no longer; the next pool compiles it again unless it is compiled."""
        if is_compiled:
            with suppress(OSError):  # a full disk costs a compilation in the next study
                self._compiled_folder.mkdir(parents=True, exist_ok=True)
                self._compiled_file(key).touch()
        with self._changed:
            self._open.discard(key)
        self._report({"closed": key})

    def _lose(self, process: "subprocess.Popen[str] | None", reason: str) -> None:
        """A process ended by itself: the others go on, and without any the pool is dead."""
        with self._changed:
            others = [p for p in self._processes if p is not process and p.poll() is None]
            if others or self._is_stopped or self.death:
                return
            self.death = (
                f"the processes that compile ahead ended ({reason}): "
                "points are compiled where they are timed"
            )
            self._waiting.clear()
            self._open.clear()
            self._report({"dead": self.death})


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a process and the assembler it may wait for: each process leads a group of its own."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
