"""Measure a plan: what is known from the journal is taken over, the rest is measured on the device.

Every point of the plan ends as a row of the output. The journal is written line by line, so that a
session which is killed costs the point in flight; the output is written whole, at the end.
"""

import os
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
from typing import Any

from tqdm import tqdm

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.measure.journal import Journal
from roofcal.measure.locks import Lock, wait_for_locks
from roofcal.measure.supervisor import Crew, MeasureError, timing_of
from roofcal.measure.telemetry import Gpu, visible_gpus
from roofcal.ops import BY_NAME
from roofcal.study.staleness import ROOT, code_hash, measure_sources

_CPU_RANKS = 4
_TOO_FEW = "too few devices"

__all__ = ["Job", "MeasureError", "measure"]


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
    ValueError for a bad timing protocol, OSError if the disk is full (the journal keeps what was
    measured).
    """
    points, environment = _what(job)
    session = _new_session(points[0].op, environment, job)
    journal = Journal(job.journal, _tell)
    known = journal.reusable(session, job.retry)
    shared = any(point.world_size > 1 for point in points)
    here = _device_count(environment) if shared else 1
    missing = [
        p for p in points if p.point_id not in known or _fits_now(known[p.point_id], p, here)
    ]
    before = len(points) - len(missing)
    _tell(f"{session.op}: {len(points)} points, {before} of them measured before")
    if missing:
        fitting = [p.world_size for p in missing if p.world_size <= here]
        if len(fitting) < len(missing):
            few = len(missing) - len(fitting)
            _tell(
                f"{session.op}: {few} point(s) need more devices than the {here} of the kind here"
            )
        count = max(fitting, default=1)
        with _devices(environment, count) as (locks, uuids):
            session = replace(session, device_uuid=uuids)
            known |= _run(missing, session, environment, journal, _Devices(locks, here))
    found = [known[point.point_id] for point in points]
    used = {measurement.session_id for measurement in found}
    sessions = [s for key, s in journal.sessions.items() if key in used]
    write_records(job.out, [*sessions, *found])
    return found


def _what(job: Job) -> tuple[list[PlanPoint], Environment]:
    """Points and environment of a job, checked to belong together."""
    points, found = read_records(job.plan, PlanPoint), read_records(job.environment, Environment)
    if not points or not found:
        path, kind = (job.environment, "Environment") if points else (job.plan, "PlanPoint")
        raise MeasureError(f"{path}: holds no {kind} record; delete it and let the study make it")
    kinds = {(point.op, point.device) for point in points}
    if kinds != {(points[0].op, found[0].device)}:
        seen = ", ".join(sorted(f"op {op} on {device}" for op, device in kinds))
        raise MeasureError(
            f"{job.plan}: a plan is of one op, on the device of {job.environment} "
            f"({found[0].device}); this one holds {seen}"
        )
    return points, found[0]


def _new_session(op: str, environment: Environment, job: Job) -> Session:
    timing_of(job.timing)
    commit, dirty = _git_state()
    return Session(
        session_id=uuid.uuid4().hex[:12],
        environment_id=environment.environment_id,
        op=op,
        host=socket.gethostname(),
        device_uuid=None,
        git_commit=commit,
        git_dirty=dirty,
        code_hash=code_hash(_sources(job, op)),
        command=" ".join(["python -m roofcal", *sys.argv[1:]]),
        timing=job.timing,
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _sources(job: Job, op: str) -> tuple[Path, ...]:
    try:
        return measure_sources(op)
    except KeyError:
        allowed = ", ".join(BY_NAME)
        raise MeasureError(f"{job.plan}: unknown op '{op}'; allowed: {allowed}") from None


def _git_state() -> tuple[str | None, bool | None]:
    """(commit, whether the tree differs from it); (None, None) outside a git checkout."""
    ask = ["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain"]
    try:
        answers = [
            subprocess.run(q, cwd=ROOT, capture_output=True, text=True, check=True) for q in ask
        ]
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("ROOFCAL_GIT_COMMIT"), None
    return answers[0].stdout.strip(), bool(answers[1].stdout.strip())


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
    cpu = environment.vendor == "cpu"
    names = ["cpu"] if cpu else _matching_gpus(environment)
    locks = wait_for_locks(names, 1 if cpu else count, _tell)
    try:
        yield locks, None if cpu else ",".join(lock.name for lock in locks)
    finally:
        for lock in locks:
            lock.release()


def _device_count(environment: Environment) -> int:
    """The largest world size here. No part of the environment: one GPU measures as it does alone.

    On a CPU processes stand in for devices: they show that all of it works, and more of them than
    cores would show nothing else.
    """
    return _CPU_RANKS if environment.vendor == "cpu" else len(_matching_gpus(environment))


def _too_few(point: PlanPoint, environment: Environment, here: int) -> str:
    """Why a point of so large a world size is not measured."""
    need = f"{_TOO_FEW}: world size {point.world_size} needs {point.world_size}"
    if environment.vendor == "cpu":
        return f"{need} processes, and a CPU measures with {here} at most"
    return f"{need} {environment.device_name}, this machine has {here}"


def _fits_now(known: Measurement, point: PlanPoint, here: int) -> bool:
    """Whether a point lacked devices when it was its turn, on a machine with fewer of them."""
    lacked = known.status == "unsupported" and str(known.reason).startswith(_TOO_FEW)
    return lacked and point.world_size <= here


def _matching_gpus(environment: Environment) -> list[str]:
    """The uuids of the cards the plan is for; raises MeasureError where there is none."""
    gpus = visible_gpus()
    names = [gpu.uuid for gpu in gpus if _is_device(gpu, environment)]
    if not names:
        seen = ", ".join(sorted({gpu.name for gpu in gpus})) or "no NVIDIA GPU"
        raise MeasureError(
            f"the plan is for {environment.device}, this machine has {seen}; "
            "run `python -m roofcal doctor` to see what is here, and plan for that"
        )
    return names


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
    journal.append(session)
    start = time.perf_counter()
    found: dict[str, Measurement] = {}
    with tqdm(total=len(points), desc=session.op, unit="pt", **_progress()) as bar:
        crew = Crew(session, environment, devices.locks, _tell)
        try:
            for _, members in groupby(points, key=lambda point: point.group_key):
                for measurement in _measured(list(members), crew, environment, devices.here):
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


def _measured(
    members: list[PlanPoint], crew: Crew, environment: Environment, here: int
) -> Iterator[Measurement]:
    """Rows of a group, by the crew or, where there are too few devices for it, at once."""
    if members[0].world_size <= here:
        yield from crew.run_group(members)
        return
    for point in members:
        yield crew.refuse(point, _too_few(point, environment, here))


def _progress() -> dict[str, Any]:
    """A live bar on a terminal, a line every ten seconds in a log file."""
    live = sys.stderr.isatty()
    return {"mininterval": 0.5 if live else 10.0, "smoothing": 0.05, "dynamic_ncols": live}


def _tell(text: str) -> None:
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
