"""The workers of a point on several devices, one process per rank, seen as one worker.

The supervisor starts them itself, not torchrun: torchrun's agent would stand between the two, it
closes the descriptors that keep the devices locked, and it tells by the clock which rank died
first, where here the pipes of all ranks tell what each was doing. Ranks meet through a file, so
there is no port that another process could take.

One rank that dies or hangs stalls all others, or makes them raise; the point then carries the rank
and the reason of the first. The rank at fault is, in this order: one that died without a word; one
that reported trouble while the others waited for it; the one whose error came first; and, where all
are silent, the one whose stack does not wait for others.
"""

import os
import re
import selectors
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from roofcal.core.machine.locks import Lock
from roofcal.measure.process import Fault, WorkerProcess

_GRACE_S = 2.0  # after the first rank ended, for last events and exit codes of the others
_STACK_S = 1.0  # for faulthandler to write the stacks
_FRAME: Final = re.compile(r'^\s+File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$')
# A process whose innermost frame is here waits: for other ranks, or for its device, which may wait
# for theirs.
_WAITING: Final = ("/torch/distributed/", "/torch/cuda/")


class RankGroup:
    """The worker processes of all ranks; the interface is that of WorkerProcess."""

    def __init__(self, setups: Sequence[Mapping[str, Any]], locks: Sequence[Lock]) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="roofcal-ranks-")
        folder = Path(self._place.name)
        self._stacks = [folder / f"stack{rank}" for rank in range(len(setups))]
        shared = {"store": str(folder / "store"), "world_size": len(setups)}
        descriptors = [lock.descriptor for lock in locks]
        self._workers = [
            WorkerProcess(setup["op"], setup["visible"], descriptors) for setup in setups
        ]
        for rank, (worker, setup) in enumerate(zip(self._workers, setups, strict=True)):
            worker.begin({**setup, **shared, "rank": rank, "stack": str(self._stacks[rank])})
        self._selector = selectors.DefaultSelector()
        for rank, worker in enumerate(self._workers):
            self._selector.register(worker, selectors.EVENT_READ, rank)
        self._end: float | None = None  # when to stop listening, once a rank has ended
        self._forget_group()

    def _forget_group(self) -> None:
        """Before a new group of points, forget what ranks reported of the last one."""
        self._last_point: dict[int, str] = {}
        self._ranks_that_said: dict[str, set[int]] = {"ready": set(), "done": set()}
        self._trouble: dict[int, Fault] = {}
        self._fatal: list[tuple[float, int, Fault]] = []  # time, rank, fault

    def send(self, line: str) -> None:
        """Give all ranks a group."""
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
            for rank, worker in enumerate(self._workers):
                while (event := worker.buffered_event()) is not None:
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
            worker.read_pipe()
            if not worker.open:
                self._selector.unregister(worker)
                self._stop_soon()
        return bool(ready)

    def _stop_soon(self) -> None:
        """A rank has ended: the others have a moment left."""
        self._end = self._end or time.monotonic() + _GRACE_S

    def _note(self, rank: int, event: Mapping[str, Any]) -> bool:
        """Note an event; whether it is one that the supervisor waits for."""
        for word, ranks in self._ranks_that_said.items():
            if word in event:
                ranks.add(rank)
                return len(ranks) == len(self._workers)
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
        """Which rank ended or hangs, and why; see the module. All ranks are killed."""
        fault = (
            self._death_without_a_word()
            or self._reported_fault(timeout)
            or self._fault_of_silent_ranks(timeout)
        )
        self.kill()
        return fault

    def _with_rank(self, rank: int, fault: Fault) -> Fault:
        """A fault with its rank and the point that the rank named last, if any."""
        reason = f"rank {rank}: {fault.reason}"
        return replace(fault, reason=reason, last=self._last_point.get(rank))

    def _death_without_a_word(self) -> Fault | None:
        """The fault of a rank that ended without a report; the others may raise because of it."""
        reported = {rank for _, rank, _ in self._fatal}
        for rank, worker in enumerate(self._workers):
            if rank in reported or (worker.open and worker.is_running()):
                continue
            reason = worker.describe_end(_GRACE_S)
            return self._with_rank(rank, Fault(status="failed", reason=reason))
        return None

    def _reported_fault(self, timeout: float) -> Fault | None:
        """The first fault that a rank reported itself."""
        for rank, fault in sorted(self._trouble.items()):
            reason = fault.reason
            if self._end is None:
                reason += f"; the other ranks waited for it for {timeout:g} s"
            return self._with_rank(rank, replace(fault, reason=reason))
        if not self._fatal:
            return None
        _, rank, fault = min(self._fatal, key=lambda entry: entry[:2])
        return self._with_rank(rank, fault)

    def _fault_of_silent_ranks(self, timeout: float) -> Fault:
        """All ranks live and report nothing: their stacks tell which of them hangs."""
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGUSR1)  # faulthandler writes the stack
        time.sleep(_STACK_S)
        stacks = [path.read_text() if path.is_file() else "" for path in self._stacks]
        rank, where = hanging_rank(stacks)
        who = "all ranks wait, for their devices or each other" if rank is None else f"rank {rank}"
        reason = f"no sign of life for {timeout:g} s; {who} ({where}); the workers were killed"
        last = self._last_point.get(0 if rank is None else rank, self._last_point.get(0))
        return Fault(status="timeout", reason=reason, last=last)

    def kill(self) -> int:
        """End all ranks; the exit code of rank 0."""
        self._selector.close()
        codes = [worker.kill() for worker in self._workers]
        self._place.cleanup()
        return codes[0]


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
