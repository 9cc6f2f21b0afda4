"""Where a whole study stands, seen from the op that is being measured."""

from pathlib import Path

from roofcal.core.paths import RunFolder


class StudyProgress:
    """Counts visits of the other ops of a study by their plans and their finished measurements."""

    def __init__(self, folder: Path, op: str, visits: int) -> None:
        """Read the plans of a run folder.

        Args:
            folder: <device>/<environment_id>; a plan has a point per line.
            op: the one that is being measured. Others are finished where they have measurements.
            visits: of every point.
        """
        run = RunFolder.at(folder)
        self._finished, self._to_come = 0, 0
        for other in run.planned_ops():
            count = visits * len(run.plan_file(other).read_bytes().splitlines())
            if other == op:
                continue
            if run.measurements_file(other).is_file():
                self._finished += count
            else:
                self._to_come += count

    def text(self, done: int, total: int, seconds: float, timed_s: float) -> str:
        """Visits done and time left of the whole study, and the share that the device is busy.

        Args:
            done: visits that this session made.
            total: visits that it is to make.
            seconds: since it began; other ops are taken to go on at its pace.
            timed_s: of which the device was timed.
        """
        if not done or seconds <= 0:
            return "study: starting"
        left = (total - done + self._to_come) * seconds / done
        every = self._finished + total + self._to_come
        return (
            f"study {self._finished + done}/{every}, about {left / 60:.0f} min left, "
            f"device busy {timed_s / seconds:.0%}"
        )
