"""The CPU quota of a container, the work of others on its cores, and memory that was freed."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from roofcal.core.machine import cores
from roofcal.core.machine.cores import (
    Periods,
    busy_share,
    busy_share_between,
    cpu_quota,
    quota_periods,
    throttled_share,
    usable_cores,
)
from tests.paths import ROOT

STAT = "nr_periods 100\nnr_throttled 40\nthrottled_usec 9000\n"
V1 = "cpu,cpuacct"


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "allowed_cores", lambda: 8)


def file_system(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A root with /proc/self/cgroup and files below /sys/fs/cgroup."""
    texts = {"proc/self/cgroup": groups}
    texts |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/\n", {"cpu.max": "1600000 100000"}, None),  # twice the cores
        ("0::/\n", {}, None),
        ("0::/pod/one\n", {"pod/one/cpu.max": "max 100000", "pod/cpu.max": "50000 100000"}, 0.5),
        ("0::/pod/one\n", {"pod/one/cpu.max": "2 1", "pod/cpu.max": "4 1"}, 2.0),
        ("0::/of/the/host\n", {"cpu.max": "300000 100000"}, 3.0),
        (
            f"4:memory:/\n3:{V1}:/docker/1\n0::/\n",
            {f"{V1}/cpu.cfs_quota_us": "250000\n", f"{V1}/cpu.cfs_period_us": "100000\n"},
            2.5,
        ),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("3:cpuset:/\n", {"cpuset/cpu.cfs_quota_us": "1", "cpuset/cpu.cfs_period_us": "2"}, None),
    ],
)
def test_the_least_quota_counts(
    tmp_path: Path, groups: str, files: dict[str, str], quota: float | None
) -> None:
    root = file_system(tmp_path, groups, files)
    assert cpu_quota(root) == quota
    assert usable_cores(root) == max(1, int(quota or 8))


def test_throttling_is_that_of_the_cgroup_that_limits(tmp_path: Path) -> None:
    assert (cpu_quota(tmp_path), usable_cores(tmp_path)) == (None, 8), "no cgroups are there"
    assert throttled_share(quota_periods(tmp_path), tmp_path) is None
    files = {"cpu.max": "100000 100000", "cpu.stat": STAT, "pod/cpu.max": "max 100000"}
    root = file_system(tmp_path, "0::/pod\n", files)
    before = quota_periods(root)
    assert before == Periods(100, 40)
    assert throttled_share(before, root) == 0.0
    (root / "sys/fs/cgroup/cpu.stat").write_text("nr_periods 120\nnr_throttled 45\n")
    assert throttled_share(before, root) == 0.25


BEFORE = "cpu 9 9 9 9 9 9 9 9\ncpu0 10 0 0 100 0 0 0 0 0 0\ncpu1 0 0 0 500 0 0 0 0 0 0\nintr 5\n"


@pytest.mark.parametrize(
    ("ticks", "cores_here", "share"),
    [
        ((0, 20, 0), {0}, 0.0),
        ((5, 15, 0), {0}, 0.25),
        ((20, 0, 0), {0}, 1.0),
        ((0, 10, 10), {0}, 0.0),  # waiting for a disk is idle
        ((20, 0, 0), {1}, 0.0),
        ((400, 0, 0), {0, 1}, 0.5),
        ((0, 0, 0), {0}, None),
    ],
)
def test_the_share_of_others_is_of_the_ticks_that_passed_on_the_cores_of_this_process(
    ticks: tuple[int, int, int], cores_here: set[int], share: float | None
) -> None:
    busy, idle, waiting = ticks
    first = f"cpu0 {10 + busy} 0 0 {100 + idle} {waiting} 0 0 0 0 0"
    after = f"cpu 0 0 0 0 0 0 0 0\n{first}\ncpu1 0 0 0 900 0 0 0 0 0 0\n"
    assert busy_share_between(BEFORE, after, cores_here) == share


def test_this_machine_has_a_share() -> None:
    share = busy_share(0.05)
    assert share is None or 0 <= share <= 1


# Page faults of the second of two blocks of 48 MiB, written and freed: as it comes, where freed
# memory is kept, and where it was given back. 32 MiB are the most that glibc keeps by itself. A
# process of its own, because the setting stays.
SCRIPT = """
import ctypes, resource
from roofcal.core.machine.cores import give_freed_memory_back, keep_freed_memory
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def write_and_free():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(48 << 20)))
    ctypes.memset(block, 1, 48 << 20)
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
write_and_free()
print(write_and_free())
keep_freed_memory()
write_and_free()
print(write_and_free())
give_freed_memory_back()
print(write_and_free())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="a libc without mallopt")
def test_a_freed_block_stays_with_the_process_until_it_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, check=True)
    as_it_comes, kept, given_back = map(int, done.stdout.split())
    assert kept < 10 <= min(as_it_comes, given_back)
