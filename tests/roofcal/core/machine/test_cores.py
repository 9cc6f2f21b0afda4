"""The CPU quota of a container, from what its cgroups say in files of both versions."""

from pathlib import Path

import pytest

from roofcal.core.machine import cores
from roofcal.core.machine.cores import (
    Periods,
    cpu_quota,
    quota_periods,
    throttled_share,
    usable_cores,
)

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


def test_without_cgroups_there_is_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None
    assert throttled_share(quota_periods(tmp_path), tmp_path) is None
    assert usable_cores(tmp_path) == 8


@pytest.mark.parametrize("folder", ["", "pod/"])
def test_throttling_is_that_of_the_cgroup_that_limits(tmp_path: Path, folder: str) -> None:
    files = {f"{folder}cpu.max": "100000 100000", f"{folder}cpu.stat": STAT}
    root = file_system(tmp_path, "0::/pod\n", files)
    before = quota_periods(root)
    assert before == Periods(100, 40)
    (root / f"sys/fs/cgroup/{folder}cpu.stat").write_text("nr_periods 120\nnr_throttled 45\n")
    assert throttled_share(before, root) == 0.25


def test_no_period_that_passed_is_no_throttling(tmp_path: Path) -> None:
    root = file_system(tmp_path, "0::/\n", {"cpu.max": "100000 100000", "cpu.stat": STAT})
    assert throttled_share(quota_periods(root), root) == 0.0
