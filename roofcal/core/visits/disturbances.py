"""What shows that a run was disturbed: a sentinel that moves, and work of other processes."""

from collections.abc import Iterable
from typing import Final

from roofcal.core.machine.cores import BUSY_CPU, BUSY_HOST
from roofcal.core.records import Measurement, Session
from roofcal.core.statistics import summarise
from roofcal.core.visits.rows import split_visits

# Most that a sentinel may drift in a session, and that half an interval may be.
DISTURBED: Final = 0.1


def drift_texts(op: str, drift: float) -> list[str]:
    """A sentence where the sentinels of an op moved too far within a session, else none.

    drift: slowest over fastest repetition of a sentinel in one session, minus 1.
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


def largest_drift(sentinels: Iterable[Measurement]) -> float:
    """Slowest over fastest repetition in one session, minus 1, of the sentinel that moved most.

    sentinels: their rows, with all visits. 0 where none was repeated.
    """
    drifts = [0.0]
    for row in sentinels:
        medians: dict[str, list[float]] = {}
        for visit in split_visits(row):
            if visit.settled_samples_s:
                median = summarise(visit.settled_samples_s).median
                medians.setdefault(visit.session_id, []).append(median)
        drifts += [max(times) / min(times) - 1 for times in medians.values()]
    return max(drifts)
