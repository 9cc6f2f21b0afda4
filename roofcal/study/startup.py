"""What happens when Snakemake starts a study: stale locks go, what comes is said, jobs are lines.

`kill -9` leaves notes in .snakemake/locks, with which Snakemake refuses to start, and they do not
say whose they are. So all that run a study share a flock, which ends with the process; where nobody
else has it, the notes are stale.
"""

import fcntl
import logging
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from roofcal.core.jsonl import read_single_record
from roofcal.core.machine.locks import NO_FILE_LOCKS
from roofcal.core.records import Environment, PlanPoint
from roofcal.ops import needed_probes
from roofcal.ops.spec import Backend
from roofcal.ops.visit_times import SESSION_S, plan_seconds
from roofcal.study.config import Study
from roofcal.study.plan import plan_op
from roofcal.study.runs import StudyRun, ops_without_points


def study_notes(
    study: Study, runs: Collection[StudyRun], runs_left_out: Iterable[str], *, is_dry_run: bool
) -> list[str]:
    """What to say before Snakemake starts: locks that were left, runs left out, and what comes.

    A dry run makes no files, so it leaves all locks as they are.
    Raises ValueError for damaged files of runs, and OSError where the folder cannot be locked.
    """
    message = None if is_dry_run else hold_study_lock()
    notes = [message] if message else []
    if study.file.devices == "auto":
        from roofcal.study.discover import left_out  # noqa: PLC0415 (a login node must not look)

        notes += left_out()
    notes += runs_left_out
    notes += dict.fromkeys(text for run in runs for text in ops_without_points(study, run))
    planned = {op for run in runs if run.backend for op in run.ops}
    added = [op for op in needed_probes(study.ops) if op in planned.difference(study.ops)]
    if added:
        names = ", ".join(added)
        notes.append(f"measured beside the ops named, because it calibrates them: {names}")
    return [*notes, *announcement(runs)]


def announcement(runs: Iterable[StudyRun]) -> Iterator[str]:
    """One sentence per run with something to measure, and one per op that cannot be planned.

    Ops with a file of measurements count as measured, although an edited source may say otherwise.
    """
    for run in runs:
        if run.backend is None:
            continue
        environment = read_single_record(run.environment_file, Environment)
        beyond, measured, plans = 0, 0, []
        for op, op_slice in run.slices.items():
            try:
                plan = plan_op(op_slice, environment)
            except ValueError as error:
                yield f"{op} cannot be planned: {error}"
                continue
            if run.measurements_file(op).is_file():
                measured += len(plan)
                continue
            fitting = [point for point in plan if point.world_size <= run.most_devices]
            beyond += len(plan) - len(fitting)
            plans += [fitting] if fitting else []
        if plans:
            points, minutes = sum(map(len, plans)), measuring_minutes(run, run.backend, plans)
            more = f", {beyond} that need more devices than are here" if beyond else ""
            before = f", {measured} measured before" if measured else ""
            yield (
                f"{run.device}: {points} points of {len(plans)} ops to measure, about "
                f"{minutes} min{more}{before}"
            )


def measuring_minutes(
    run: StudyRun, backend: Backend, plans: Collection[Sequence[PlanPoint]]
) -> int:
    """About how long a run takes to measure the plans of its ops, in whole minutes."""
    visits = int(run.timing["visits"])
    seconds = sum(plan_seconds(plan, backend, run.most_devices, visits) for plan in plans)
    seconds += SESSION_S[backend] * len(plans)
    # Points that disagree are visited again, for that share of the time of the others.
    more = float(run.timing["more_visits"])
    return max(1, round(seconds * (1 + more) / 60))


# It holds the name of the machine that made the locks: some file systems keep flock to one machine.
_STUDY_LOCK = Path(".snakemake/roofcal_study.lock")
_LOCKS = Path(".snakemake/locks")
_UNLOCK = "`snakemake --unlock` lets the study go on"


def hold_study_lock() -> str | None:
    """Share the lock of the current folder's studies until this process ends.

    Whoever finds no other study removes the locks that a killed Snakemake left. Returns what to
    tell: that they were removed, or why they may be stale and stay; None where there are none, or
    where Snakemake itself says what to do: another study runs, or nobody noted who made the locks.
    Raises OSError where the file of the lock cannot be written, or is a link.
    """
    _STUDY_LOCK.parent.mkdir(exist_ok=True)
    descriptor = os.open(_STUDY_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        message = _remove_stale_locks(descriptor)
    except BlockingIOError:
        message = None
    except OSError as error:
        os.close(descriptor)
        if error.errno not in NO_FILE_LOCKS:
            raise
        has_locks = any(_LOCKS.glob("*"))
        return f"{_LOCKS}: if no other study runs here, {_UNLOCK}" if has_locks else None
    # Only a study that starts holds it exclusively, and briefly; others have made no locks by then.
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return message


def _remove_stale_locks(descriptor: int) -> str | None:
    """Remove Snakemake's locks where this machine made them, and note it as the one that runs."""
    host = socket.gethostname().encode()
    noted_host = os.pread(descriptor, 256, 0)
    locks = [path for path in _LOCKS.glob("*") if path.is_file()]
    if locks and not noted_host:
        return None
    if locks and noted_host != host:
        name = ascii(noted_host.decode(errors="replace"))
        return f"{_LOCKS}: Snakemake ran on {name}; if it is dead, {_UNLOCK}"
    for lock in locks:
        lock.unlink(missing_ok=True)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, host, 0)
    return f"{_LOCKS}: removed the locks of a Snakemake that was killed" if locks else None


_JOB: Final = "job_info"  # snakemake_interface_logger_plugins.common.LogEvent.JOB_INFO


class JobLines(logging.Formatter):
    """Formats the record of a job as its message and the first reason why it runs."""

    def __init__(self, formatter: logging.Formatter, *, details: bool) -> None:
        """Leave other records to `formatter`; with `details` jobs as well, with all their files."""
        super().__init__()
        self._formatter, self._details = formatter, details

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        message = getattr(record, "rule_msg", None)
        if getattr(record, "event", None) != _JOB or not message:
            return self._formatter.format(record)
        if self._details:
            complete = logging.makeLogRecord({**record.__dict__, "rule_msg": None})
            return self._formatter.format(complete)
        reason = str(getattr(record, "reason", "")).split(";")[0].split(":")[0].strip()
        return f"{message} ({reason[:1].lower()}{reason[1:]})" if reason else str(message)


def print_job_lines(logger: logging.Logger, *, details: bool) -> None:
    """Print one line per job on the terminal of a Snakemake logger.

    details: print files, reasons and resources of every job there too.
    """
    for handler in logger.handlers:
        to_file = isinstance(handler, logging.FileHandler)
        inner = handler.formatter or logging.Formatter()
        handler.setFormatter(JobLines(inner, details=details or to_file))
