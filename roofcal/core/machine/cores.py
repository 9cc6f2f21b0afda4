"""The processor cores of this process: affinity, CPU quota, work of others; and its freed memory.

A quota (cgroup v2: cpu.max, v1: cpu.cfs_quota_us) takes no core away. It stops all threads of the
container for the rest of a period, 0.1 s as a rule, once they have used up their time.
"""

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path("/")
_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)  # columns idle and iowait, proc(5)
BUSY_CPU: Final = 0.25  # busy share of cores above which other work disturbs the times of a CPU
BUSY_HOST: Final = 0.9  # busy share above which the host of a GPU may launch too late


class Periods(NamedTuple):
    """Periods of the CPU quota since the cgroup was made, and those in which it stopped threads."""

    every: int
    throttled: int


def allowed_cores() -> int:
    """The cores that this process may run on, whatever a quota leaves of their time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS


def usable_cores(root: Path = _ROOT) -> int:
    """How many threads can run all the time: the allowed cores, or as many as the quota feeds."""
    return max(1, int(cpu_quota(root) or allowed_cores()))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """The processor time per time that the container has, in cores; None where nothing limits it.

    The least quota of the cgroup of this process and those above it counts; one that feeds all
    allowed cores is none. root: of the file system, for tests.
    """
    limit = _least_quota(root)
    return None if limit is None else limit[0]


def quota_periods(root: Path = _ROOT) -> Periods | None:
    """The periods of the quota that `cpu_quota` says; None without one."""
    limit = _least_quota(root)
    if limit is None:
        return None
    words = _words(limit[1] / "cpu.stat")
    counts = dict(zip(words[::2], words[1::2], strict=False))
    return Periods(int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0)))


def throttled_share(before: Periods | None, root: Path = _ROOT) -> float | None:
    """The share of periods since `before` in which the quota stopped threads; None without one."""
    now = quota_periods(root)
    if before is None or now is None:
        return None
    return (now.throttled - before.throttled) / max(1, now.every - before.every)


def _least_quota(root: Path) -> tuple[float, Path] | None:
    """The least quota that feeds fewer than the allowed cores, and the cgroup that has it."""
    limits = []
    for folder in _cgroups(root):
        words = _words(folder / "cpu.max") or [
            *_words(folder / "cpu.cfs_quota_us"),
            *_words(folder / "cpu.cfs_period_us"),
        ]
        # "max 100000", and -1 in v1, are no limit
        if len(words) == 2 and words[0].isdecimal() and int(words[1]):
            limits.append((int(words[0]) / int(words[1]), folder))
    return min((one for one in limits if one[0] < allowed_cores()), default=None)


def _cgroups(root: Path) -> Iterator[Path]:
    """The folders of the cgroup of this process and all above it that hold its CPU limits.

    In a container the path of /proc/self/cgroup may be that of the host, where nothing is.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return  # no Linux, or a sandbox without cgroups
    mounts = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = mounts / controllers  # of v2, which names no controllers, the root itself
        if controllers and not mount.is_dir():
            mount = mounts / "cpu"
        group = mount / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount))


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


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
    names = {f"cpu{core}" for core in cores}
    ticks = []  # by column, summed over the cores; guests are part of user time already
    for text in (before, after):
        rows = [line.split() for line in text.splitlines() if line.split(maxsplit=1)[0] in names]
        ticks.append([sum(int(row[1 + column]) for row in rows) for column in range(8)])
    first, last = ticks
    passed = sum(last) - sum(first)
    idle = sum(last[column] - first[column] for column in _IDLE)
    return min(1.0, max(0.0, 1 - idle / passed)) if passed > 0 else None


_M_TRIM_THRESHOLD: Final = -1  # malloc.h of glibc
_M_MMAP_MAX: Final = -4
_MOST_BYTES: Final = 2**31 - 1  # an int


def keep_freed_memory() -> None:
    """Make malloc keep what is freed, as torch does on GPUs; without glibc nothing changes.

    Whether glibc gives large blocks back to the kernel depends on the largest block that was freed
    before. What is given back comes again page by page, zeroed: an fp8 product of 416 x 192 x 992
    takes 1.9 ms where its blocks were kept and 2.9 ms where they were not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # neither macOS nor musl has one
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _MOST_BYTES)


def give_freed_memory_back() -> None:
    """Give all pages of freed blocks to the kernel; without glibc nothing happens.

    A block that is allocated afterwards lies in other physical pages, even where its address is
    that of a block before. 200 MB take 15 ms.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
