"""What happens to the points when their worker dies, hangs or talks nonsense."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from roofcal.core.machine import locks
from roofcal.core.records import Measurement
from roofcal.measure import supervisor, workers
from roofcal.measure.supervisor import Crew, MeasureError
from tests.roofcal.made_up_records import session
from tests.roofcal.measure.runs import (
    SHAPE,
    TIMING,
    Run,
    environment,
    hangs_are_noted,
    point,
    scripted,
)
from tests.waiting import wait_until


class Shift:
    """A crew on a locked device, and what it told."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.told: list[str] = []
        lock = locks.try_lock("cpu")
        assert lock is not None
        self.lock = lock
        started = session(
            session_id="s1", environment_id=environment().environment_id, timing=TIMING
        )
        self.crew = Crew(started, environment(), self.told.append)
        self.crew.take([lock])

    def measure(self, *deeds: str) -> dict[str, Measurement]:
        """Deed -> what became of the point whose worker does it; the last of equal deeds."""
        points = [point(f"r{index}", deed) for index, deed in enumerate(deeds)]
        names = {p.point_id: p.sweeps[0] for p in points}
        found = list(self.crew.run_group(points))
        assert sorted(m.point_id for m in found) == sorted(names), "one row per point"
        return {names[m.point_id]: m for m in found}


@pytest.fixture
def shift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shift]:
    run = scripted(monkeypatch, tmp_path)
    before = psutil.Process().children()  # with the server that forks workers
    shift = Shift(run)
    hangs_are_noted(monkeypatch, shift.run)
    yield shift
    shift.crew.stop()
    shift.lock.release()
    assert psutil.Process().children() == before, "a worker or a zombie is left"


DEEDS = {
    "exits": ("failed", "the worker died (exit code 7)"),
    "is_killed": (
        "failed",
        "the worker died (signal SIGKILL; the kernel sends it when memory runs out)",
    ),
    "segfaults": ("failed", "the worker died (signal SIGSEGV)"),
    "raises": ("failed", "SomeError: it broke"),
    "runs_out_of_memory": ("out_of_memory", "SomeError: it broke"),
    "writes_half_an_event_and_dies": ("failed", "the worker died (exit code 4)"),
    "hangs": ("timeout", "no sign of life for 20 s; the worker was killed"),
    "writes_half_an_event_and_hangs": (
        "timeout",
        "no sign of life for 20 s; the worker was killed",
    ),
    # torch.compile leaves processes behind, which would keep pipe, device and lock.
    "leaves_a_child": ("failed", "the worker died (exit code 5)"),
    # The worker reports the point, then dies: nobody else is to blame.
    "loses_the_device": ("failed", "CUDA error"),
    "works": ("ok", "None"),
    "tries_the_lock": ("ok", "None"),
}


def test_a_point_that_breaks_its_worker_is_a_row_and_the_others_are_measured(shift: Shift) -> None:
    found = shift.measure("works", *DEEDS)
    assert {deed: (row.status, str(row.reason)) for deed, row in found.items()} == DEEDS
    assert all(bool(row.latency_samples_s) is (row.status == "ok") for row in found.values())
    assert any(str(SHAPE) in line and "timeout" in line for line in shift.told)
    (child,) = (int(line.split()[1]) for line in shift.run.trace if line.startswith("child"))
    wait_until(lambda: not psutil.pid_exists(child), "the child to end")


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("forgotten", "the worker returned without a word on 1 points"),
        ("reports_nonsense", "worker: Measurement.peak_bytes: Input should be greater"),
    ],
)
def test_a_point_of_which_nothing_sensible_is_said_is_a_row(
    shift: Shift, deed: str, reason: str
) -> None:
    found = shift.measure("works", deed, "tries_the_lock")
    assert [row.status for row in found.values()].count("ok") == 2
    assert (found[deed].status, found[deed].latency_samples_s) == ("failed", ())
    assert str(found[deed].reason).startswith(reason)


def test_a_worker_measures_group_after_group_and_may_die_between_them(shift: Shift) -> None:
    shift.measure("works")
    children = psutil.Process().children()
    shift.measure("ends_after_the_group")
    assert psutil.Process().children() == children
    assert shift.measure("loses_the_device")["loses_the_device"].status == "failed"
    assert shift.measure("works")["works"].status == "ok", "the last point of a group ends nothing"


def test_a_rank_that_died_between_groups_costs_no_point(shift: Shift) -> None:
    """The other rank lives, and has named a point by the time that the death is noticed."""
    for deed in ("last_rank_ends_after_the_group", "waits_for_the_other_rank"):
        (row,) = shift.crew.run_group([point(deed, deed, world_size=2)])
        assert (row.status, row.reason) == ("ok", None)


def test_a_worker_that_dies_again_and_again_without_a_word_costs_the_first_point(
    shift: Shift,
) -> None:
    points = [point(name, "dies_without_a_word") for name in "ab"]
    found = list(shift.crew.run_group(points))
    assert [m.status for m in found] == ["failed", "failed"]
    assert "exit code 6" in str(found[0].reason)


def test_a_group_larger_than_any_pipe_is_measured(shift: Shift) -> None:
    names = ("works", *(f"sweep_{i}_of_many" for i in range(1200)))
    points = [point(f"r{index}", sweeps=names) for index in range(60)]
    assert sum(len(name) for name in names) * len(points) > 1 << 20
    assert [m.status for m in shift.crew.run_group(points)] == ["ok"] * 60


@pytest.mark.parametrize(
    ("deed", "says"),
    [
        ("segfaults", r"died \(signal SIGSEGV\);"),
        ("hangs", "no sign of life for 1 s; the worker was killed;"),  # not for want of memory
    ],
)
def test_a_worker_that_cannot_start_ends_the_session(
    shift: Shift, monkeypatch: pytest.MonkeyPatch, deed: str, says: str
) -> None:
    monkeypatch.setenv("AT_START", deed)
    monkeypatch.setattr(supervisor, "START_S", 1.0)
    with pytest.raises(MeasureError, match=rf"did not start: .*{says}.*doctor"):
        list(shift.crew.run_group([point("a")]))


def test_a_worker_that_closes_its_pipe_and_stays_is_killed_and_the_row_says_so(
    shift: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_EXIT_S", 0.5)
    found = shift.measure("stays_behind", "works")
    said = "the worker fell silent, did not end in 0.5 s, and was killed"
    assert (found["stays_behind"].status, found["stays_behind"].reason) == ("failed", said)
    assert found["works"].status == "ok"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_workers_come_and_go_without_leaving_descriptors(shift: Shift) -> None:
    shift.measure("exits", "works")
    shift.crew.stop()
    before = descriptors()
    for _ in range(3):
        shift.measure("exits", "works")
        shift.crew.stop()
    assert descriptors() == before
