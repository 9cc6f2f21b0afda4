"""The share of the cores that others keep busy, from two texts of /proc/stat."""

import pytest

from roofcal.core.machine.load import busy_share, busy_share_between

BEFORE = (
    "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 0 100 0 0 0 0 0 0\ncpu1 0 0 0 500 0 0 0 0 0 0\nintr 5\n"
)


def after(busy: int, idle: int, waiting: int = 0) -> str:
    first = f"cpu0 {10 + busy} 0 0 {100 + idle} {waiting} 0 0 0 0 0"
    return f"cpu 0 0 0 0 0 0 0 0 0 0\n{first}\ncpu1 0 0 0 900 0 0 0 0 0 0\n"


@pytest.mark.parametrize(("busy", "idle", "share"), [(0, 20, 0.0), (5, 15, 0.25), (20, 0, 1.0)])
def test_the_share_is_of_the_ticks_that_passed(busy: int, idle: int, share: float) -> None:
    assert busy_share_between(BEFORE, after(busy, idle), {0}) == share


def test_waiting_for_a_disk_is_idle() -> None:
    assert busy_share_between(BEFORE, after(0, 10, waiting=10), {0}) == 0.0


def test_only_the_cores_of_this_process_count() -> None:
    assert busy_share_between(BEFORE, after(20, 0), {1}) == 0.0
    assert busy_share_between(BEFORE, after(400, 0), {0, 1}) == 0.5


def test_without_time_there_is_no_share() -> None:
    assert busy_share_between(BEFORE, BEFORE, {0}) is None


def test_this_machine_has_a_share() -> None:
    share = busy_share(0.05)
    assert share is None or 0 <= share <= 1
