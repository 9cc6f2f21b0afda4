"""The processor cores that this process may use: its affinity, and the CPU quota of its container.

A quota (cgroup v2: cpu.max, v1: cpu.cfs_quota_us) takes no core away. It stops all threads of the
container for the rest of a period, 0.1 s as a rule, once they have used up their time.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path("/")


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
    quotas = ((_quota_of(folder), folder) for folder in _cgroups(root))
    limits = [(quota, folder) for quota, folder in quotas if quota is not None]
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


def _quota_of(folder: Path) -> float | None:
    """The quota of one cgroup in cores; None where it has none, or no such file."""
    words = _words(folder / "cpu.max") or [
        *_words(folder / "cpu.cfs_quota_us"),
        *_words(folder / "cpu.cfs_period_us"),
    ]
    if len(words) != 2 or not words[0].isdecimal() or not int(words[1]):
        return None  # "max 100000", and -1 in v1, are no limit
    return int(words[0]) / int(words[1])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
