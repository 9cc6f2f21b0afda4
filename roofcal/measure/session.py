"""Measure a plan: take over what the journal holds, measure the rest on the device.

The journal has a line per visit, so that a session which is killed costs the point in flight; the
output, a row per point of the plan, is written whole at the end.
"""

import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from roofcal.core.jsonl import read_records, read_single_record, write_records
from roofcal.core.machine.checkout import checkout_commit, checkout_is_dirty
from roofcal.core.machine.cores import (
    BUSY_CPU,
    BUSY_HOST,
    busy_share,
    quota_periods,
    throttled_share,
)
from roofcal.core.machine.locks import HOST_CLOCK, lock_held, wait_for_locks
from roofcal.core.machine.nvml import visible_gpus
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.core.visits.rows import groups_of, reusable_visits, shuffled_groups, throttled_text
from roofcal.measure.journal import Journal, lock_journal
from roofcal.measure.progress import StudyProgress
from roofcal.measure.supervisor import Crew, MeasureError, timing_of
from roofcal.measure.visits import TOO_FEW, Visits
from roofcal.ops import BY_NAME
from roofcal.ops.visit_times import most_devices

_HANDOVER_S = 1.0  # a session that waited longer came while another one measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure, and where the records go.

    code_hash_of  op -> hash of the code that measures it; earlier measurements by other code are
                  not taken over
    retry         statuses to measure again
    world_sizes   of the points to measure; None: all of the plan. Each job of a plan that several
                  share has a journal of its own
    """

    plan: Path
    environment: Path
    timing: Mapping[str, Any]
    journal: Path
    out: Path
    code_hash_of: Callable[[str], str]
    retry: tuple[str, ...] = ()
    world_sizes: Sequence[int] | None = None


@contextmanager
def compiling(plan: Path, environment: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that compiles the kernels of a plan with all cores, and ends with the block.

    It runs `roofcal compile`: compilers are forked, which a process that uses the GPU cannot do.
    Why a point is not compiled goes to stderr: stdout may be the JSON of an answer.
    """
    command = [sys.executable, "-m", "roofcal", "compile"]
    command += [f"--plan={plan}", f"--environment={environment}"]
    with subprocess.Popen(command, stdout=2) as process:
        try:
            yield process
        finally:
            process.terminate()


def measure(job: Job) -> list[Measurement]:
    """Make the visits of the plan that the journal does not hold yet, then write `job.out`.

    Raises MeasureError if the plan is for a device that is not here, RecordsError for bad files,
    ValueError for a bad timing protocol, OSError if the disk is full (the journal keeps what was
    measured).
    """
    points, environment = _read_job(job)
    timing = timing_of(job.timing)
    session = Session(
        session_id=uuid.uuid4().hex[:12],
        environment_id=environment.environment_id,
        op=points[0].op,
        host=socket.gethostname(),
        device_uuid=None,
        git_commit=checkout_commit(),
        git_dirty=checkout_is_dirty(),
        code_hash=job.code_hash_of(points[0].op),
        command=" ".join(["python -m roofcal", *sys.argv[1:]]),
        timing=job.timing,
        started_utc=_utc_now(),
    )
    is_shared = any(point.world_size > 1 for point in points)
    here = _device_count(environment) if is_shared else 1

    def visits_in(journal: Journal) -> Visits:
        return Visits(points, timing, here, reusable_visits(journal.records, session, job.retry))

    with lock_journal(job.journal, _tell):
        journal = Journal(job.journal, _tell)
        visits = visits_in(journal)
        before = len(points) - len({point.point_id for point in visits.missing()})
        _tell(f"{session.op}: {len(points)} points, {before} of them measured before")
        if to_visit := visits.to_visit():
            crew = Crew(session, environment, _tell)
            fitting = [point.world_size for point in to_visit if point.world_size <= here]
            if beyond := len(to_visit) - len(fitting):
                few = f"need more devices than the {here} of the kind here"
                _tell(f"{session.op}: {beyond} point(s) {few}")
            needed = max(fitting, default=1)
            is_cpu = environment.vendor == "cpu"
            # On a GPU before this session has processes of its own: they import with all cores.
            busy = None if is_cpu else busy_share()
            with _devices(environment, needed, crew) as (uuids, waited_s):
                # Where the file system has no locks, another session on this journal may have
                # measured while this one waited for the device.
                journal.read_again()
                visits = visits_in(journal)
                if is_cpu:
                    busy = busy_share()
                elif waited_s > _HANDOVER_S:
                    busy = None  # it was the session before that kept the cores busy
                session = replace(
                    session,
                    started_utc=_utc_now(),
                    device_uuid=uuids,
                    waited_s=waited_s,
                    busy_share=busy,
                    other_processes=_other_processes(uuids),
                )
                _warn_of_load(busy, is_cpu=is_cpu)
                _run(visits, session, crew, journal)
        rows = visits.rows()
        used = {
            id_ for row in rows for id_ in (row.session_id, *(v.session_id for v in row.visits))
        }
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
    if job.world_sizes is not None:
        points = [point for point in points if point.world_size in job.world_sizes]
    if not points:
        sizes = ", ".join(map(str, job.world_sizes or ()))
        raise MeasureError(f"{job.plan}: holds no point of world size {sizes}")
    return points, environment


