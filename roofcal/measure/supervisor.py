"""Keep a worker measuring: replace it when it dies, and give every point of a group its row.

The supervisor never touches the device. A worker that crashes, hangs, runs out of memory or is
killed costs one point, the one it had named last; a new worker goes on behind it. Only a worker
that does not even start ends the session: then no point can be measured.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from roofcal.measure.locks import Lock
from roofcal.records import Environment, Measurement, PlanPoint, Session, Status, decode, encode
from roofcal.schema import Timing

_START_S = 180.0  # importing torch and creating a context on a cold file system
_EXIT_S = 10.0  # between closing its pipe and leaving an exit code, a large process unmaps memory


class MeasureError(ValueError):
    """A plan that cannot be measured here; the message says why and what to do."""


class Crew:
    """The worker of the moment, replaced whenever it dies."""

    def __init__(
        self,
        session: Session,
        environment: Environment,
        lock: Lock,
        tell: Callable[[str], None],
    ) -> None:
        self._session, self._environment, self._lock = session, environment, lock
        self._timing = timing_of(session.timing)
        self._tell = tell
        self._epoch = time.time()
        self._worker: _Process | None = None

    def run_group(self, points: list[PlanPoint]) -> Iterator[Measurement]:
        """A measurement of every point, in the order they become known; raises MeasureError."""
        waiting = {point.point_id: point for point in points}
        excused = False
        while waiting:
            end = yield from self._drain(self._ready_worker(), waiting)
            if end.fault is not None:
                self.stop()
            guilty = _guilty(end, waiting, excused)
            if guilty is not None:
                yield self._fault(waiting.pop(guilty), end)
            excused = end.last is None

    def _ready_worker(self) -> "_Process":
        if self._worker is None:
            self._worker = _Process(self._setup(), self._lock)
            event = self._worker.next_event(_START_S + self._timing.warm_card_s) or {}
            if "ready" not in event:
                code = self._worker.kill()
                self._worker = None
                raise MeasureError(
                    f"the measuring process did not start ({_describe_exit(code)}); its messages "
                    "are above, and `python -m roofcal doctor` says what is missing"
                )
        return self._worker

    def _setup(self) -> dict[str, Any]:
        return {
            "torch_device": "cpu" if self._environment.vendor == "cpu" else "cuda:0",
            "uuid": self._session.device_uuid,
            "timing": self._timing.model_dump(),
            "seed": self._session.timing.get("seed", 0),
            "environment_id": self._session.environment_id,
            "session_id": self._session.session_id,
            "cache_bytes": self._environment.last_level_cache_bytes,
            "threads": self._environment.threads,
            "epoch": self._epoch,
            "supervisor_pid": os.getpid(),
        }

    def _drain(
        self, worker: "_Process", waiting: dict[str, PlanPoint]
    ) -> Generator[Measurement, None, "_End"]:
        """Measurements as they come; returns how it ended."""
        worker.send(json.dumps([encode(point) for point in waiting.values()]))
        last: str | None = None
        while (event := worker.next_event(self._timing.point_timeout_s)) is not None:
            if "done" in event:
                reason = f"the worker returned without a word on {len(waiting)} points"
                return _End(last=next(iter(waiting), None), fault=reason if waiting else None)
            if "fatal" in event:
                return _End(last=last, status=event["status"], fault=event["fatal"])
            last = event.get("at", last)
            if "measurement" in event:
                measurement = decode(event["measurement"], "worker")
                assert isinstance(measurement, Measurement)
                waiting.pop(measurement.point_id, None)
                yield measurement
        return self._silence(worker, last)

    def _silence(self, worker: "_Process", last: str | None) -> "_End":
        """Why the worker says no more: it hangs, or it is dead."""
        if worker.open and worker.running():
            seconds = f"{self._timing.point_timeout_s:g} s"
            reason = f"no sign of life for {seconds}; the worker was killed"
            return _End(last=last, status="timeout", fault=reason)
        worker.wait(_EXIT_S)
        return _End(last=last, fault=f"the worker died ({_describe_exit(worker.kill())})")

    def _fault(self, point: PlanPoint, end: "_End") -> Measurement:
        self._tell(f"{point.op}: {point.recipe} {dict(point.shape)} {end.status}: {end.fault}")
        return Measurement(
            point_id=point.point_id,
            environment_id=self._session.environment_id,
            session_id=self._session.session_id,
            status=end.status,
            reason=end.fault,
            started_s=time.time() - self._epoch,
        )

    def stop(self) -> None:
        """End the worker, whatever it is doing."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def timing_of(values: Mapping[str, Any]) -> Timing:
    """The timing protocol of a session, without the seed; raises ValueError for a bad key."""
    return Timing.model_validate({key: v for key, v in values.items() if key != "seed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How a group ended: whole (fault is None), or why not. `last`: the point named last."""

    last: str | None = None
    status: Status = "failed"
    fault: str | None = None


def _guilty(end: _End, waiting: Mapping[str, PlanPoint], excused: bool) -> str | None:
    """The point that pays for the end of a worker, None where no point is to blame.

    A worker that had reported its last point before it died (a lost CUDA context) made progress:
    the rest is tried again. One that named no point may have died of idleness: it is excused once.
    """
    if end.fault is None or (end.last is None and not excused):
        return None
    if end.last is None:
        return next(iter(waiting), None)
    return end.last if end.last in waiting else None


def _describe_exit(code: int) -> str:
    if code == -signal.SIGKILL:
        return "signal SIGKILL; the kernel sends it when memory runs out"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class _Process:
    """A worker process with its own process group, and the pipe of its events.

    `open`: whether the worker still holds its end of the pipe.
    """

    def __init__(self, setup: Mapping[str, Any], lock: Lock) -> None:
        reader, writer = os.pipe()
        environment = dict(os.environ)
        if setup["uuid"] is not None:
            environment["CUDA_VISIBLE_DEVICES"] = setup["uuid"]
        command = [sys.executable, "-m", "roofcal.measure.worker", json.dumps(setup), str(writer)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=2,  # what a library prints is no event
            pass_fds=(writer, lock.descriptor),
            start_new_session=True,
            env=environment,
            text=True,
        )
        os.close(writer)
        self.open = True
        self._events: IO[bytes] = os.fdopen(reader, "rb", buffering=0)
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._events, selectors.EVENT_READ)

    def send(self, line: str) -> None:
        """Give the worker a group; a dead worker is noticed by the next next_event."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def next_event(self, timeout: float) -> dict[str, Any] | None:
        """The next event; None after `timeout` seconds of silence or when the worker has ended."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                return None
            part = os.read(self._events.fileno(), 1 << 20)
            if not part:
                self.open = False
                return None
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def running(self) -> bool:
        """Whether the process lives. Its exit code stays unread: so its number stays its own."""
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, how) is None

    def wait(self, seconds: float) -> None:
        """Give an ending process a moment to leave its exit code."""
        end = time.monotonic() + seconds
        while self.running() and time.monotonic() < end:
            time.sleep(0.02)

    def kill(self) -> int:
        """End the whole process group; the exit code, negative for a signal."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._selector.close()
        self._events.close()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # what a dead worker has not read
            self._process.stdin.close()
        return code
