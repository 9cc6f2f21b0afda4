"""The states of a point: groups of its visits whose times differ by more than visits scatter."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

STATE_FACTOR: Final = 1.05  # visits further apart than this factor are states, not scatter


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
    parts = _parts_within_factor(sorted(medians_s))
    return tuple(VisitState(seconds=median(part), visits=len(part)) for part in parts)


def _parts_within_factor(ordered: list[float]) -> list[list[float]]:
    if not ordered:
        return []
    if ordered[-1] <= STATE_FACTOR * ordered[0]:
        return [ordered]
    gaps = [high / low for low, high in pairwise(ordered)]
    cut = gaps.index(max(gaps)) + 1
    return [*_parts_within_factor(ordered[:cut]), *_parts_within_factor(ordered[cut:])]
