"""The processes that measure: one for a device, or one per rank for a point on several devices.

The supervisor starts ranks itself: torchrun's agent would close the descriptors that keep devices
locked, and tells by the clock which rank died first. Ranks meet through a file, not a port.

One rank that dies or hangs stalls all others, or makes them raise. At fault is, in this order: one
that died without a word; one that reported trouble while the others waited for it; the one whose
error came first; and, where all are silent, the one whose stack does not wait for others.
"""

import ctypes
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from roofcal.core.records import Status

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_EXIT_S = 10.0  # between closing its pipe and leaving an exit code, a large process unmaps memory
_GRACE_S = 2.0  # after the first rank ended, for last events and exit codes of the others
_STACK_S = 1.0  # for faulthandler to write the stacks
_FRAME: Final = re.compile(r'^\s+File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$')
# A process whose innermost frame is here waits: for other ranks, or for its device, which may wait
# for theirs.
_WAITING: Final = ("/torch/distributed/", "/torch/cuda/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why workers send no more events.

    last  the id of the point that the worker at fault named last
    """

    status: Status = "failed"
    reason: str
    last: str | None = None


class WorkerProcess:
    """A worker process with its own process group, and the pipe of its events.

    `open`: whether the worker still holds its end of the pipe.
    """

    def __init__(self, op: str, visible: str | None, descriptors: Sequence[int]) -> None:
        """Start the process.

        Args:
            op: what it is to measure.
            visible: the devices, as CUDA_VISIBLE_DEVICES names them; None leaves the variable.
            descriptors: of the locks of the devices, which it inherits.
        """
        reader, writer = os.pipe()
        environment = dict(os.environ)
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        start = json.dumps({"op": op, "supervisor_pid": os.getpid()})
        command = [sys.executable, "-m", "roofcal.measure.worker", start, str(writer)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=2,  # what a library prints is no event
            pass_fds=(writer, *descriptors),
            start_new_session=True,
            env=environment,
            text=True,
        )
        os.close(writer)
        self.open = True
        self._events: IO[bytes] = os.fdopen(reader, "rb", buffering=0)
        self._unfinished = b""  # the start of an event

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor of the pipe of its events: what a selector waits for."""
        return self._events.fileno()

    def send(self, line: str) -> None:
        """Give the worker a line; that it is dead is noticed when its events are read."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def read_events(self) -> list[dict[str, Any]]:
        """The events that are in the pipe by now; an empty pipe means that the worker closed it."""
        part = os.read(self.fileno(), 1 << 20)
        self.open = bool(part)
        *lines, self._unfinished = (self._unfinished + part).split(b"\n")
        return [json.loads(line) for line in lines]

    def describe_end(self, seconds: float) -> str:
        """How it ended, in words. A worker that does not end in so many seconds is killed."""
        end = time.monotonic() + seconds
        while self.is_running() and time.monotonic() < end:
            time.sleep(0.02)
        if self.is_running():
            self.kill()
            return f"the worker fell silent, did not end in {seconds:g} s, and was killed"
        return f"the worker died ({describe_exit(self.kill())})"

    def is_running(self) -> bool:
        """Whether the process lives. Its exit code stays unread, so that its pid is not reused."""
        if self._process.returncode is not None:
            return False
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, how) is None

    def kill(self) -> int:
        """End the whole process group; the exit code, negative for a signal."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self._events.close()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # what a dead worker has not read
            self._process.stdin.close()
        return code


def dies_with(parent: int) -> bool:
    """Have Linux kill this process when its parent ends; False where that has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def hold_kernel_cache() -> None:
    """Keep all Triton kernels of this process, and of those it starts, in Triton's own cache.

    Where TRITON_CACHE_DIR is not set, Inductor sets it to a folder of its own with its first kernel
    (torch/_inductor/runtime/triton_heuristics.py). What compilers had put elsewhere was not found
    then, and the timing process compiled it once more, while the device was idle: first visits of
    int4 configurations took an H200 0.3 to 0.5 s beside their timing, those of known ones 0.05 s.
    """
    # As Triton has it: Path.home() raises for a user without an entry, as containers may have.
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")  # noqa: PTH111
    os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(home, ".triton", "cache"))  # noqa: PTH118


def describe_exit(code: int) -> str:
    """An exit code in words; negative ones are signals."""
    if code == -signal.SIGKILL:
        return "signal SIGKILL; the kernel sends it when memory runs out"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class Workers:
    """The worker process of a single device, or those of all ranks that share points.

    They import what the op needs at once, and touch no device before `begin`.

    `has_devices`, `are_ready`: whether they were told their devices, and measure there.
    """

    has_devices = are_ready = False

    def __init__(
        self, op: str, visible: str | None, descriptors: Sequence[int], world_size: int = 1
    ) -> None:
        """Start the processes; see WorkerProcess."""
        self.world_size = world_size
        self._place: tempfile.TemporaryDirectory[str] | None = None
        self._stacks: list[Path] = []
        self._workers = [WorkerProcess(op, visible, descriptors) for _ in range(world_size)]
        self._selector = selectors.DefaultSelector()
        for rank, worker in enumerate(self._workers):
            self._selector.register(worker, selectors.EVENT_READ, rank)
        self._end: float | None = None  # when to stop listening, once a worker has ended
        self._unread: deque[tuple[int, dict[str, Any]]] = deque()  # rank, event
        self._forget_group()

    def begin(self, setups: Sequence[Mapping[str, Any]]) -> None:
        """Let every worker take its device, whose lock it holds by now; setups: by rank."""
        self.has_devices = True
        shared: list[dict[str, Any]] = [{}]
        if self.world_size > 1:
            self._place = tempfile.TemporaryDirectory(prefix="roofcal-ranks-")
            folder = Path(self._place.name)
            self._stacks = [folder / f"stack{rank}" for rank in range(self.world_size)]
            known = {"store": str(folder / "store"), "world_size": self.world_size}
            shared = [known | {"rank": r, "stack": str(s)} for r, s in enumerate(self._stacks)]
        for worker, setup, more in zip(self._workers, setups, shared, strict=True):
            worker.send(json.dumps({**setup, **more}))

    def _forget_group(self) -> None:
        """Before a new group of points, forget what workers reported of the last one."""
        self._last_point: dict[int, str] = {}
        self._ranks_that_said: dict[str, set[int]] = {"ready": set(), "done": set()}
        self._trouble: dict[int, Fault] = {}
        self._fatal: list[tuple[float, int, Fault]] = []  # time, rank, fault

    def all_run(self) -> bool:
        """Whether all processes live."""
        return all(worker.is_running() for worker in self._workers)

    def send(self, line: str) -> None:
        """Give all workers a group."""
        self._forget_group()
        for worker in self._workers:
            worker.send(line)

    def next_event(self, timeout: float) -> dict[str, Any] | None:
        """The next event of rank 0; `ready` and `done` once all ranks have sent them.

        None after `timeout` seconds of silence of all ranks, or when one of them has ended and the
        others have had a moment to report.
        """
        deadline = time.monotonic() + timeout
        while True:
            while self._unread:
                rank, event = self._unread.popleft()
                deadline = time.monotonic() + timeout
                if self._note(rank, event):
                    return event
            if not self._read_any(deadline):
                return None

    def _read_any(self, deadline: float) -> bool:
        """Wait for bytes of any rank and read them; False when there is no more to wait for."""
        until = deadline if self._end is None else min(deadline, self._end)
        if not self._selector.get_map():
            return False
        ready = self._selector.select(max(0.0, until - time.monotonic()))
        for key, _ in ready:
            worker = self._workers[key.data]
            self._unread += ((key.data, event) for event in worker.read_events())
            if not worker.open:
                self._selector.unregister(worker)
                self._stop_soon()
        return bool(ready)

    def _stop_soon(self) -> None:
        """A worker has ended: the others, if there are any, have a moment left."""
        self._end = self._end or time.monotonic() + (_GRACE_S if self.world_size > 1 else 0.0)

    def _note(self, rank: int, event: Mapping[str, Any]) -> bool:
        """Note an event; whether it is one that the supervisor waits for."""
        for word, ranks in self._ranks_that_said.items():
            if word in event:
                ranks.add(rank)
                return len(ranks) == self.world_size
        if "trouble" in event:
            self._trouble.pop(rank, None)
            if event["trouble"] is not None:
                self._trouble[rank] = Fault(status=event["status"], reason=event["trouble"])
            return False
        if "fatal" in event:
            fault = Fault(status=event["status"], reason=event["fatal"])
            self._fatal.append((event["now_s"], rank, fault))
            self._stop_soon()
            return False
        if "at" in event:
            self._last_point[rank] = event["at"]
        return rank == 0

    def fault(self, timeout: float) -> Fault:
        """Which worker ended or hangs, and why; see the module. All workers are killed."""
        fault = self._death_without_a_word() or self._reported_fault(timeout)
        fault = fault or self._fault_of_the_silent(timeout)
        self.kill()
        return fault

    def _fault_of(self, rank: int, reason: str, status: Status = "failed") -> Fault:
        """A fault with its rank, if there are several, and the point that it named last, if any."""
        reason = f"rank {rank}: {reason}" if self.world_size > 1 else reason
        return Fault(status=status, reason=reason, last=self._last_point.get(rank))

    def _death_without_a_word(self) -> Fault | None:
        """The fault of a worker that ended without a report; others may raise because of it."""
        reported = {rank for _, rank, _ in self._fatal}
        for rank, worker in enumerate(self._workers):
            if rank not in reported and not (worker.open and worker.is_running()):
                seconds = _GRACE_S if self.world_size > 1 else _EXIT_S
                return self._fault_of(rank, worker.describe_end(seconds))
        return None

    def _reported_fault(self, timeout: float) -> Fault | None:
        """The first fault that a worker reported itself."""
        for rank, fault in sorted(self._trouble.items()):
            waited = f"; the other ranks waited for it for {timeout:g} s" if not self._end else ""
            return self._fault_of(rank, fault.reason + waited, fault.status)
        if not self._fatal:
            return None
        _, rank, fault = min(self._fatal, key=lambda entry: entry[:2])
        return self._fault_of(rank, fault.reason, fault.status)

    def _fault_of_the_silent(self, timeout: float) -> Fault:
        """All workers live and report nothing: stacks of ranks tell which of them hangs."""
        said, last = f"no sign of life for {timeout:g} s; ", self._last_point.get(0)
        if self.world_size == 1:
            return Fault(status="timeout", reason=f"{said}the worker was killed", last=last)
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGUSR1)  # faulthandler writes the stack
        time.sleep(_STACK_S)
        stacks = [path.read_text() if path.is_file() else "" for path in self._stacks]
        rank, where = hanging_rank(stacks)
        who = "all ranks wait, for their devices or each other"
        if rank is not None:
            who, last = f"rank {rank}", self._last_point.get(rank, last)
        reason = f"{said}{who} ({where}); the workers were killed"
        return Fault(status="timeout", reason=reason, last=last)

    def kill(self) -> None:
        """End all workers, whatever they are doing."""
        self._selector.close()
        for worker in self._workers:
            worker.kill()
        if self._place is not None:
            self._place.cleanup()


def hanging_rank(stacks: Sequence[str]) -> tuple[int | None, str]:
    """(the first rank that does not wait for others, its place); (None, all places) without one.

    stacks: by rank, the text that faulthandler wrote.
    """
    places = [innermost_call(stack) for stack in stacks]
    for rank, (where, is_waiting) in enumerate(places):
        if not is_waiting:
            return rank, where
    return None, "; ".join(f"rank {rank}: {where}" for rank, (where, _) in enumerate(places))


def innermost_call(stack: str) -> tuple[str, bool]:
    """("<function> at <file>:<line>", whether it waits for others) of the main thread.

    faulthandler writes the main thread last, and of each thread the innermost call first. Without
    any frame the process did not answer: it is stopped, or stuck in the kernel.
    """
    main_thread = stack.strip().split("\n\n")[-1]
    frames = [frame for line in main_thread.splitlines() if (frame := _FRAME.match(line))]
    if not frames:
        return "gives no answer", False
    first = frames[0]
    where = f"{first['name']} at {'/'.join(first['file'].split('/')[-2:])}:{first['line']}"
    return where, any(part in first["file"] for part in _WAITING)
