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

from roofcal.measure.journal import Journal
from roofcal.measure.locks import Lock, wait_for_lock
from roofcal.measure.supervisor import Crew, MeasureError, timing_of
from roofcal.measure.telemetry import Gpu, visible_gpus
from roofcal.ops import BY_NAME
from roofcal.records import (
    Environment,
    Measurement,
    PlanPoint,
    Session,
    read_records,
    write_records,
)
from roofcal.sources import ROOT, code_hash, measure_sources

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
    missing = [point for point in points if point.point_id not in known]
    before = len(points) - len(missing)
    _tell(f"{session.op}: {len(points)} points, {before} of them measured before")
    if missing:
        with _device(environment) as (lock, device_uuid):
            session = replace(session, device_uuid=device_uuid)
            known |= _run(missing, session, environment, journal, lock)
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


@contextmanager
def _device(environment: Environment) -> Iterator[tuple[Lock, str | None]]:
    """(lock, uuid) of a free GPU that is the environment's device; of the CPU: (its lock, None)."""
    cpu = environment.vendor == "cpu"
    lock = wait_for_lock(["cpu"] if cpu else _matching_gpus(environment), _tell)
    try:
        yield lock, None if cpu else lock.name
    finally:
        lock.release()


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
    lock: Lock,
) -> dict[str, Measurement]:
    journal.append(session)
    start = time.perf_counter()
    found: dict[str, Measurement] = {}
    with tqdm(total=len(points), desc=session.op, unit="pt", **_progress()) as bar:
        crew = Crew(session, environment, lock, _tell)
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
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
