"""Measure a plan: one supervised worker per device, and every point ends as a row.

The session never touches the device. A worker that crashes, hangs, runs out of memory or is killed
costs one point, which becomes a row with the reason; a new worker goes on behind it.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from roofcal.measure.journal import Journal
from roofcal.measure.locks import Lock, wait_for_lock
from roofcal.measure.telemetry import Gpu, visible_gpus
from roofcal.records import (
    Environment,
    Measurement,
    PlanPoint,
    Session,
    Status,
    decode,
    encode,
    read_records,
    write_records,
)
from roofcal.sources import code_hash, measure_sources

_START_S = 180.0  # importing torch and creating a context on a cold file system


class MeasureError(ValueError):
    """A plan that cannot be measured here; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure, where the records go, and which statuses to measure again."""

    plan: Path
    environment: Path
    timing: Mapping[str, Any]
    journal: Path
    out: Path
    retry: tuple[str, ...] = ()


def measure(job: Job) -> list[Measurement]:
    """Measure every point of the plan that the journal does not hold yet, then write `job.out`.

    Raises MeasureError if the plan is for a device that is not here, RecordsError for bad files,
    OSError if the disk is full (the journal keeps what was measured).
    """
    points = read_records(job.plan, PlanPoint)
    environment = read_records(job.environment, Environment)[0]
    journal = Journal(job.journal, _tell)
    op = points[0].op
    session = _new_session(op, environment, job)
    known = journal.reusable(environment.environment_id, session.code_hash, job.retry)
    missing = [point for point in points if point.point_id not in known]
    _tell(f"{op}: {len(points)} points, {len(points) - len(missing)} of them measured before")
    if missing:
        with _device(environment) as (lock, device_uuid):
            session = replace(session, device_uuid=device_uuid)
            known |= _run(missing, session, environment, job, journal, lock)
    found = [known[point.point_id] for point in points]
    used = {measurement.session_id for measurement in found}
    sessions = [s for key, s in journal.sessions.items() if key in used]
    write_records(job.out, [*sessions, *found])
    return found


def _new_session(op: str, environment: Environment, job: Job) -> Session:
    commit, dirty = _git_state()
    return Session(
        session_id=uuid.uuid4().hex[:12],
        environment_id=environment.environment_id,
        op=op,
        host=socket.gethostname(),
        device_uuid=None,
        git_commit=commit,
        git_dirty=dirty,
        code_hash=code_hash(measure_sources(op)),
        command=" ".join(["python -m roofcal", *sys.argv[1:]]),
        timing=job.timing,
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _git_state() -> tuple[str | None, bool | None]:
    """(commit, whether the tree differs from it); (None, None) outside a git checkout."""
    ask = ["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain"]
    try:
        answers = [subprocess.run(q, capture_output=True, text=True, check=True) for q in ask]
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("ROOFCAL_GIT_COMMIT"), None
    return answers[0].stdout.strip(), bool(answers[1].stdout.strip())


@contextmanager
def _device(environment: Environment) -> Iterator[tuple[Lock, str | None]]:
    """(lock, uuid) of a free GPU that is the environment's device; of the CPU: (its lock, None)."""
    if environment.vendor == "cpu":
        names = ["cpu"]
    else:
        gpus = visible_gpus()
        names = [gpu.uuid for gpu in gpus if _is_device(gpu, environment)]
        if not names:
            seen = ", ".join(sorted({gpu.name for gpu in gpus})) or "no NVIDIA GPU"
            raise MeasureError(
                f"the plan is for {environment.device}, this machine has {seen}; "
                "run `python -m roofcal doctor` to see what is here, and plan for that"
            )
    lock = wait_for_lock(names, _tell)
    try:
        yield lock, None if environment.vendor == "cpu" else lock.name
    finally:
        lock.release()


def _is_device(gpu: Gpu, environment: Environment) -> bool:
    """Whether a card is of the kind the plan is for."""
    fields = ("compute_units", "memory_clock_hz", "memory_bus_bits", "power_limit_w", "driver")
    same = all(getattr(gpu, name) == getattr(environment, name) for name in fields)
    return same and gpu.name == environment.device_name


def _run(
    points: Sequence[PlanPoint],
    session: Session,
    environment: Environment,
    job: Job,
    journal: Journal,
    lock: Lock,
) -> dict[str, Measurement]:
    journal.append(session)
    start = time.perf_counter()
    found: dict[str, Measurement] = {}
    with tqdm(total=len(points), desc=session.op, unit="pt", **_progress()) as bar:
        crew = _Crew(session, environment, job.timing, lock)
        try:
            for _, members in groupby(points, key=lambda point: point.group_key):
                for measurement in crew.run_group(list(members)):
                    journal.append(measurement)
                    found[measurement.point_id] = measurement
                    bar.update()
        finally:
            crew.stop()
            wall = time.perf_counter() - start
            timed = sum(sum(m.latency_samples_s) * m.calls_per_sample for m in found.values())
            end = datetime.now(UTC).isoformat(timespec="seconds")
            journal.append(replace(session, finished_utc=end, wall_s=wall, timed_s=timed))
    return found


