"""A run folder as the report reads it: line by line, so that memory holds no samples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from roofcal.core.environments import age_key, is_calibrated, origin_environment
from roofcal.core.jsonl import R, iter_records, read_plan, read_records, salvage_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import (
    Calibration,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Record,
    Session,
)
from roofcal.core.visits.order import is_sentinel
from roofcal.core.visits.rows import merged_visits, reusable_visits, split_visits
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.equations import other_equations, predicted_with
from roofcal.ops.plan_points import point_problem
from roofcal.ops.spec import OpSpec
from roofcal.report.data.observations import observation, power_columns

V = TypeVar("V")


class ReportError(ValueError):
    """A run that cannot be reported; the message names the file and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRecords:
    """All records of one op of a run.

    observations  by point_id; a point without one was planned and never reached
    repetitions   of a sentinel with several visits: point_id -> the observation of each
    predictions   model -> point_id -> prediction
    """

    op: OpSpec
    points: tuple[PlanPoint, ...]
    sessions: tuple[Session, ...]
    observations: Mapping[str, Mapping[str, Any]]
    repetitions: Mapping[str, Sequence[Mapping[str, Any]]]
    predictions: Mapping[str, Mapping[str, Prediction]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One device in one environment, as its folder has it.

    folder        plan and measurements
    derived       calibration and predictions; the same folder unless the run is replayed
    origin        published: frozen below reports/published; measured: of this machine or cluster
    outdated      ops whose constants are of another equation than this roofcal has (see
                  roofcal.ops.equations): whatever follows from these constants is left out, of
                  `calibration`, of predictions and of derived tables
    ops           ops with a plan, in the order of roofcal.ops.OPS
    measured_utc  when the session that begins the file of an op began, the latest of all ops; ''
                  without any
    """

    folder: Path
    derived: Path
    origin: Literal["measured", "published"]
    environment: Environment
    calibration: Calibration | None
    outdated: tuple[str, ...] = ()
    ops: tuple[str, ...]
    measured_utc: str

    @property
    def age_key(self) -> tuple[list[tuple[int, str]], str]:
        """Sorts the runs of a device from the oldest to the newest; see environments.age_key."""
        return age_key(self.environment.environment_id, self.measured_utc)

    def read(self, op: str) -> OpRecords:
        """The records of one op; an op without a file has no records. Raises RecordsError.

        An op whose measuring was interrupted has the visits of its journal.
        """
        points = _read_plan(self.folder, op)
        sentinels = {point.point_id for point in points if is_sentinel(point)}
        # Telemetry is that of the first rank: what several boards take together is not recorded.
        methods = {p.point_id: p.protocol.method for p in points if p.world_size == 1}
        sessions: list[Session] = []
        observations: dict[str, Mapping[str, Any]] = {}
        repetitions: dict[str, list[dict[str, Any]]] = {}
        seconds: dict[str, tuple[float, float]] = {}
        for row in _measured_rows(self.folder, op):
            if isinstance(row, Session):
                sessions.append(row)
            elif isinstance(row, Measurement):
                observed = observation(row)
                if row.point_id in methods:
                    limit = self.environment.power_limit_w
                    observed |= power_columns(row, methods[row.point_id], limit)
                observations[row.point_id] = observed
                visits = split_visits(row)
                if row.visits and row.point_id in sentinels:
                    repetitions[row.point_id] = [observation(visit) for visit in visits]
                for visit in visits:
                    wall, timed = seconds.get(visit.session_id, (0.0, 0.0))
                    timed += sum(visit.latency_samples_s) * visit.calls_per_sample
                    seconds[visit.session_id] = max(wall, visit.started_s + visit.elapsed_s), timed
        is_outdated = op in predicted_with(self.outdated)
        predictions: dict[str, dict[str, Prediction]] = {}
        for record in _records_of(Prediction, _read(self.derived, f"predictions/{op}")):
            if not (is_outdated and is_calibrated(record.model)):
                predictions.setdefault(record.model, {})[record.point_id] = record
        return OpRecords(
            op=BY_NAME[op],
            points=tuple(points),
            sessions=tuple(_with_duration(s, *seconds.get(s.session_id, (0, 0))) for s in sessions),
            observations=observations,
            repetitions=repetitions,
            predictions=predictions,
        )

    def origins(self) -> list[str]:
        """Environments whose constants predicted points of this run beside its own constants."""
        records = (
            record
            for op in self.ops
            for record in _records_of(Prediction, _read(self.derived, f"predictions/{op}"))
        )
        return sorted({origin for r in records if (origin := origin_environment(r.model))})


def _with_duration(session: Session, wall_s: float, timed_s: float) -> Session:
    """A session with its wall and timed seconds; those of a killed session come from its rows.

    What it did after its last row is lost, so its wall time is a lower bound.
    """
    killed = session.wall_s is None
    return replace(session, wall_s=wall_s, timed_s=timed_s) if killed else session


def load_run(run_dir: Path, derived_dir: Path | None = None) -> Run:
    """The run of a folder.

    Args:
        run_dir: folder of its plan and measurements.
        derived_dir: folder of its calibration and predictions; default: `run_dir`.

    Raises:
        RecordsError: a file is bad or missing.
        ReportError: the folder has no environment, or the calibration of something else.
    """
    environments = read_records(run_dir / "environment.jsonl", Environment)
    if not environments:
        raise ReportError(f"{run_dir}/environment.jsonl: no Environment record; measure again")
    derived = derived_dir or run_dir
    plans = {path.name.split(".")[0]: path for path in _plan_files(run_dir)}
    ops = tuple(op.name for op in OPS if op.name in plans)
    sessions = (_records_of(Session, _measured_rows(run_dir, op)) for op in ops)
    calibration = _calibration(derived, environments[0])
    outdated = tuple(other_equations(calibration)) if calibration else ()
    return Run(
        folder=run_dir,
        derived=derived,
        origin="published" if any(p.suffix == ".gz" for p in plans.values()) else "measured",
        environment=environments[0],
        calibration=calibration and _without_ops(calibration, outdated),
        outdated=outdated,
        ops=ops,
        measured_utc=max((s.started_utc for rows in sessions for s in islice(rows, 1)), default=""),
    )


def _plan_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "plan").glob("*.jsonl*") if not path.name.startswith(".")]


def _calibration(derived: Path, environment: Environment) -> Calibration | None:
    calibration = next(_records_of(Calibration, _read(derived, "calibration")), None)
    if calibration is None:
        return None
    owner = (calibration.device, calibration.environment_id)
    if owner != (environment.device, environment.environment_id):
        raise ReportError(
            f"{derived}/calibration.jsonl is of {' in '.join(owner)}, the run is of "
            f"{environment.device} in {environment.environment_id}; calibrate this run"
        )
    return calibration


def _without_ops(calibration: Calibration, ops: tuple[str, ...]) -> Calibration:
    """A calibration without constants, errors and spans of probes of these ops."""

    def of_others(values: Mapping[str, V]) -> dict[str, V]:
        return {name: v for name, v in values.items() if name.partition(".")[0] not in ops}

    return replace(
        calibration,
        constants=of_others(calibration.constants),
        probe_errors=of_others(calibration.probe_errors),
        probe_spans=of_others(calibration.probe_spans),
    )


def _read_plan(folder: Path, op: str) -> list[PlanPoint]:
    """The plan of an op; [] without a file."""
    run = RunFolder.at(folder)
    return read_plan(run, op, point_problem) if run.plan_file(op).is_file() else []


def _measured_rows(folder: Path, op: str) -> Iterator[Record]:
    """Sessions and rows of an op; of an interrupted one, what its last session could reuse."""
    rows = _read(folder, f"measurements/{op}")
    if (first := next(rows, None)) is not None:
        yield from chain([first], rows)
        return
    journal = RunFolder.at(folder).journal_file(op)
    records = salvage_records(journal)[0] if journal.is_file() else []
    sessions = {s.session_id: s for s in _records_of(Session, records)}
    if not sessions:
        return
    visits = sorted(reusable_visits(records, [*sessions.values()][-1]).items())
    yield from sessions.values()
    for _, lines in groupby(visits, key=lambda visit: visit[0][0]):
        yield merged_visits([line for _, line in lines])


def _read(folder: Path, name: str) -> Iterator[Record]:
    """Records of `name`.jsonl or `name`.jsonl.gz one by one; none without either file."""
    paths = (folder / f"{name}{suffix}" for suffix in (".jsonl", ".jsonl.gz"))
    path = next((path for path in paths if path.is_file()), None)
    return iter_records(path) if path else iter(())


def _records_of(kind: type[R], records: Iterable[Record]) -> Iterator[R]:
    return (record for record in records if isinstance(record, kind))
