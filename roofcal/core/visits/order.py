"""Groups of points that are timed in turns, and their order within a pass over a plan."""

import random
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from roofcal.core.records import PlanPoint

SENTINEL: Final = "sentinel"  # the sweep of points that are measured again and again


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
