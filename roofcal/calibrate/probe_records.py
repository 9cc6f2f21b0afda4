"""The records of a run folder that a calibration may read: its environment and its probes."""

from pathlib import Path

from roofcal.core.jsonl import read_plan, read_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.core.visits.disturbances import drift_texts, largest_drift, load_texts
from roofcal.core.visits.intervals import (
    cards_by_session,
    point_intervals,
    sentinel_medians,
    visit_times,
)
from roofcal.core.visits.order import is_sentinel
from roofcal.fitting.probes import CalibrationError, Probe
from roofcal.ops import BY_NAME
from roofcal.ops.plan_points import point_problem, regimes


def read_environment(run: Path) -> Environment:
    """The environment of a run folder.

    Raises RecordsError for a bad file, CalibrationError for an empty one.
    """
    path = RunFolder.at(run).environment_file
    environments = read_records(path, Environment)
    if not environments:
        raise CalibrationError(
            f"{path}: holds no Environment record; run "
            "`python -m roofcal doctor --write-environment results` on the device's machine"
        )
    return environments[0]


def read_disturbances(run: Path, op: str, environment: Environment) -> list[str]:
    """What disturbed the sessions of a probe op, by its sentinels and the load of the machine.

    Raises as read_probes.
    """
    points, records = _probe_files(run, op)
    sentinels = [
        record
        for record in records
        if isinstance(record, Measurement)
        and record.point_id in points
        and is_sentinel(points[record.point_id])
    ]
    sessions = [record for record in records if isinstance(record, Session)]
    load = load_texts(sessions, is_cpu=environment.vendor == "cpu")
    return [*drift_texts(op, largest_drift(sentinels)), *load]


def read_probes(run: Path, op: str) -> list[Probe]:
    """Points of a probe op that were measured, [] where the run has none of that op.

    Sentinels are none of them: they have the shapes of study points, on which fits are judged. The
    interval of a probe that is a sentinel, too, holds its repetitions.

    Raises CalibrationError for an op that is no probe: a fit that has seen the points it is judged
    on says nothing. Raises RecordsError for a bad file.
    """
    planned, records = _probe_files(run, op)
    points = {key: point for key, point in planned.items() if not is_sentinel(point)}
    rows = [
        m
        for m in records
        if isinstance(m, Measurement)
        and m.point_id in points
        and m.status == "ok"
        and m.settled_samples_s
    ]
    visits = {m.point_id: visit_times(m) for m in records if isinstance(m, Measurement)}
    repeated = sentinel_medians(planned.values(), visits)
    intervals = point_intervals(
        [visits[row.point_id] for row in rows],
        cards_by_session([record for record in records if isinstance(record, Session)]),
        regimes(points[row.point_id] for row in rows),
        [repeated.get(row.point_id, ()) for row in rows],
    )
    return [
        Probe(point=points[row.point_id], measurement=row, latency=interval)
        for row, interval in zip(rows, intervals, strict=True)
        if interval is not None
    ]


def _probe_files(run: Path, op: str) -> tuple[dict[str, PlanPoint], list[Session | Measurement]]:
    """(points of a probe op by their ids, its records), both empty where the run has none."""
    if BY_NAME[op].role != "probe":
        raise CalibrationError(f"{op} is no probe op; a calibration is fitted on probes alone")
    files = RunFolder.at(run)
    if not files.plan_file(op).is_file() or not files.measurements_file(op).is_file():
        return {}, []
    points = {point.point_id: point for point in read_plan(files, op, point_problem)}
    return points, read_records(files.measurements_file(op), Session, Measurement)