@contextmanager
def _devices(
    environment: Environment, count: int, crew: Crew
) -> Iterator[tuple[str | None, float]]:
    """Free devices of the environment's kind, locked and given to the crew.

    Yields their uuids with commas, None for the CPU, and the seconds until they were free.

    A CPU has one lock however many processes share it. Where the only card of its kind is still
    being measured, the worker imports meanwhile: torch takes five seconds, in which the card would
    be idle. On a CPU that would disturb what is measured.
    """
    is_cpu = environment.vendor == "cpu"
    names = ["cpu"] if is_cpu else matching_gpus(environment)
    start = time.perf_counter()
    inherited = crew.import_ahead(names[0]) if not is_cpu and len(names) == count == 1 else None
    try:
        locks = wait_for_locks(names, 1 if is_cpu else count, _tell, inherited)
    except BaseException:
        if inherited is not None:
            inherited.close()
        raise
    try:
        crew.take(locks)
        uuids = None if is_cpu else ",".join(lock.name for lock in locks)
        yield uuids, crew.since - start
    finally:
        crew.stop()
        for lock in locks:
            lock.release()


def _warn_of_load(busy: float | None, *, is_cpu: bool) -> None:
    """Say so where other processes keep so many cores busy that it disturbs measuring."""
    if busy is not None and busy > (BUSY_CPU if is_cpu else BUSY_HOST):
        _tell(f"others keep {busy:.0%} of the cores busy, which disturbs every number: stop them")


def _other_processes(uuids: str | None) -> int | None:
    """Processes of others on the cards that are measured; says so where there are any.

    Compilers that work ahead are none: they see the card, and run nothing on it.
    """
    if uuids is None:
        return None
    ids = [id_ for gpu in visible_gpus() if gpu.uuid in uuids for id_ in gpu.process_ids]
    processes = 0
    for process_id in ids:
        words = b""
        with suppress(OSError):  # of another container, or ended meanwhile
            words = Path(f"/proc/{process_id}/cmdline").read_bytes()
        processes += b"\0roofcal\0compile\0" not in words
    if processes:
        _tell(f"{processes} other process(es) on {uuids} disturb every number: stop them")
    return processes or None


def _device_count(environment: Environment) -> int:
    """The largest world size here, which is no part of the environment.

    One GPU measures beside others as it does alone.
    """
    cards = 0 if environment.vendor == "cpu" else len(matching_gpus(environment))
    return most_devices(environment, cards)


def too_few_devices(point: PlanPoint, environment: Environment, here: int) -> str:
    """Why a point of so large a world size is not measured."""
    need = f"{TOO_FEW}: world size {point.world_size} needs {point.world_size}"
    if environment.vendor == "cpu":
        return f"{need} processes, and a CPU measures with {here} at most"
    return f"{need} {environment.device_name}, this machine has {here}"


def matching_gpus(environment: Environment) -> list[str]:
    """The uuids of the cards the plan is for; raises MeasureError where there is none."""
    gpus = visible_gpus()
    alike = ("compute_units", "memory_clock_hz", "memory_bus_bits", "power_limit_w", "driver")
    uuids = [
        gpu.uuid
        for gpu in gpus
        if gpu.name == environment.device_name
        and all(getattr(gpu, name) == getattr(environment, name) for name in alike)
    ]
    if not uuids:
        names_here = ", ".join(sorted({gpu.name for gpu in gpus})) or "no NVIDIA GPU"
        raise MeasureError(
            f"the plan is for {environment.device}, this machine has {names_here}; "
            "run `python -m roofcal doctor` to see what is here, and plan for that"
        )
    return uuids


