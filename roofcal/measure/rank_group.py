"""The workers of a point on several devices, one process per rank, seen as one worker.

Started by the supervisor itself and not by torchrun: its agent would stand between the two, closes
the descriptors that keep the devices locked, and says of a failure which rank died first by the
clock, where here the pipes of all ranks say what each was doing. Ranks meet through a file, so
there is no port that another process could take.

One rank that dies or hangs stalls all others, or makes them raise; the point then carries the rank
and the reason of the first. Whose fault it was, in this order: a rank that died without a word; one
that told of trouble while the others waited for it; the rank whose error came first; and, where all
are silent, the rank whose stack does not wait for others.
"""

import os
import selectors
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofcal.core.machine.locks import Lock
from roofcal.measure.process import Fault, WorkerProcess
from roofcal.measure.stacks import hanging

_GRACE_S = 2.0  # from the first sign of an end to the others' words, exit codes and last events
_STACK_S = 1.0


class RankGroup:
    """The worker processes of all ranks; the interface is that of WorkerProcess."""

    def __init__(self, setups: Sequence[Mapping[str, Any]], locks: Sequence[Lock]) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="roofcal-ranks-")
        folder = Path(self._place.name)
        self._stacks = [folder / f"stack{rank}" for rank in range(len(setups))]
        meeting = {"store": str(folder / "store"), "world_size": len(setups)}
        self._workers = [
            WorkerProcess(
                {**setup, **meeting, "rank": rank, "stack": str(self._stacks[rank])}, locks
            )
            for rank, setup in enumerate(setups)
        ]
        self._selector = selectors.DefaultSelector()
        for rank, worker in enumerate(self._workers):
            self._selector.register(worker, selectors.EVENT_READ, rank)
        self._end: float | None = None
        self._forget()

    def _forget(self) -> None:
        """A new group of points: what was said of the last one is void."""
        self._at: dict[int, str] = {}
        self._agreed: dict[str, set[int]] = {"ready": set(), "done": set()}
        self._trouble: dict[int, Fault] = {}
        self._fatal: list[tuple[float, int, Fault]] = []

    def send(self, line: str) -> None:
        """Give all ranks a group."""
        self._forget()
        for worker in self._workers:
            worker.send(line)

    def next_event(self, timeout: float) -> dict[str, Any] | None:
        """The next event of rank 0; `ready` and `done` when all have said so.

        None after `timeout` seconds of silence of all ranks, or when one of them has come to an end
        and the others have had a moment to say how they fare.
        """
        deadline = time.monotonic() + timeout
        while True:
            for rank, worker in enumerate(self._workers):
                while (event := worker.buffered()) is not None:
                    deadline = time.monotonic() + timeout
                    if self._hear(rank, event):
                        return event
            if not self._wait(deadline):
                return None

    def _wait(self, deadline: float) -> bool:
        """Wait for bytes of any rank; False when there is nothing to wait for any more."""
        until = deadline if self._end is None else min(deadline, self._end)
        if not self._selector.get_map():
            return False
        ready = self._selector.select(max(0.0, until - time.monotonic()))
        for key, _ in ready:
            worker = self._workers[key.data]
            worker.fill()
            if not worker.open:
                self._selector.unregister(worker)
                self._ending()
        return bool(ready)

    def _ending(self) -> None:
        """Something is over: the others have a moment left."""
        self._end = self._end or time.monotonic() + _GRACE_S

    def _hear(self, rank: int, event: Mapping[str, Any]) -> bool:
        """Note an event; whether it is one that the supervisor waits for."""
        for word, ranks in self._agreed.items():
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
            self._ending()
            return False
        if "at" in event:
            self._at[rank] = event["at"]
        return rank == 0

    def fault(self, timeout: float) -> Fault:
        """Which rank ended or hangs, and why; see the module. All ranks are killed."""
        found = self._dead() or self._told(timeout) or self._silent(timeout)
        self.kill()
        return found

    def _of(self, rank: int, fault: Fault) -> Fault:
        """The fault of a rank; what it named last, nothing if it ended between groups."""
        return replace(fault, reason=f"rank {rank}: {fault.reason}", last=self._at.get(rank))

    def _dead(self) -> Fault | None:
        """A rank that left without a word, for which the others may have raised."""
        spoke = {rank for _, rank, _ in self._fatal}
        for rank, worker in enumerate(self._workers):
            if rank in spoke or (worker.open and worker.running()):
                continue
            return self._of(rank, Fault(status="failed", reason=worker.bury(_GRACE_S)))
        return None

    def _told(self, timeout: float) -> Fault | None:
        """A rank that said what went wrong."""
        for rank, fault in sorted(self._trouble.items()):
            reason = f"{fault.reason}; the other ranks waited for it for {timeout:g} s"
            return self._of(
                rank, replace(fault, reason=reason if self._end is None else fault.reason)
            )
        if not self._fatal:
            return None
        _, rank, fault = min(self._fatal, key=lambda entry: entry[:2])
        return self._of(rank, fault)

    def _silent(self, timeout: float) -> Fault:
        """All ranks live and say nothing: ask each where it is."""
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGUSR1)
        time.sleep(_STACK_S)
        texts = [path.read_text() if path.is_file() else "" for path in self._stacks]
        rank, where = hanging(texts)
        who = "all ranks wait, for their devices or each other" if rank is None else f"rank {rank}"
        reason = f"no sign of life for {timeout:g} s; {who} ({where}); the workers were killed"
        last = self._at.get(0 if rank is None else rank, self._at.get(0))
        return Fault(status="timeout", reason=reason, last=last)

    def kill(self) -> int:
        """End all ranks; the exit code of rank 0."""
        self._selector.close()
        codes = [worker.kill() for worker in self._workers]
        self._place.cleanup()
        return codes[0]
