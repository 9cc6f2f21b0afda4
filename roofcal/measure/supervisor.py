"""Keep a worker measuring: replace it when it dies, and give every point of a group its row.

The supervisor never touches the device. A worker that crashes, hangs, runs out of memory or is
killed costs one point, the one it had named last; a new worker goes on with the next. A record of
impossible values costs the point it is of. Only a worker that does not even start ends the session:
then no point can be measured.
"""

import json
import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofcal.core.jsonl import RecordsError, decode, encode
from roofcal.core.machine.locks import Lock, lock_socket
from roofcal.core.records import Environment, Measurement, PlanPoint, Session, Status
from roofcal.core.timing_protocol import Timing
from roofcal.measure.workers import RankGroup, WorkerProcess

START_S = 180.0  # importing torch and creating a context on a cold file system
_Workers = WorkerProcess | RankGroup


class MeasureError(ValueError):
    """A plan that cannot be measured here; the message says why and what to do."""


class Crew:
    """The current worker, or the workers of all ranks; replaced whenever they die.

    Rank r of a point works on device r; the worker of a point on one device works on the first.
    """

    def __init__(
        self, session: Session, environment: Environment, tell: Callable[[str], None]
    ) -> None:
        self._session, self.environment = session, environment
        self.starting_s = 0.0  # how long a device waited for its workers to be ready
        self._locks: Sequence[Lock] = ()
        self._is_waiting = False  # the worker has no device yet
        self._timing = timing_of(session.timing)
        self._tell = tell
        self._epoch, self.since = time.time(), time.perf_counter()
        self._worker: _Workers | None = None
        self._world_size = 1
        self._is_ready = False
        self._start_failures: dict[int, str] = {}  # world size -> why its ranks do not start

    def import_ahead(self, visible: str) -> socket.socket:
        """Start the worker of a single device before that is free, so that it imports meanwhile.

        Returns the socket to lock the device with; the worker holds it too.
        """
        held = lock_socket()
        self._worker = WorkerProcess(self._session.op, visible, [held.fileno()])
        self._is_waiting = True
        return held

    def take(self, locks: Sequence[Lock]) -> None:
        """Take the devices of these locks, from now on."""
        self._locks = locks
        self._epoch, self.since = time.time(), time.perf_counter()

    def start(self, world_size: int) -> None:
        """Start the workers for a world size without waiting: importing torch takes seconds."""
        if self._is_waiting and world_size == 1:
            assert isinstance(self._worker, WorkerProcess)
            if self._worker.is_running():
                self._worker.begin(self._setup_of_one())
                self._is_waiting = False
            else:
                self.stop()
        if world_size != self._world_size:
            self.stop()
        if self._worker is None and world_size not in self._start_failures:
            self._world_size = world_size
            self._worker = self._new_worker(world_size)
            self._is_ready = False

    def run_group(self, points: list[PlanPoint]) -> Iterator[Measurement]:
        """A measurement of every point, in the order they are taken; raises MeasureError.

        All points of a group have one world size. Where the ranks of a world size do not start, its
        points fail; where the worker of a single device does not, nothing can be measured.
        """
        waiting = {point.point_id: point for point in points}
        was_excused = False
        while waiting:
            worker = self._ready_worker(points[0].world_size)
            if worker is None:
                reason = self._start_failures[points[0].world_size]
                yield from (self._fault(p, _End(fault=reason)) for p in waiting.values())
                return
            end = yield from self._drain(worker, waiting)
            if end.fault is not None:
                self.stop()
            guilty = _guilty_point(end, waiting, was_excused)
            if guilty is not None:
                yield self._fault(waiting.pop(guilty), end)
            was_excused = end.last is None

    def _ready_worker(self, world_size: int) -> _Workers | None:
        """The workers for a world size, started where need be; None if its ranks do not start."""
        self.start(world_size)
        if self._worker is not None and not self._is_ready:
            patience = START_S + self._timing.warm_card_s
            start = time.perf_counter()
            event = self._worker.next_event(patience) or {}
            self.starting_s += time.perf_counter() - start
            self._is_ready = "ready" in event
            if not self._is_ready:
                self._not_started(self._worker, world_size, patience)
        return self._worker

    def _not_started(self, worker: _Workers, world_size: int, patience: float) -> None:
        """Note why ranks do not start; raises MeasureError for the worker of a single device."""
        self._worker = None
        reason = worker.fault(patience).reason
        if isinstance(worker, RankGroup):
            failure = f"the {world_size} measuring processes did not start: {reason}"
            self._start_failures[world_size] = failure
            return
        worker.kill()
        raise MeasureError(
            f"the measuring process did not start: {reason}; its messages are above, and "
            "`python -m roofcal doctor` says what is missing"
        )

    def _new_worker(self, world_size: int) -> _Workers:
        cpu = self.environment.vendor == "cpu"
        if world_size == 1:
            setup = self._setup_of_one()
            descriptors = [lock.descriptor for lock in self._locks]
            worker = WorkerProcess(self._session.op, setup["visible"], descriptors)
            worker.begin(setup)
            return worker
        uuids = [None if cpu else lock.name for lock in self._locks][:world_size]
        uuids += [None] * (world_size - len(uuids))
        visible = None if cpu else ",".join(map(str, uuids))
        setups = [
            self._setup("cpu" if cpu else f"cuda:{rank}", uuid, visible)
            for rank, uuid in enumerate(uuids)
        ]
        return RankGroup(setups, self._locks)

    def _setup_of_one(self) -> dict[str, Any]:
        """The set-up of the worker of a single device."""
        if self.environment.vendor == "cpu":
            return self._setup("cpu", None, None)
        uuid = self._locks[0].name
        return self._setup("cuda:0", uuid, uuid)

    def _setup(self, device: str, uuid: str | None, visible: str | None) -> dict[str, Any]:
        """The set-up of a worker: its device, whose sensor it reads, and which devices it sees."""
        return {
            "torch_device": device,
            "uuid": uuid,
            "visible": visible,
            "timing": self._timing.model_dump(),
            "seed": self._session.timing.get("seed", 0),
            "environment_id": self._session.environment_id,
            "session_id": self._session.session_id,
            "cache_bytes": self.environment.last_level_cache_bytes,
            "threads": self.environment.threads,
            "epoch": self._epoch,
            "op": self._session.op,
        }

    def _drain(
        self, worker: _Workers, waiting: dict[str, PlanPoint]
    ) -> Generator[Measurement, None, "_End"]:
        """Yields measurements and takes their points out of `waiting`; returns how it ended."""
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
                try:
                    measurement = decode(event["measurement"], "worker")
                except RecordsError as refused:  # costs its point, not the session
                    refused_id = json.loads(event["measurement"]).get("point_id")
                    return _End(last=refused_id, fault=str(refused))
                assert isinstance(measurement, Measurement)
                waiting.pop(measurement.point_id, None)
                yield measurement
        fault = worker.fault(self._timing.point_timeout_s)
        if isinstance(worker, RankGroup):  # `last` is rank 0's; another rank may be at fault
            last = fault.last
        return _End(last=last, status=fault.status, fault=fault.reason)

    def refuse(self, point: PlanPoint, reason: str) -> Measurement:
        """The row of a point that this machine cannot measure."""
        return self._row(point, _End(status="unsupported", fault=reason))

    def _fault(self, point: PlanPoint, end: "_End") -> Measurement:
        self._tell(f"{point.op}: {point.recipe} {dict(point.shape)} {end.status}: {end.fault}")
        return self._row(point, end)

    def _row(self, point: PlanPoint, end: "_End") -> Measurement:
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
            self._is_waiting = False


def timing_of(values: Mapping[str, Any]) -> Timing:
    """The timing protocol of a session, without the seed; raises ValueError for a bad key."""
    return Timing.model_validate({key: v for key, v in values.items() if key != "seed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How a group ended: `fault` is None where every point was measured.

    last  id of the point that the worker named last
    """

    last: str | None = None
    status: Status = "failed"
    fault: str | None = None


def _guilty_point(end: _End, waiting: Mapping[str, PlanPoint], was_excused: bool) -> str | None:
    """The point that gets the fault of a worker as its result; None where no point is to blame.

    A worker that had reported its last point before it died (a lost CUDA context) made progress:
    the rest is tried again. A worker that named no point may have died while it was idle: that is
    excused once.
    """
    if end.fault is None or (end.last is None and not was_excused):
        return None
    if end.last is None:
        return next(iter(waiting), None)
    return end.last if end.last in waiting else None
