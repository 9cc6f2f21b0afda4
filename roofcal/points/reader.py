"""The one reader of records: plan and measurements of an op -> a table with one row per point.

Files are read line by line, so that memory holds the samples of one point.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

import pandas as pd

from roofcal.core.jsonl import iter_records, read_plan, salvage_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Measurement, PlanPoint, Record, Session
from roofcal.core.visits.intervals import (
    VisitTime,
    cards_by_session,
    point_intervals,
    sentinel_medians,
)
from roofcal.core.visits.rows import is_sentinel, merged_visits, reusable_visits, split_visits
from roofcal.ops import BY_NAME, point_problem, regimes
from roofcal.points.columns import (
    INTERVAL,
    POINT,
    SENTINEL_MEDIANS,
    VISIT_TIMES,
    Column,
    Known,
    SeenPoint,
)

NOT_REACHED: Final = "not_reached"  # the status of a point that is planned and has no row
RECORDED: Final = "recorded"  # the place of a row among those of its file; -1 without one
_UNMEASURED: Final = Measurement(
    point_id="",
    environment_id="",
    session_id="",
    status=NOT_REACHED,  # type: ignore[arg-type]  # of tables alone, no record has it
    reason="planned, and not measured yet: the session ended before",
)
_ALWAYS: Final = (
    Column(POINT, "object", lambda p: p.point),
    Column(VISIT_TIMES, "object", lambda p: p.visit_times),
    Column(RECORDED, "count", lambda p: p.recorded),
)


class Points(NamedTuple):
    """The table of an op, and the sessions that measured it."""

    table: pd.DataFrame
    sessions: list[Session]


def read_points(
    run: RunFolder,
    op: str,
    columns: Sequence[Column] = (),
    known: Known | None = None,
    *,
    for_tables: bool = False,
) -> Points:
    """The table of one op of a run, with one row per planned point, in the order of the plan.

    Empty where the run does not plan the op. Columns that are made of others are not in it: see
    `with_intervals` and `with_made`.

    Args:
        run: the folder.
        op: its name.
        columns: what to read of each point, beside POINT, VISIT_TIMES, SENTINEL_MEDIANS and
            RECORDED.
        known: what columns may ask beside the records of measurements.
        for_tables: a sentinel with several visits has a row for each of them, and an op without
            measurements has what an interrupted session left.

    Raises:
        RecordsError: a file is bad.
    """
    points = read_plan(run, op, point_problem) if run.plan_file(op).is_file() else []
    records = _measured_records(run, op, is_unfinished=for_tables)
    return points_of_records(op, points, records, columns, known, by_visit=for_tables)


def points_of_records(
    op: str,
    points: Sequence[PlanPoint],
    records: Iterable[Record],
    columns: Sequence[Column] = (),
    known: Known | None = None,
    *,
    by_visit: bool = False,
) -> Points:
    """As `read_points`, of a plan and of sessions and measurements that were read."""
    planned = {point.point_id: point for point in points}
    common = partial(SeenPoint, op=BY_NAME[op], known=known or Known())
    read_columns = [*_ALWAYS, *(column for column in columns if column.of)]
    sessions: list[Session] = []
    seconds: dict[str, tuple[float, float]] = {}
    rows: dict[str, list[list[Any]]] = {}
    for place, record in enumerate(records):
        if isinstance(record, Session):
            sessions.append(record)
        elif isinstance(record, Measurement):
            if any(session.wall_s is None for session in sessions):
                _add_seconds(seconds, record)
            if (point := planned.get(record.point_id)) is not None:
                seen = [common(point=point, row=record, recorded=place)]
                if by_visit and record.visits and is_sentinel(point):
                    visits = enumerate(split_visits(record), start=1)
                    seen = [replace(seen[0], row=row, visit_number=n) for n, row in visits]
                rows[record.point_id] = [_values(of_visit, read_columns) for of_visit in seen]
    for point_id, point in planned.items():
        if point_id not in rows:
            seen_point = common(point=point, row=replace(_UNMEASURED, point_id=point_id))
            rows[point_id] = [_values(seen_point, read_columns)]
    every = [row for point_id in planned for row in rows[point_id]]
    columns_of_values = zip(*every, strict=True) if every else [()] * len(read_columns)
    table = pd.DataFrame(
        {c.name: _series(c, v) for c, v in zip(read_columns, columns_of_values, strict=True)}
    )
    by_id: dict[str, list[VisitTime]] = {}
    ids = [point_id for point_id in planned for _ in rows[point_id]]
    for point_id, of_row in zip(ids, table[VISIT_TIMES], strict=True):
        by_id.setdefault(point_id, []).extend(of_row)
    medians = sentinel_medians(points, by_id)
    table[SENTINEL_MEDIANS] = pd.Series([medians.get(i, ()) for i in ids], dtype="object")
    # A killed session has the seconds of its rows. What it did after the last is lost, so its wall
    # time is a lower bound.
    for place, session in enumerate(sessions):
        if session.wall_s is None:
            wall_s, timed_s = seconds.get(session.session_id, (0, 0))
            sessions[place] = replace(session, wall_s=wall_s, timed_s=timed_s)
    return Points(table, sessions)


def measured_sessions(run: RunFolder, op: str) -> Iterator[Session]:
    """The sessions of an op one by one; of an interrupted one, those of its journal."""
    records = _measured_records(run, op, is_unfinished=True)
    return (record for record in records if isinstance(record, Session))


def _values(seen: SeenPoint, columns: Iterable[Column]) -> list[Any]:
    return [column.of(seen) for column in columns if column.of]


def _series(column: Column, values: Sequence[Any]) -> "pd.Series[Any]":
    dtype = {"number": "float64", "count": "int64"}.get(column.kind, "object")
    return pd.Series(values, dtype=dtype)


def with_intervals(
    table: pd.DataFrame, sessions: Iterable[Session], *, of_sentinels: bool
) -> pd.DataFrame:
    """A table of `read_points` and INTERVAL: the time of each row, from its visits.

    How visits scatter is learned from all rows of a regime, so an interval depends on the other
    rows.

    of_sentinels: whether an interval holds the times of the sentinel that is the same point.
    """
    intervals = point_intervals(
        list(table[VISIT_TIMES]),
        cards_by_session(list(sessions)),
        regimes(table[POINT]),
        list(table[SENTINEL_MEDIANS]) if of_sentinels else None,
    )
    return table.assign(**{INTERVAL: pd.Series(intervals, index=table.index, dtype="object")})


def with_made(table: pd.DataFrame, columns: Iterable[Column]) -> pd.DataFrame:
    """A table and those columns that are made of others, of a table with INTERVAL."""
    extended = table.copy(deep=False)
    for column in columns:
        if column.over:
            values = _series(column, list(column.over(extended)))
            extended[column.name] = values.set_axis(extended.index)
    return extended


def _add_seconds(seconds: dict[str, tuple[float, float]], row: Measurement) -> None:
    """Adds a row to the wall and the timed seconds of its sessions."""
    for visit in split_visits(row):
        wall, timed = seconds.get(visit.session_id, (0.0, 0.0))
        timed += sum(visit.latency_samples_s) * visit.calls_per_sample
        seconds[visit.session_id] = max(wall, visit.started_s + visit.elapsed_s), timed


def _measured_records(run: RunFolder, op: str, *, is_unfinished: bool) -> Iterator[Record]:
    """Sessions and rows of an op; of an interrupted one, what its last session could reuse."""
    file = run.measurements_file(op)
    rows = iter_records(file) if file.is_file() else iter(())
    if (first := next(rows, None)) is not None:
        yield from chain([first], rows)
        return
    journal = run.journal_file(op)
    records = salvage_records(journal)[0] if is_unfinished and journal.is_file() else []
    sessions = {r.session_id: r for r in records if isinstance(r, Session)}
    if not sessions:
        return
    visits = sorted(reusable_visits(records, [*sessions.values()][-1]).items())
    yield from sessions.values()
    for _, lines in groupby(visits, key=lambda visit: visit[0][0]):
        yield merged_visits([line for _, line in lines])
