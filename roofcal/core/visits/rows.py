"""Visits to points: in which order they are made, which a session takes over, how they become rows.

A row holds all visits of its point. Visits that differ by more than visits scatter show several
states; sentinels that move, and work of other processes, show that a run was disturbed.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from statistics import median, median_low
from typing import Any, Final

from roofcal.core.machine.cores import BUSY_CPU, BUSY_HOST
from roofcal.core.records import Measurement, PlanPoint, Record, Session, Telemetry, Visit

SENTINEL: Final = "sentinel"  # the sweep of points that are measured again and again
STATE_FACTOR: Final = 1.05  # visits further apart than this factor are states, not scatter
# Most that a sentinel may drift in a session, and that half an interval may be.
DISTURBED: Final = 0.1
# Keys of the timing protocol that bound a session and its visits, and do not say how one is timed.
_OF_SESSIONS: Final = frozenset(
    ("visits", "most_visits", "more_visits", "visit_tolerance", "warm_card_s", "point_timeout_s")
)
VisitKey = tuple[str, int]  # point id, number of the visit


def is_sentinel(point: PlanPoint) -> bool:
    """Whether a point is of the panel that is measured at start, middle and end of a session."""
    return SENTINEL in point.sweeps


def groups_of(points: Iterable[PlanPoint]) -> list[list[PlanPoint]]:
    """Points that stand together and are timed in turns, in the order of the points."""
    return [list(members) for _, members in groupby(points, key=lambda point: point.group_key)]


def shuffled_groups(points: Iterable[PlanPoint], seed: int | str) -> list[list[PlanPoint]]:
    """Groups in a seeded random order.

    Methods that may slow what runs after them (a profiler) come last, and groups on equally many
    devices follow each other, because every other number of devices needs other processes.
    """
    groups = groups_of(sorted(points, key=lambda point: point.group_key))
    random.Random(seed).shuffle(groups)
    groups.sort(key=lambda group: (group[0].protocol.method == "profiler", group[0].world_size))
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitState:
    """A state of a point: the median over the times of its visits in s, and how many there are."""

    seconds: float
    visits: int


def states_of_visits(medians_s: Iterable[float]) -> tuple[VisitState, ...]:
    """The states that the visits of a point were in, the fastest first; () for no visit.

    Visits within 5 % of one another are in one state. Others are cut at the widest gap between
    neighbouring times, and each part again, until the visits of every part are within 5 %.

    Args:
        medians_s: the median time of each visit in s, in any order.
    """

    def parts(ordered: list[float]) -> list[list[float]]:
        if not ordered or ordered[-1] <= STATE_FACTOR * ordered[0]:
            return [ordered] if ordered else []
        gaps = [high / low for low, high in pairwise(ordered)]
        cut = gaps.index(max(gaps)) + 1
        return [*parts(ordered[:cut]), *parts(ordered[cut:])]

    states = parts(sorted(medians_s))
    return tuple(VisitState(seconds=median(state), visits=len(state)) for state in states)


def reusable_visits(
    records: Iterable[Record], session: Session, retry: Collection[str] = ()
) -> dict[VisitKey, Measurement]:
    """The latest line of each visit that `session` need not make again.

    It was taken in the same environment, by the same code and timing protocol, and its status is
    none of `retry`.
    """
    records = list(records)
    basis = _basis(session)
    same = {r.session_id for r in records if isinstance(r, Session) and _basis(r) == basis}
    latest = {
        (record.point_id, record.visit): record
        for record in records
        if isinstance(record, Measurement) and record.session_id in same
    }
    return {key: m for key, m in latest.items() if m.status not in retry}


def _basis(session: Session) -> tuple[str, str, Mapping[str, Any]]:
    """What a measurement depends on; point_timeout_s is not part of it, see --retry."""
    timing = {key: value for key, value in session.timing.items() if key not in _OF_SESSIONS}
    return session.environment_id, session.code_hash, timing


def merged_visits(visits: Sequence[Measurement]) -> Measurement:
    """The row of a point: its visits that are ok, one after the other.

    A point that was visited once, and one of which no visit is ok, has its first line as its row.
    A visit that failed after others were ok, one that launched other kernels, and visits that lie
    more than 5 % apart are named in the reason of the row. Fields with one number for all visits
    have that of the first visit, except the error of the output (the largest) and the medians of
    ranks (their median over visits).

    Args:
        visits: lines of a journal of one point, in the order of their numbers; at least one.
    """
    timed = [visit for visit in visits if visit.status == "ok" and visit.latency_samples_s]
    if len(visits) == 1 or not timed:
        return visits[0]
    first = timed[0]
    firsts = list(accumulate((len(v.latency_samples_s) for v in timed[:-1]), initial=0))
    timed = [_moved(v, offset) for v, offset in zip(timed, firsts, strict=True)]

    def of_all(name: str) -> tuple[Any, ...]:
        """The values of a field of all visits, one behind the other."""
        return tuple(value for v in timed for value in getattr(v, name))

    errors = [v.relative_error for v in timed if v.relative_error is not None]
    unsettled = any(visit.unsettled_samples for visit in timed)
    readings = {
        name: tuple(reading for v in timed for reading in getattr(v.telemetry, name))
        for name in Telemetry.__slots__
    }
    return replace(
        first,
        visit=0,
        reason="; ".join(_remarks(visits, first)) or None,
        latency_samples_s=of_all("latency_samples_s"),
        slice_starts=of_all("slice_starts"),
        unsettled_samples=tuple(
            count
            for v in timed
            for count in (v.unsettled_samples or (0,) * len(v.slice_starts))
            if unsettled
        ),
        visits=tuple(
            Visit(
                first_sample=offset,
                warmup_samples=v.warmup_samples,
                session_id=v.session_id,
                started_s=v.started_s,
                elapsed_s=v.elapsed_s,
            )
            for v, offset in zip(timed, firsts, strict=True)
        ),
        relative_error=max(errors) if errors else None,
        telemetry=Telemetry(**readings),
        kernel_names=tuple(dict.fromkeys(of_all("kernel_names"))),
        elapsed_s=sum(v.elapsed_s for v in timed),
        fastest_rank_s=of_all("fastest_rank_s"),
        energy_windows=of_all("energy_windows"),
        rank_medians_s=tuple(
            median(medians) for medians in zip(*(v.rank_medians_s for v in timed), strict=True)
        ),
    )


def _moved(visit: Measurement, by: int) -> Measurement:
    """A visit whose samples stand so many places further on in the lists that hold them."""
    indices = tuple(index + by for index in visit.telemetry.sample_index)
    return replace(
        visit,
        slice_starts=tuple(start + by for start in visit.slice_starts),
        telemetry=replace(visit.telemetry, sample_index=indices),
    )


def _remarks(visits: Sequence[Measurement], first: Measurement) -> Sequence[str]:
    """What the reason of a row says about the visits that differ from the first."""
    remarks = [] if first.reason is None else [first.reason]
    for visit in visits:
        name = f"visit {visit.visit + 1} of {len(visits)}"
        if visit.status != "ok":
            remarks.append(f"{name}: {visit.status}: {visit.reason}")
        elif set(visit.kernel_names) != set(first.kernel_names):
            remarks.append(f"{name} launched other kernels: {', '.join(visit.kernel_names)}")
    medians = [
        median(v.settled_samples_s) for v in visits if v.status == "ok" and v.settled_samples_s
    ]
    if len(states_of_visits(medians)) > 1:
        states = ", ".join(f"{1e6 * seconds:.4g}" for seconds in medians)
        remarks.append(f"its visits are in different states, in us: {states}")
    return remarks


def split_visits(row: Measurement) -> list[Measurement]:
    """The visits of a row one by one, each as a row without visits; [row] where it holds none.

    Energy windows do not record their visit, so they stay with the row.
    """
    if not row.visits:
        return [row]
    ends = [*(visit.first_sample for visit in row.visits[1:]), len(row.latency_samples_s)]
    visits = []
    for visit, end in zip(row.visits, ends, strict=True):
        first = visit.first_sample
        turns = [i for i, start in enumerate(row.slice_starts) if first <= start < end]
        readings = [i for i, at in enumerate(row.telemetry.sample_index) if first <= at < end]
        telemetry = {
            name: tuple(getattr(row.telemetry, name)[i] for i in readings)
            for name in Telemetry.__slots__
        }
        unsettled = tuple(row.unsettled_samples[i] for i in turns if row.unsettled_samples)
        of_visit = replace(
            row,
            session_id=visit.session_id,
            visits=(),
            latency_samples_s=row.latency_samples_s[first:end],
            warmup_samples=visit.warmup_samples,
            slice_starts=tuple(row.slice_starts[i] for i in turns),
            unsettled_samples=unsettled,
            telemetry=Telemetry(**telemetry),
            started_s=visit.started_s,
            elapsed_s=visit.elapsed_s,
            fastest_rank_s=row.fastest_rank_s[first:end],
            energy_windows=(),
        )
        visits.append(_moved(of_visit, -first))
    return visits


def session_drift(times_of_sentinels: Iterable[Sequence[float]]) -> float:
    """By how much most of the sentinels of a session moved: slowest over fastest, minus 1.

    What disturbs a session slows most of what it repeats; one sentinel alone has another state. Of
    two products at the power limit of the published H100, measured in the same seconds of
    probe_math, one was 11.6 % slower in one visit of three, and the other 0.6 %. The lower median:
    of two both moved so far. 0 where nothing was repeated.

    times_of_sentinels: in seconds, of each sentinel in this session.
    """
    drifts = [max(times) / min(times) - 1 for times in times_of_sentinels if len(times) > 1]
    return median_low(drifts) if drifts else 0.0


def drift_texts(op: str, drift: float) -> list[str]:
    """A sentence where the sentinels of an op moved too far within a session, else none.

    drift: of the session that moved most, see `session_drift`.
    """
    moved = f"The repeated sentinel of {op} moved by {100 * drift:.1f} % in a session."
    return [moved] if drift > DISTURBED else []


def width_texts(op: str, half_width: float) -> list[str]:
    """A sentence where the times of an op are too uncertain to use, else none.

    half_width: median over points of half the 95 % interval over the median.
    """
    wide = f"Half of the times of {op} are uncertain by more than {100 * half_width:.1f} %."
    because = "The clock never settled, or other work disturbed it."
    return [f"{wide} {because}"] if half_width > DISTURBED else []


def load_texts(sessions: Iterable[Session], *, is_cpu: bool) -> list[str]:
    """A sentence for each kind of work of others that sessions saw, and for a CPU quota."""
    every = list(sessions)
    texts = []
    limit = BUSY_CPU if is_cpu else BUSY_HOST
    throttled = max((session.throttled_share or 0.0 for session in every), default=0.0)
    if throttled > limit:
        texts.append(throttled_text(throttled))
    busy = max((session.busy_share or 0.0 for session in every), default=0.0)
    if busy > limit:
        texts.append(f"Other processes kept {100 * busy:.0f} % of the processor cores busy.")
    processes = max((session.other_processes or 0 for session in every), default=0)
    if processes:
        noun = "other process" if processes == 1 else "other processes"
        texts.append(f"{processes} {noun} used the card.")
    return texts


def throttled_text(share: float) -> str:
    """A sentence on the share of periods in which a CPU quota stopped the threads that measure."""
    return f"The CPU quota of the container stopped its threads in {100 * share:.0f} % of periods."
