"""A run folder as the report reads it: one op at a time, so that memory holds one op's samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from roofcal.core.jsonl import R, read_records
from roofcal.core.records import (
    Calibration,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Record,
    Session,
)
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.spec import OpSpec


class ReportError(ValueError):
    """A run that cannot be reported; the message names the file and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRecords:
    """All records of one op of a run.

    measurements  by point_id; a point without one was planned and never reached
    predictions   model -> point_id -> prediction
    """

    op: OpSpec
    points: tuple[PlanPoint, ...]
    sessions: tuple[Session, ...]
    measurements: Mapping[str, Measurement]
    predictions: Mapping[str, Mapping[str, Prediction]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One device in one environment, as its folder has it.

    folder   plan and measurements
    derived  calibration and predictions; the same folder unless the run is replayed
    origin   published: frozen below reports/published; measured: of this machine or this cluster
    ops      ops with a plan, in the order of roofcal.ops.OPS
    """

    folder: Path
    derived: Path
    origin: Literal["measured", "published"]
    environment: Environment
    calibration: Calibration | None
    ops: tuple[str, ...]

    def read(self, op: str) -> OpRecords:
        """The records of one op; an op without a file has no records. Raises RecordsError."""
        rows = _read(self.folder, f"measurements/{op}")
        predictions: dict[str, dict[str, Prediction]] = {}
        for record in _records_of(Prediction, _read(self.derived, f"predictions/{op}")):
            predictions.setdefault(record.model, {})[record.point_id] = record
        return OpRecords(
            op=BY_NAME[op],
            points=tuple(_records_of(PlanPoint, _read(self.folder, f"plan/{op}"))),
            sessions=tuple(_with_duration(s, rows) for s in _records_of(Session, rows)),
            measurements={row.point_id: row for row in _records_of(Measurement, rows)},
            predictions=predictions,
        )


def _with_duration(session: Session, rows: Sequence[Record]) -> Session:
    """A session with its wall and timed seconds; those of a killed session come from its rows.

    What it did after its last row is lost, so its wall time is a lower bound.
    """
    if session.wall_s is not None:
        return session
    own = [m for m in _records_of(Measurement, rows) if m.session_id == session.session_id]
    wall = max((m.started_s + m.elapsed_s for m in own), default=0.0)
    timed = sum(sum(m.latency_samples_s) * m.calls_per_sample for m in own)
    return replace(session, wall_s=wall, timed_s=timed)


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
    return Run(
        folder=run_dir,
        derived=derived,
        origin="published" if any(p.suffix == ".gz" for p in plans.values()) else "measured",
        environment=environments[0],
        calibration=_calibration(derived, environments[0]),
        ops=tuple(op.name for op in OPS if op.name in plans),
    )


def _plan_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "plan").glob("*.jsonl*") if not path.name.startswith(".")]


def _calibration(derived: Path, environment: Environment) -> Calibration | None:
    calibrations = _records_of(Calibration, _read(derived, "calibration"))
    if not calibrations:
        return None
    calibration = calibrations[0]
    owner = (calibration.device, calibration.environment_id)
    if owner != (environment.device, environment.environment_id):
        raise ReportError(
            f"{derived}/calibration.jsonl is of {' in '.join(owner)}, the run is of "
            f"{environment.device} in {environment.environment_id}; calibrate this run"
        )
    return calibration


def _read(folder: Path, name: str) -> Sequence[Record]:
    """Records of `name`.jsonl or `name`.jsonl.gz, [] without either file."""
    for suffix in (".jsonl", ".jsonl.gz"):
        path = folder / f"{name}{suffix}"
        if path.is_file():
            return read_records(path)
    return []


def _records_of(kind: type[R], records: Iterable[Record]) -> list[R]:
    return [record for record in records if isinstance(record, kind)]
