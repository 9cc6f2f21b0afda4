"""What other processes do to this machine: the share of its processor cores that they keep busy."""

import os
import time
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)  # columns idle and iowait, proc(5)
BUSY_CPU: Final = 0.25  # above this share of its cores a CPU measures others too
BUSY_HOST: Final = 0.9  # above this the host of a GPU may come too late with its launches


def busy_share(seconds: float = 0.2) -> float | None:
    """Share of the time of this process's cores that was not idle for so long; None if unknown.

    Asked before a session measures, it is the work of others: a load average would still hold the
    session before.
    """
    if not _STAT.is_file():
        return None
    before = _STAT.read_text()
    time.sleep(seconds)
    return busy_share_between(before, _STAT.read_text(), os.sched_getaffinity(0))


def busy_share_between(before: str, after: str, cores: set[int]) -> float | None:
    """The same from two texts of /proc/stat; None where no time passed on any of the cores."""
    first, last = _ticks(before, cores), _ticks(after, cores)
    passed = sum(last) - sum(first)
    idle = sum(last[column] - first[column] for column in _IDLE)
    return min(1.0, max(0.0, 1 - idle / passed)) if passed > 0 else None


def _ticks(text: str, cores: set[int]) -> list[int]:
    """Ticks by column, summed over some cores; guests are part of user time already."""
    names = {f"cpu{core}" for core in cores}
    rows = [line.split() for line in text.splitlines() if line.split(maxsplit=1)[0] in names]
    return [sum(int(row[1 + column]) for row in rows) for column in range(8)]
