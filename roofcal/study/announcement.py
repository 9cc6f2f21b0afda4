"""What a study is about to measure, and for how long: said before the first measurement."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from roofcal.core.jsonl import read_single_record
from roofcal.core.records import Environment
from roofcal.study.config import Study
from roofcal.study.plan import plan_op
from roofcal.study.runs import Run, left_out_of_report
from roofcal.study.unlock import hold_study_lock

# Seconds per visit of a point: on a published H200 the device worked 0.34 s in one, three quarters
# of the time. Seconds per op: torch is imported and the card warms up. A CPU was measured likewise.
_VISIT_S: Final = {"cuda": 0.45, "cpu": 0.6}
_OP_S: Final = {"cuda": 10.0, "cpu": 4.0}


def study_notes(study: Study, runs: Collection[Run], *, is_dry_run: bool) -> list[str]:
    """What to say before Snakemake starts: locks that were left, runs left out, and what comes.

    A dry run makes no files, so it leaves all locks as they are.
    Raises ValueError for damaged files of runs, and OSError where the folder cannot be locked.
    """
    message = None if is_dry_run else hold_study_lock()
    notes = [message] if message else []
    return [*notes, *left_out_of_report(study, runs), *announcement(runs)]


def announcement(runs: Iterable[Run]) -> Iterator[str]:
    """One sentence per run with something to measure, and one per op that cannot be planned.

    Ops with a file of measurements count as measured, although an edited source may say otherwise.
    """
    for run in runs:
        if run.backend is None:
            continue
        environment = read_single_record(run.environment_file, Environment)
        points, measured, ops, seconds = 0, 0, 0, 0.0
        for op, op_slice in run.slices.items():
            try:
                count = len(plan_op(op_slice, environment))
            except ValueError as error:
                yield f"{op} cannot be planned: {error}"
                continue
            if run.measurements_file(op).is_file():
                measured += count
                continue
            points, ops = points + count, ops + 1
            seconds += count * run.timing["visits"] * _VISIT_S[run.backend] + _OP_S[run.backend]
        if points:
            before = f", {measured} measured before" if measured else ""
            yield (
                f"{run.device}: {points} points of {ops} ops to measure, about "
                f"{max(1, round(seconds / 60))} min{before}"
            )
