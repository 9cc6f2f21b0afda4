"""Where a whole study stands, seen from the op that is being measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roofcal.core.jsonl import read_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import PlanPoint
from roofcal.ops.spec import Backend
from roofcal.ops.visit_times import SESSION_S, plan_seconds

_TRUSTED_S: Final = 120.0  # of this session: its pace weighs half against the known times


class StudyProgress:
    """Counts visits of the other ops of a study by their plans and their finished measurements."""

    def __init__(
        self, folder: Path, points: Sequence[PlanPoint], visits: int, backend: Backend, here: int
    ) -> None:
        """Begin with what this session measures.

        Args:
            folder: <device>/<environment_id>; a plan has a point per line. Plans of later ops may
                be written while this op is measured.
            points: of the op that is being measured.
            visits: of every point.
            backend: of the device.
            here: how many devices there are; points that share more cost no time.
        """
        self._run, self._op = RunFolder.at(folder), points[0].op
        self._visits, self._backend, self._here = visits, backend, here
        # Op -> visits of its points, and the seconds that they take as visit_times knows them.
        self._sizes = {self._op: self._size_of(points)}

    def _size_of(self, points: Sequence[PlanPoint]) -> tuple[int, float]:
        seconds = plan_seconds(points, self._backend, self._here, self._visits)
        return self._visits * len(points), seconds

    def text(self, done: int, total: int, seconds: float, timed_s: float) -> str:
        """Visits done and time left of the whole study, and the share that the device is busy.

        The time left is that of the op's points as they are known, times the pace of this session:
        a slow op says little of the others, and its first visits little of its own.

        Args:
            done: visits that this session made.
            total: visits that it is to make.
            seconds: since it began.
            timed_s: of which the device was timed.
        """
        if not done or seconds <= 0:
            return "study: starting"
        for op in self._run.planned_ops():  # those that are planned by now
            if op not in self._sizes:
                points = read_records(self._run.plan_file(op), PlanPoint)
                self._sizes[op] = self._size_of(points)
        finished = to_come = 0
        left_s = 0.0
        for op, (visits, known_s) in self._sizes.items():
            if op == self._op:
                own_s = known_s / visits
            elif self._run.measurements_file(op).is_file():
                finished += visits
            else:
                to_come += visits
                left_s += known_s + SESSION_S[self._backend]
        pace = (seconds + _TRUSTED_S) / (SESSION_S[self._backend] + own_s * done + _TRUSTED_S)
        left_s = pace * (left_s + own_s * (total - done))
        return (
            f"study {finished + done}/{finished + total + to_come}, "
            f"about {left_s / 60:.0f} min left, device busy {timed_s / seconds:.0%}"
        )