def _progress() -> dict[str, Any]:
    """A live bar on a terminal, a line every ten seconds in a log file."""
    live = sys.stderr.isatty()
    return {"mininterval": 0.5 if live else 10.0, "smoothing": 0.05, "dynamic_ncols": live}


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _Crew:
    """The worker of the moment, replaced whenever it dies."""

    def __init__(
        self,
        session: Session,
        environment: Environment,
        timing: Mapping[str, Any],
        lock: Lock,
    ) -> None:
        self._session, self._environment, self._lock = session, environment, lock
        self._timing = {key: value for key, value in timing.items() if key != "seed"}
        self._seed = timing.get("seed", 0)
        self._timeout = float(timing["point_timeout_s"])
        self._epoch = time.time()
        self._worker: _Process | None = None

    def run_group(self, points: list[PlanPoint]) -> Iterator[Measurement]:
        """A measurement of every point, in the order they become known."""
        waiting = {point.point_id: point for point in points}
        while waiting:
            worker = self._ready_worker()
            end = yield from self._drain(worker, waiting)
            if end.fault is None:
                break
            self.stop()
            guilty = end.guilty if end.guilty in waiting else next(iter(waiting))
            _tell(f"{self._session.op}: {waiting[guilty].shape} {end.status}: {end.fault}")
            yield self._fault(waiting.pop(guilty), end)

    def _ready_worker(self) -> "_Process":
        if self._worker is None:
            self._worker = _Process(self._setup(), self._lock)
            event = self._worker.next_event(_START_S + self._timing["warm_card_s"])
            if event is None or "ready" not in event:
                code = self._worker.kill()
                self._worker = None
                raise MeasureError(
                    f"the measuring process did not start (exit code {code}); its messages are "
                    "above, and `python -m roofcal doctor` says what is missing"
                )
        return self._worker

    def _setup(self) -> dict[str, Any]:
        uuid_ = self._session.device_uuid
        return {
            "torch_device": "cpu" if self._environment.vendor == "cpu" else "cuda:0",
            "uuid": uuid_,
            "timing": self._timing,
            "seed": self._seed,
            "environment_id": self._session.environment_id,
            "session_id": self._session.session_id,
            "cache_bytes": self._environment.last_level_cache_bytes,
            "epoch": self._epoch,
        }

    def _drain(
        self, worker: "_Process", waiting: dict[str, PlanPoint]
    ) -> Iterator[Measurement] | Any:
        """Measurements as they come; returns how it ended."""
        worker.send(json.dumps([encode(point) for point in waiting.values()]))
        guilty: str | None = None
        fatal: str | None = None
        while True:
            event = worker.next_event(self._timeout)
            if event is None:
                return self._end_of(worker, guilty, fatal)
            if "done" in event:
                return _End()
            guilty = event.get("at", guilty)
            fatal = event.get("fatal", fatal)
            if "measurement" in event:
                measurement = decode(event["measurement"])
                assert isinstance(measurement, Measurement)
                waiting.pop(measurement.point_id, None)
                yield measurement

    def _end_of(self, worker: "_Process", guilty: str | None, fatal: str | None) -> "_End":
        if worker.running() and fatal is None:
            reason = f"no sign of life for {self._timeout:.0f} s; the worker was killed"
            return _End(guilty=guilty, status="timeout", fault=reason)
        code = worker.kill()
        reason = fatal or f"the worker died ({_describe_exit(code)})"
        status: Status = "out_of_memory" if fatal and "OutOfMemory" in fatal else "failed"
        return _End(guilty=guilty, status=status, fault=reason)

    def _fault(self, point: PlanPoint, end: "_End") -> Measurement:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How a group ended: whole (fault is None), or with a point to blame."""

    guilty: str | None = None
    status: Status = "failed"
    fault: str | None = None


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


class _Process:
    """A worker process with its own process group, and the pipe of its events."""

    def __init__(self, setup: Mapping[str, Any], lock: Lock) -> None:
        reader, writer = os.pipe()
        environment = dict(os.environ)
        if setup["uuid"] is not None:
            environment["CUDA_VISIBLE_DEVICES"] = setup["uuid"]
        keep = (writer, lock.descriptor)
        command = [sys.executable, "-m", "roofcal.measure.worker", json.dumps(setup), str(writer)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=sys.stderr,
            pass_fds=keep,
            start_new_session=True,
            env=environment,
            text=True,
        )
        os.close(writer)
        self._events: IO[bytes] = os.fdopen(reader, "rb", buffering=0)
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._events, selectors.EVENT_READ)

    def send(self, line: str) -> None:
        """Give the worker a group; a dead worker is noticed by the next next_event."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def next_event(self, timeout: float) -> dict[str, Any] | None:
        """The next event; None after `timeout` seconds of silence or when the worker has ended."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                return None
            part = os.read(self._events.fileno(), 1 << 20)
            if not part:
                return None
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def running(self) -> bool:
        """Whether the process lives; an ending one is given a moment to leave its exit code."""
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> int | None:
        """End the whole process group; the exit code, negative for a signal."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._selector.close()
        self._events.close()
        return code