def _run(visits: Visits, session: Session, crew: Crew, journal: Journal) -> None:
    """Make the visits that are missing, each in the journal as soon as it is made.

    The record of the session is written at the start and at the end.
    """
    if not (to_visit := visits.to_visit()):
        return
    journal.append(session)
    timed, periods, environment = 0.0, quota_periods(), crew.environment
    is_cpu, here = environment.vendor == "cpu", _device_count(environment)
    study = StudyProgress(
        journal.path.parents[1], visits.points, visits.timing.visits, environment.backend, here
    )
    is_live = sys.stderr.isatty()  # a log file gets a line every ten seconds
    with tqdm(
        total=len(visits.missing()),
        desc=session.op,
        unit="pt",
        mininterval=0.5 if is_live else 10.0,
        smoothing=0.05,
        dynamic_ncols=is_live,
    ) as bar:
        try:
            crew.start(min(to_visit[0].world_size, visits.here))
            seed = int(session.timing.get("seed", 0))
            for members in _groups_in_turn(visits, seed):
                # The clock of the host depends on how busy the cores are: meanwhile nothing is
                # compiled ahead. On a CPU that is never done.
                first = members[0]
                by_host = first.protocol.method == "wall" or first.op == "probe_launch"
                pause = by_host and not is_cpu
                with lock_held(HOST_CLOCK, _tell) if pause else nullcontext():
                    if first.world_size <= visits.here:
                        measured = crew.run_group(members)
                    else:
                        few = too_few_devices(first, environment, visits.here)
                        measured = (crew.refuse(point, few) for point in members)
                    for measurement in measured:
                        line = visits.add(measurement)
                        journal.append(line)
                        timed += sum(line.latency_samples_s) * line.calls_per_sample
                        bar.update()
                        done, total = int(bar.n), int(bar.total or 0)
                        about = study.text(done, total, time.perf_counter() - crew.since, timed)
                        bar.set_postfix_str(about, refresh=False)
                bar.total = bar.n + len(visits.missing())
            if is_cpu:
                # On a CPU alone: beside the last points on a GPU, fits of the same study keep the
                # cores busy. Its own workers have ended.
                crew.stop()
                at_end = busy_share() or 0.0
                if at_end > (session.busy_share or 0.0):
                    _warn_of_load(at_end, is_cpu=True)
                    session = replace(session, busy_share=at_end)
        finally:
            crew.stop()
            throttled = throttled_share(periods)
            if is_cpu and (share := throttled or 0.0) > BUSY_CPU:
                _tell(throttled_text(share))
            journal.append(
                replace(
                    session,
                    finished_utc=_utc_now(),
                    wall_s=time.perf_counter() - crew.since,
                    timed_s=timed,
                    starting_s=crew.starting_s,
                    compiling_s=crew.compiling_s,
                    throttled_share=throttled,
                )
            )


def _groups_in_turn(visits: Visits, seed: int) -> Iterator[list[PlanPoint]]:
    """Groups of points that are timed together: the passes, then groups whose visits disagree.

    The first pass has the order of the plan, the others are shuffled anew. The panel of sentinels
    comes before each pass, halfway through a single one, and at the end; before further visits only
    where no pass came before them.
    """
    start = time.perf_counter()
    passes_before_s, further_before_s = visits.seconds_spent()
    last, has_begun = visits.timing.visits - 1, False
    for number in range(last + 1):
        if not (points := visits.missing_in(number)):
            continue
        groups = shuffled_groups(points, f"{seed},{number}") if number else groups_of(points)
        # Between fewer groups than its sentinels, a panel takes longer than what it watches.
        is_long = len(groups) >= len(visits.panel())
        middle = len(groups) // 2 if is_long and number == last and not has_begun else 0
        has_begun = True
        parts = [groups[:middle], groups[middle:]] if middle else [groups]
        for part in parts:
            yield from groups_of(visits.panel())
            yield from part
    passes_s = passes_before_s + time.perf_counter() - start
    if not has_begun and visits.disagreeing_groups():
        # The session before was stopped in its further visits: how the card differs from then shows
        # in sentinels alone.
        yield from groups_of(visits.panel())
    end = time.perf_counter() + visits.timing.more_visits * passes_s - further_before_s
    while time.perf_counter() <= end and (groups := visits.disagreeing_groups()):
        for group in sorted(groups, key=lambda group: group[0].world_size):
            if time.perf_counter() <= end:
                yield group
    yield from groups_of(visits.panel())


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _tell(text: str) -> None:
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
