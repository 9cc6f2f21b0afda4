"""The records of a run folder that a calibration may read: its environment and its probes."""

from pathlib import Path
from typing import Final

from roofcal.core.jsonl import read_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment
from roofcal.core.visits.disturbances import drift_texts, largest_drift, load_texts
from roofcal.core.visits.rows import is_sentinel
from roofcal.fitting.probes import CalibrationError, Probe
from roofcal.ops import BY_NAME
from roofcal.points.columns import INTERVAL, POINT, VISIT_TIMES, Column
from roofcal.points.reader import RECORDED, Points, read_points, with_intervals

_ROW: Final = Column("measurement", "object", lambda p: p.row)


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


def read_probe_points(run: Path, op: str) -> Points:
    """The table of a probe op, without rows where the run has none of it.

    Raises CalibrationError for an op that is no probe: a fit that has seen the points it is judged
    on says nothing. Raises RecordsError for a bad file.
    """
    if BY_NAME[op].role != "probe":
        raise CalibrationError(f"{op} is no probe op; a calibration is fitted on probes alone")
    return read_points(RunFolder.at(run), op, [_ROW])


def probes_of(points: Points) -> list[Probe]:
    """The points of a probe op that were timed, in the order of their records.

    Sentinels are none of them: they have the shapes of study points, on which fits are judged. The
    interval of a probe that is a sentinel, too, holds its repetitions.
    """
    table = points.table.sort_values(RECORDED)
    is_probe = table[VISIT_TIMES].map(bool) & ~table[POINT].map(is_sentinel).astype(bool)
    timed = with_intervals(table[is_probe], points.sessions, of_sentinels=True)
    columns = (timed[name] for name in (POINT, _ROW.name, INTERVAL))
    return [
        Probe(point=point, measurement=row, latency=interval)
        for point, row, interval in zip(*columns, strict=True)
    ]


def read_probes(run: Path, op: str) -> list[Probe]:
    """The probes of an op of a run folder; raises as read_probe_points."""
    return probes_of(read_probe_points(run, op))


def disturbances_of(points: Points, op: str, environment: Environment) -> list[str]:
    """What disturbed the sessions of a probe op, by its sentinels and the load of the machine."""
    sentinels = points.table[points.table[POINT].map(is_sentinel).astype(bool)]
    drift = largest_drift(sentinels[_ROW.name])
    load = load_texts(points.sessions, is_cpu=environment.vendor == "cpu")
    return [*drift_texts(op, drift), *load]
