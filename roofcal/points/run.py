"""An open run folder: its environment and calibration, and the table of each op."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeVar

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import age_key, is_calibrated, origin_environment
from roofcal.core.jsonl import R, iter_records, read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, Environment, Prediction
from roofcal.core.statistics import sqnr_db
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.constants import other_equations, predicted_with
from roofcal.points.columns import ENERGY, RARE, Column, Known, columns_of, columns_of_models
from roofcal.points.reader import Points, measured_sessions, read_points, with_intervals, with_made
from roofcal.points.roofs import CalibratedRoof
from roofcal.points.tables import sqnr_column

V = TypeVar("V")
_ERRORS: Final = Column("output_errors", "object", lambda p: p.row.output_errors or {})


class RunError(ValueError):
    """A run folder that cannot be opened; the message names the file and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One device in one environment, as its folder has it.

    files         plan and measurements, calibration and predictions; see RunFolder
    origin        published: frozen below reports/published; measured: of this machine or cluster
    outdated      ops whose constants are of another equation than this roofcal has (see
                  roofcal.ops.constants): whatever follows from these constants is left out, of
                  `calibration`, of predictions and of derived tables
    ops           ops with a plan, in the order of roofcal.ops.OPS
    measured_utc  when the session that begins the file of an op began, the latest of all ops; ''
                  without any
    """

    files: RunFolder
    origin: Literal["measured", "published"]
    environment: Environment
    calibration: Calibration | None
    outdated: tuple[str, ...] = ()
    ops: tuple[str, ...]
    measured_utc: str

    @property
    def folder(self) -> Path:
        """The folder of plan and measurements."""
        return self.files.folder

    @property
    def derived(self) -> Path:
        """The folder of calibration and predictions; the same unless the run is replayed."""
        return self.files.derived

    @property
    def age_key(self) -> tuple[list[tuple[int, str]], str]:
        """Sorts the runs of a device from the oldest to the newest; see environments.age_key."""
        return age_key(self.environment.environment_id, self.measured_utc)

    def points(self, op: str, spec: DeviceSpec | None = None) -> Points:
        """The table of an op, with one row per planned point, in the order of the plan.

        A sentinel has a row for each of its visits. Columns that need a calibration, predictions or
        a datasheet are empty without it. An op whose measuring was interrupted has the visits of
        its journal; an op without a plan has no rows.

        Raises:
            RecordsError: a file of the run is bad.
            KeyError: there is no such op.
        """
        known = Known(
            power_limit_w=self.environment.power_limit_w,
            spec=spec,
            roof=CalibratedRoof(self.calibration),
            predictions=self._predictions(op),
        )
        declared = columns_of(BY_NAME[op])
        names = {column.name for column in declared}
        others = [c for c in columns_of_models(known.predictions) if c.name not in names]
        columns = [*declared, *RARE, *others, _ERRORS]
        table, sessions = read_points(self.files, op, columns, known, for_tables=True)
        table = with_made(with_intervals(table, sessions, of_sentinels=True), declared)
        errors = table[_ERRORS.name]
        outputs = dict.fromkeys(name for of_point in errors for name in of_point)
        for name in outputs:
            decibels = [sqnr_db(e[name]) if name in e else None for e in errors]
            table[sqnr_column(name)] = pd.Series(decibels, dtype="float64")
        rare = [column.name for column in RARE if table[column.where].notna().any()]
        energy = [c for c in ENERGY if c.where in table] if "board_w" in rare else []
        shown = [column.name for column in declared] + [*map(sqnr_column, outputs), *rare]
        shown += [column.name for column in (*others, *energy)]
        return Points(with_made(table, energy)[shown], sessions)

    def _predictions(self, op: str) -> dict[str, dict[str, Prediction]]:
        """Model -> point_id -> prediction, without those by outdated constants."""
        is_outdated = op in predicted_with(self.outdated)
        predictions: dict[str, dict[str, Prediction]] = {}
        for record in _records_of(Prediction, self.files.predictions_file(op)):
            if not (is_outdated and is_calibrated(record.model)):
                predictions.setdefault(record.model, {})[record.point_id] = record
        return predictions

    def origins(self) -> list[str]:
        """Environments whose constants predicted points of this run beside its own constants."""
        files = (self.files.predictions_file(op) for op in self.ops)
        records = (record for file in files for record in _records_of(Prediction, file))
        return sorted({origin for r in records if (origin := origin_environment(r.model))})


def load_run(run_dir: Path, derived_dir: Path | None = None) -> Run:
    """The run of a folder.

    Args:
        run_dir: folder of its plan and measurements.
        derived_dir: folder of its calibration and predictions; default: `run_dir`.

    Raises:
        RecordsError: a file is bad or missing.
        RunError: the folder has the calibration of something else.
    """
    files = RunFolder.at(run_dir, derived_dir)
    environment = read_single_record(files.environment_file, Environment)
    planned = files.planned_ops()
    ops = tuple(op.name for op in OPS if op.name in planned)
    firsts = (islice(measured_sessions(files, op), 1) for op in ops)
    calibration = next(_records_of(Calibration, files.calibration_file), None)
    own = (environment.device, environment.environment_id)
    if calibration and (owner := (calibration.device, calibration.environment_id)) != own:
        raise RunError(
            f"{files.calibration_file} is of {' in '.join(owner)}, the run is of "
            f"{' in '.join(own)}; calibrate this run"
        )
    outdated = tuple(other_equations(calibration)) if calibration else ()
    is_packed = any(files.plan_file(op).suffix == ".gz" for op in planned)
    return Run(
        files=files,
        origin="published" if is_packed else "measured",
        environment=environment,
        calibration=calibration and _without_ops(calibration, outdated),
        outdated=outdated,
        ops=ops,
        measured_utc=max(
            (session.started_utc for of_op in firsts for session in of_op), default=""
        ),
    )


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


def _records_of(kind: type[R], path: Path) -> Iterator[R]:
    """The records of a kind in a file, one by one; none without the file."""
    records = iter_records(path) if path.is_file() else iter(())
    return (record for record in records if isinstance(record, kind))
