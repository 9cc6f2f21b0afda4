"""Which points of a plan are visited in which pass, and which of them once more.

A visit takes a point anew: memory allocated, warmed up and timed. Allocations and states of the
card show between visits alone (on an H200 one allocation in ten is 7 % off, in all samples alike).
So each pass visits every point, in another order; points whose visits disagree get more.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, takewhile
from statistics import stdev

from roofcal.core.records import VISITED_ONCE, Measurement, PlanPoint
from roofcal.core.statistics import summarise
from roofcal.core.timing_protocol import Timing
from roofcal.core.visits.rows import VisitKey, is_sentinel, merged_visits

TOO_FEW = "too few devices"
_WORTH_RESUMING = 0.1  # of the time of further visits


class Visits:
    """The visits that the points of a plan have, and those that they still need.

    lines  by point and number of the visit, those of earlier sessions among them
    here   how many devices there are: a point that lacked devices is tried where there are enough
    """

    def __init__(
        self,
        points: Sequence[PlanPoint],
        timing: Timing,
        here: int,
        lines: Mapping[VisitKey, Measurement],
    ) -> None:
        self.points = points
        self.timing, self.here = timing, here
        self._lines = dict(lines)

    def of_point(self, point: PlanPoint | Measurement) -> list[Measurement]:
        """The visits of a point, in the order of their numbers."""
        keys = ((point.point_id, number) for number in count())
        return [self._lines[key] for key in takewhile(self._lines.__contains__, keys)]

    def add(self, measurement: Measurement) -> Measurement:
        """Note a visit that was just made; return its line, with its number.

        A visit of a point whose first visit failed replaces that one: no second visit is added.
        """
        lines = self.of_point(measurement)
        number = len(lines) if lines and lines[0].status == "ok" else 0
        line = replace(measurement, visit=number)
        self._lines[line.point_id, number] = line
        return line

    def rows(self) -> list[Measurement]:
        """The merged visits of every point, in the order of the plan."""
        return [merged_visits(self.of_point(point)) for point in self.points]

    def missing(self) -> list[PlanPoint]:
        """Points that lack a visit, once for each, by passes; sentinels that lack their first."""
        panel = [point for point in self.points if is_sentinel(point) and not self.of_point(point)]
        passes = (self.missing_in(number) for number in range(self.timing.visits))
        return [*panel, *(point for points in passes for point in points)]

    def missing_in(self, number: int) -> list[PlanPoint]:
        """Points that lack visit `number` of a pass over the plan."""
        return [
            point for point in self.points if not is_sentinel(point) and self._lacks(point, number)
        ]

    def _lacks(self, point: PlanPoint, number: int) -> bool:
        lines = self.of_point(point)
        if number:
            is_repeated = point.protocol.method not in VISITED_ONCE
            return is_repeated and len(lines) <= number and bool(lines) and lines[0].status == "ok"
        if not lines:
            return True
        lacked = lines[0].status == "unsupported" and str(lines[0].reason).startswith(TOO_FEW)
        return lacked and point.world_size <= self.here

    def panel(self) -> list[PlanPoint]:
        """The sentinels, but those that failed when they were measured first."""
        panel = (point for point in self.points if is_sentinel(point))
        return [p for p in panel if not (lines := self.of_point(p)) or lines[0].status == "ok"]

    def to_visit(self) -> list[PlanPoint]:
        """Points that a session has to visit: those missing, else what a killed one was resuming.

        A session may end during its further visits. The next one makes what is left of them, if
        that is more than a tenth: natural ends do not lie on the second.
        """
        if missing := self.missing():
            return missing
        passes_s, further_s = self.seconds_spent()
        most_s = self.timing.more_visits * passes_s
        if most_s - further_s <= _WORTH_RESUMING * most_s:
            return []
        return [point for group in self.disagreeing_groups() for point in group]

    def seconds_spent(self) -> tuple[float, float]:
        """Seconds of the passes, and of further visits, by the lines that there are."""
        of_passes: dict[str, float] = {}
        ends: dict[str, float] = {}
        for (_, number), line in self._lines.items():
            end = line.started_s + line.elapsed_s
            ends[line.session_id] = max(end, ends.get(line.session_id, 0.0))
            if number < self.timing.visits:
                of_passes[line.session_id] = max(end, of_passes.get(line.session_id, 0.0))
        passes_s = sum(of_passes.values())
        return passes_s, sum(ends.values()) - passes_s

    def disagreeing_groups(self) -> list[list[PlanPoint]]:
        """Groups that one more visit helps, those with the points that disagree most first.

        Kalibera and Jones (Rigorous Benchmarking in Reasonable Time, ISMM 2013): repeat at the
        level where the variance arises. It arises between visits where these lie further apart than
        the intervals of their own samples explain; then another visit is made until the standard
        error of their mean is at most `visit_tolerance`, or there are `most_visits`.

        Groups are whole, because contenders compare only where they took turns; but a point of
        which a visit failed is visited no more.
        """
        points = [point for point in self.points if not is_sentinel(point)]
        errors: dict[str, float] = {}  # by group: of its point that disagrees most
        for point in points:
            lines, key = self.of_point(point), point.group_key
            if len(lines) < self.timing.most_visits:
                errors[key] = max(disagreement(lines), errors.get(key, 0.0))
        fine = [p for p in points if all(line.status == "ok" for line in self.of_point(p))]
        return [
            [point for point in fine if point.group_key == key]
            for key in sorted(errors, key=lambda key: -errors[key])
            if errors[key] > self.timing.visit_tolerance
        ]


def disagreement(lines: Sequence[Measurement]) -> float:
    """Standard error of the mean of visits, a fraction of it; 0 where their own samples explain it.

    Own samples explain visits whose furthest two medians lie within the root of the sum of squares
    of their half intervals. A visit that failed counts as none; after it no further one is made.
    """
    timed = [line.settled_samples_s for line in lines if line.status == "ok"]
    summaries = sorted(map(summarise, filter(None, timed)), key=lambda summary: summary.median)
    if len(summaries) < max(2, len(lines)):
        return 0.0
    low, high = summaries[0], summaries[-1]
    own = math.hypot(*((s.ci95_high - s.ci95_low) / 2 / s.median for s in (low, high)))
    logs = [math.log(summary.median) for summary in summaries]
    return stdev(logs) / math.sqrt(len(logs)) if logs[-1] - logs[0] > own else 0.0
