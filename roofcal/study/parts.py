"""The jobs of an op on a cluster, one per world size, and the file that their results become."""

from collections.abc import Sequence
from pathlib import Path

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement, PlanPoint, Session


class PartsError(ValueError):
    """Results of jobs that do not make up a plan; the message says what is missing."""


def join_measurements(plan: Path, parts: Sequence[Path], out: Path) -> None:
    """Write the results of jobs that shared out a plan as one job would have: sessions, then rows.

    Rows are in the order of the plan. Raises PartsError for points without a row, RecordsError for
    bad files, OSError where `out` cannot be written.
    """
    points = read_records(plan, PlanPoint)
    sessions: dict[str, Session] = {}
    row_of_point: dict[str, Measurement] = {}
    for part in parts:
        for record in read_records(part, Session, Measurement):
            if isinstance(record, Session):
                sessions[record.session_id] = record
            else:
                row_of_point[record.point_id] = record
    missing = [point for point in points if point.point_id not in row_of_point]
    if missing:
        files = ", ".join(map(str, parts))
        raise PartsError(
            f"{plan}: {len(missing)} of its points are in none of {files}, the first of world size "
            f"{missing[0].world_size}; delete these files and run the study again"
        )
    write_records(out, [*sessions.values(), *(row_of_point[point.point_id] for point in points)])
