"""Measure a plan: take over what the journal holds, measure the rest on the device.

Every point of the plan ends as a row of the output. The journal is written line by line, so that a
session which is killed costs the point in flight; the output is written whole, at the end.
"""

import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from tqdm import tqdm

from roofcal.core.jsonl import read_records, read_single_record, write_records
from roofcal.core.machine.checkout import checkout_commit, checkout_is_dirty
from roofcal.core.machine.locks import Lock, wait_for_locks
from roofcal.core.machine.nvml import Gpu, visible_gpus
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.measure.journal import Journal, lock_journal
from roofcal.measure.supervisor import Crew, MeasureError, timing_of
from roofcal.ops import BY_NAME

_CPU_RANKS = 4
_TOO_FEW = "too few devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure, and where the records go.

    code_hash_of  op -> hash of the code that measures it; earlier measurements by other code are
                  not taken over
    retry         statuses to measure again
    """

    plan: Path
    environment: Path
    timing: Mapping[str, Any]
    journal: Path
    out: Path
    code_hash_of: Callable[[str], str]
    retry: tuple[str, ...] = ()


def measure(job: Job) -> list[Measurement]:
    """Measure every point of the plan that the journal does not hold yet, then write `job.out`.

    Raises MeasureError if the plan is for a device that is not here, RecordsError for bad files,
    ValueError for a bad timing protocol, OSError if the disk is full (the journal keeps what was
    measured).
    """
    points, environment = _read_job(job)
    session = _new_session(points[0].op, environment, job)
    is_shared = any(point.world_size > 1 for point in points)
    here = _device_count(environment) if is_shared else 1
    with lock_journal(job.journal, _tell):
        journal = Journal(job.journal, _tell)
        measurements = journal.reusable(session, job.retry)
        missing = _missing(points, measurements, here)
        before = len(points) - len(missing)
        _tell(f"{session.op}: {len(points)} points, {before} of them measured before")
        if missing:
            with _devices(environment, _devices_needed(missing, here)) as (locks, uuids):
                # Where the file system has no locks, another session on this journal may have
                # measured while this one waited for the device.
                journal.read_again()
                measurements = journal.reusable(session, job.retry)
                missing = _missing(points, measurements, here)
                session = replace(session, device_uuid=uuids)
                devices = _Devices(locks, here)
                measurements |= _run(missing, session, environment, journal, devices)
        rows = [measurements[point.point_id] for point in points]
        used = {measurement.session_id for measurement in rows}
        sessions = [s for key, s in journal.sessions.items() if key in used]
        write_records(job.out, [*sessions, *rows])
    return rows


def _read_job(job: Job) -> tuple[list[PlanPoint], Environment]:
    """Points and environment of a job, checked to belong together."""
    points = read_records(job.plan, PlanPoint)
    environment = read_single_record(job.environment, Environment)
    if not points:
        raise MeasureError(f"{job.plan}: holds no PlanPoint; delete it and let the study make it")
    kinds = {(point.op, point.device) for point in points}
    if kinds != {(points[0].op, environment.device)}:
        described = ", ".join(sorted(f"op {op} on {device}" for op, device in kinds))
        raise MeasureError(
            f"{job.plan}: a plan is of one op, on the device of {job.environment} "
            f"({environment.device}); this one holds {described}"
        )
    if points[0].op not in BY_NAME:
        raise MeasureError(
            f"{job.plan}: unknown op '{points[0].op}'; allowed: {', '.join(BY_NAME)}"
        )
    return points, environment


def _new_session(op: str, environment: Environment, job: Job) -> Session:
    timing_of(job.timing)
    return Session(
        session_id=uuid.uuid4().hex[:12],
        environment_id=environment.environment_id,
        op=op,
        host=socket.gethostname(),
        device_uuid=None,
        git_commit=checkout_commit(),
        git_dirty=checkout_is_dirty(),
        code_hash=job.code_hash_of(op),
        command=" ".join(["python -m roofcal", *sys.argv[1:]]),
        timing=job.timing,
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _missing(
    points: Sequence[PlanPoint], measurements: Mapping[str, Measurement], here: int
) -> list[PlanPoint]:
    """Points without a measurement, and those that lacked devices and find enough `here` now."""

    def is_measured(point: PlanPoint) -> bool:
        row = measurements.get(point.point_id)
        if row is None:
            return False
        lacked = row.status == "unsupported" and str(row.reason).startswith(_TOO_FEW)
        return not (lacked and point.world_size <= here)

    return [point for point in points if not is_measured(point)]


def _devices_needed(missing: Sequence[PlanPoint], here: int) -> int:
    """Devices to lock for the missing points; says how many points need more than are here."""
    fitting = [point.world_size for point in missing if point.world_size <= here]
    beyond = len(missing) - len(fitting)
    if beyond:
        few = f"need more devices than the {here} of the kind here"
        _tell(f"{missing[0].op}: {beyond} point(s) {few}")
    return max(fitting, default=1)


@dataclass(frozen=True, slots=True)
class _Devices:
    """Locks of the devices to measure on, and how many of their kind there are."""

    locks: list[Lock]
    here: int


@contextmanager
def _devices(environment: Environment, count: int) -> Iterator[tuple[list[Lock], str | None]]:
    """(locks, uuids with commas) of free GPUs of the environment's kind; of the CPU (lock, None).

    A CPU has one lock however many processes share it.
    """
    is_cpu = environment.vendor == "cpu"
    names = ["cpu"] if is_cpu else _matching_gpus(environment)
    locks = wait_for_locks(names, 1 if is_cpu else count, _tell)
    try:
        yield locks, None if is_cpu else ",".join(lock.name for lock in locks)
    finally:
        for lock in locks:
            lock.release()


def _device_count(environment: Environment) -> int:
    """The largest world size here. No part of the environment: one GPU measures as it does alone.

    On a CPU processes stand in for devices: they show that all of it works, and more of them than
    cores would show nothing else.
    """
    return _CPU_RANKS if environment.vendor == "cpu" else len(_matching_gpus(environment))


def too_few_devices(point: PlanPoint, environment: Environment, here: int) -> str:
    """Why a point of so large a world size is not measured."""
    need = f"{_TOO_FEW}: world size {point.world_size} needs {point.world_size}"
    if environment.vendor == "cpu":
        return f"{need} processes, and a CPU measures with {here} at most"
    return f"{need} {environment.device_name}, this machine has {here}"


def _matching_gpus(environment: Environment) -> list[str]:
    """The uuids of the cards the plan is for; raises MeasureError where there is none."""
    gpus = visible_gpus()
    uuids = [gpu.uuid for gpu in gpus if _is_device(gpu, environment)]
    if not uuids:
        names_here = ", ".join(sorted({gpu.name for gpu in gpus})) or "no NVIDIA GPU"
        raise MeasureError(
            f"the plan is for {environment.device}, this machine has {names_here}; "
            "run `python -m roofcal doctor` to see what is here, and plan for that"
        )
    return uuids


def _is_device(gpu: Gpu, environment: Environment) -> bool:
    """Whether a card is of the kind the plan is for."""
    fields = ("compute_units", "memory_clock_hz", "memory_bus_bits", "power_limit_w", "driver")
    same = all(getattr(gpu, name) == getattr(environment, name) for name in fields)
    return same and gpu.name == environment.device_name


def _run(
    points: Sequence[PlanPoint],
    session: Session,
    environment: Environment,
    journal: Journal,
    devices: _Devices,
) -> dict[str, Measurement]:
    """Measurements by point id, each in the journal as soon as it is taken."""
    if not points:
        return {}
    journal.append(session)
    start = time.perf_counter()
    rows: dict[str, Measurement] = {}
    with tqdm(total=len(points), desc=session.op, unit="pt", **_progress()) as bar:
        crew = Crew(session, environment, devices.locks, _tell)
        try:
            for _, members in groupby(points, key=lambda point: point.group_key):
                for measurement in _measured(list(members), crew, environment, devices.here):
                    journal.append(measurement)
                    rows[measurement.point_id] = measurement
                    bar.update()
        finally:
            crew.stop()
            wall = time.perf_counter() - start
            timed = sum(sum(m.latency_samples_s) * m.calls_per_sample for m in rows.values())
            end = datetime.now(UTC).isoformat(timespec="seconds")
            journal.append(replace(session, finished_utc=end, wall_s=wall, timed_s=timed))
    return rows


def _measured(
    members: list[PlanPoint], crew: Crew, environment: Environment, here: int
) -> Iterator[Measurement]:
    """Rows of a group, by the crew or, where there are too few devices for it, at once."""
    if members[0].world_size <= here:
        yield from crew.run_group(members)
        return
    for point in members:
        yield crew.refuse(point, too_few_devices(point, environment, here))


def _progress() -> dict[str, Any]:
    """A live bar on a terminal, a line every ten seconds in a log file."""
    live = sys.stderr.isatty()
    return {"mininterval": 0.5 if live else 10.0, "smoothing": 0.05, "dynamic_ncols": live}


def _tell(text: str) -> None:
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
