"""What a study is about to measure, and for how long: said before the first measurement."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from roofcal.core.jsonl import read_single_record
from roofcal.core.records import Environment, PlanPoint
from roofcal.ops import needed_probes
from roofcal.ops.spec import Backend
from roofcal.ops.visit_times import SESSION_S, plan_seconds
from roofcal.study.config import Study
from roofcal.study.plan import plan_op
from roofcal.study.runs import Run, left_out_of_report
from roofcal.study.unlock import hold_study_lock


def study_notes(study: Study, runs: Collection[Run], *, is_dry_run: bool) -> list[str]:
    """What to say before Snakemake starts: locks that were left, runs left out, and what comes.

    A dry run makes no files, so it leaves all locks as they are.
    Raises ValueError for damaged files of runs, and OSError where the folder cannot be locked.
    """
    message = None if is_dry_run else hold_study_lock()
    notes = [message] if message else []
    if study.devices == "auto":
        from roofcal.study.discover import left_out  # noqa: PLC0415 (a login node must not look)

        notes += left_out()
    return [
        *notes,
        *left_out_of_report(study, runs),
        *_added_probes(study, runs),
        *announcement(runs),
    ]


def _added_probes(study: Study, runs: Collection[Run]) -> Iterator[str]:
    """A sentence where ops are named whose predictions need probes that are not."""
    planned = {op for run in runs if run.backend for op in run.ops}
    added = [op for op in needed_probes(study.ops) if op in planned.difference(study.ops)]
    if added:
        yield f"measured beside the ops named, because it calibrates them: {', '.join(added)}"


def announcement(runs: Iterable[Run]) -> Iterator[str]:
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


def measuring_minutes(run: Run, backend: Backend, plans: Collection[Sequence[PlanPoint]]) -> int:
    """About how long a run takes to measure the plans of its ops, in whole minutes."""
    visits = int(run.timing["visits"])
    seconds = sum(plan_seconds(plan, backend, run.most_devices, visits) for plan in plans)
    seconds += SESSION_S[backend] * len(plans)
    # Points that disagree are visited again, for that share of the time of the others.
    more = float(run.timing["more_visits"])
    return max(1, round(seconds * (1 + more) / 60))
