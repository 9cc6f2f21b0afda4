"""Keep a worker measuring: replace it when it dies, and give every point of a group its row.

The supervisor never touches the device. A worker that crashes, hangs, runs out of memory or sends
impossible values costs one point, the one it had named last. Only a worker that does not even start
ends the session: then no point can be measured.
"""

import json
import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from roofcal.core.jsonl import RecordsError, decode, encode
from roofcal.core.machine.locks import Lock, lock_socket
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.core.timing_protocol import Timing
from roofcal.measure.workers import Fault, Workers

START_S = 180.0  # importing torch and creating a context on a cold file system


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
        self.compiling_s = 0.0  # and for kernels that had not been compiled ahead
        self._locks: Sequence[Lock] = ()
        self._timing = timing_of(session.timing)
        self._tell = tell
        self._epoch, self.since = time.time(), time.perf_counter()
        self._workers: Workers | None = None
        self._start_failures: dict[int, str] = {}  # world size -> why its ranks do not start

    def import_ahead(self, visible: str) -> socket.socket:
        """Start the worker of a single device before that is free, so that it imports meanwhile.

        Returns the socket to lock the device with; the worker holds it too.
        """
        held = lock_socket()
        self._workers = Workers(self._session.op, visible, [held.fileno()])
        return held

    def take(self, locks: Sequence[Lock]) -> None:
        """Take the devices of these locks, from now on."""
        self._locks = locks
        self._epoch, self.since = time.time(), time.perf_counter()

    def start(self, world_size: int) -> None:
        """Start the workers for a world size without waiting: importing torch takes seconds."""
        workers = self._workers
        if workers is not None and (
            workers.world_size != world_size
            or not (workers.has_devices or workers.all_run())  # killed while they waited
        ):
            self.stop()
        if self._workers is None and world_size not in self._start_failures:
            visible = self._setups(world_size)[0]["visible"]
            descriptors = [lock.descriptor for lock in self._locks]
            self._workers = Workers(self._session.op, visible, descriptors, world_size)
        if self._workers is not None and not self._workers.has_devices:
            self._workers.begin(self._setups(world_size))

    def run_group(self, points: list[PlanPoint]) -> Iterator[Measurement]:
        """A measurement of every point, in the order they are taken; raises MeasureError.

        All points of a group have one world size. Where the ranks of a world size do not start, its
        points fail; where the worker of a single device does not, nothing can be measured.
        """
        waiting = {point.point_id: point for point in points}
        was_excused = False
        while waiting:
            workers = self._ready_workers(points[0].world_size)
            if workers is None:
                reason = self._start_failures[points[0].world_size]
                yield from (self._failed(point, Fault(reason=reason)) for point in waiting.values())
                return
            fault = yield from self._drain(workers, waiting)
            if fault is None:
                return
            self.stop()
            # A worker that had reported its last point before it died (a lost CUDA context) made
            # progress: the rest is tried again. One that named no point may have died while it was
            # idle: that is excused once.
            guilty = fault.last
            if guilty is None and was_excused:
                guilty = next(iter(waiting), None)
            if guilty is not None and guilty in waiting:
                yield self._failed(waiting.pop(guilty), fault)
            was_excused = fault.last is None

    def _ready_workers(self, world_size: int) -> Workers | None:
        """The workers for a world size, started where need be; None if its ranks do not start.

        Raises MeasureError where the worker of a single device does not start.
        """
        self.start(world_size)
        workers = self._workers
        if workers is None or workers.are_ready:
            return workers
        patience = START_S + self._timing.warm_card_s
        start = time.perf_counter()
        workers.are_ready = "ready" in (workers.next_event(patience) or {})
        self.starting_s += time.perf_counter() - start
        if workers.are_ready:
            return workers
        reason = workers.fault(patience).reason
        self.stop()
        if world_size > 1:
            failure = f"the {world_size} measuring processes did not start: {reason}"
            self._start_failures[world_size] = failure
            return None
        raise MeasureError(
            f"the measuring process did not start: {reason}; its messages are above, and "
            "`python -m roofcal doctor` says what is missing"
        )

    def _setups(self, world_size: int) -> list[dict[str, Any]]:
        """The set-up of each rank: its device, whose sensor it reads, and which devices it sees."""
        is_cpu = self.environment.vendor == "cpu"
        uuids = [None if is_cpu else lock.name for lock in self._locks][:world_size]
        uuids += [None] * (world_size - len(uuids))
        return [
            {
                "torch_device": "cpu" if is_cpu else f"cuda:{rank}",
                "uuid": uuid,
                "visible": None if is_cpu else ",".join(map(str, uuids)),
                "timing": self._timing.model_dump(),
                "seed": self._session.timing.get("seed", 0),
                "environment_id": self._session.environment_id,
                "session_id": self._session.session_id,
                "cache_bytes": self.environment.last_level_cache_bytes,
                "threads": self.environment.threads,
                "epoch": self._epoch,
                "op": self._session.op,
            }
            for rank, uuid in enumerate(uuids)
        ]

    def _drain(
        self, workers: Workers, waiting: dict[str, PlanPoint]
    ) -> Generator[Measurement, None, Fault | None]:
        """Yields measurements and takes their points out of `waiting`.

        Returns why it ended before all were measured; None where every point was.
        """
        workers.send(json.dumps([encode(point) for point in waiting.values()]))
        while (event := workers.next_event(self._timing.point_timeout_s)) is not None:
            if "done" in event:
                self.compiling_s += event.get("compiled_s", 0.0)
                reason = f"the worker returned without a word on {len(waiting)} points"
                return Fault(reason=reason, last=next(iter(waiting))) if waiting else None
            if "measurement" in event:
                try:
                    measurement = decode(event["measurement"], "worker")
                except RecordsError as refused:  # costs its point, not the session
                    refused_id = json.loads(event["measurement"]).get("point_id")
                    return Fault(reason=str(refused), last=refused_id)
                assert isinstance(measurement, Measurement)
                waiting.pop(measurement.point_id, None)
                yield measurement
        return workers.fault(self._timing.point_timeout_s)

    def refuse(self, point: PlanPoint, reason: str) -> Measurement:
        """The row of a point that this machine cannot measure."""
        return self._row(point, Fault(status="unsupported", reason=reason))

    def _failed(self, point: PlanPoint, fault: Fault) -> Measurement:
        self._tell(f"{point.op}: {point.recipe} {dict(point.shape)} {fault.status}: {fault.reason}")
        return self._row(point, fault)

    def _row(self, point: PlanPoint, fault: Fault) -> Measurement:
        return Measurement(
            point_id=point.point_id,
            environment_id=self._session.environment_id,
            session_id=self._session.session_id,
            status=fault.status,
            reason=fault.reason,
            started_s=time.time() - self._epoch,
        )

    def stop(self) -> None:
        """End the workers, whatever they are doing."""
        if self._workers is not None:
            self._workers.kill()
            self._workers = None


def timing_of(values: Mapping[str, Any]) -> Timing:
    """The timing protocol of a session, without the seed; raises ValueError for a bad key."""
    return Timing.model_validate({key: v for key, v in values.items() if key != "seed"})
