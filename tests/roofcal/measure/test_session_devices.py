"""Which devices a session takes for its points, and what becomes of points that need more."""

from pathlib import Path
from typing import Any

import pytest

from roofcal.core.machine import locks
from roofcal.core.machine.nvml import Gpu
from roofcal.core.records import Measurement, PlanPoint, Record
from roofcal.measure import journal, session
from roofcal.measure.session import measure
from roofcal.measure.supervisor import MeasureError
from tests.roofcal.measure.runs import Run, environment, point, scripted


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return scripted(monkeypatch, tmp_path)


GPU: dict[str, Any] = {
    "device": "test-cpu",
    "vendor": "nvidia",
    "device_name": "NVIDIA H200",
    "compute_units": 132,
    "memory_clock_hz": 3.2e9,
    "memory_bus_bits": 6144,
    "power_limit_w": 700.0,
    "driver": "580.1",
}


def card(**changes: Any) -> Gpu:
    kept = {key: GPU[key] for key in GPU if key not in ("device", "vendor", "device_name")}
    rest: dict[str, Any] = {"memory_bytes": 1, "memory_free_bytes": 1, "ecc": True, "mig": False}
    rest |= {"process_ids": (), "sm_clock_hz": None, "max_sm_clock_hz": None}
    return Gpu(**({"uuid": "GPU-1", "name": "NVIDIA H200"} | kept | rest | changes))


@pytest.mark.parametrize(
    ("cards", "seen"),
    [
        ([], "no NVIDIA GPU"),
        ([card(name="NVIDIA A100")], "NVIDIA A100"),
        ([card(power_limit_w=500.0)], "NVIDIA H200"),
        ([card(driver="575.0")], "NVIDIA H200"),
    ],
)
def test_a_plan_for_a_card_that_is_not_here_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, cards: list[Gpu], seen: str
) -> None:
    monkeypatch.setattr(session, "visible_gpus", lambda: cards)
    with pytest.raises(MeasureError, match=f"this machine has {seen}"):
        measure(run.job([point("a")], environment=environment(**GPU)))


def test_the_first_free_card_of_the_kind_is_taken(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = [card(uuid="GPU-A"), card(uuid="GPU-B", name="other"), card(uuid="GPU-C")]
    monkeypatch.setattr(session, "visible_gpus", lambda: cards)
    busy = locks.try_lock("GPU-A")
    assert busy is not None
    measure(run.job([point("a")], environment=environment(**GPU)))
    busy.release()
    assert run.sessions()[0].device_uuid == "GPU-C"


def shared(recipe: str, world_size: int, **changes: Any) -> PlanPoint:
    return point(recipe, world_size=world_size, **changes)


def test_more_devices_than_there_are_is_a_row_and_starts_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cards = [card(uuid="GPU-A"), card(uuid="GPU-B", name="other")]
    monkeypatch.setattr(session, "visible_gpus", lambda: cards)
    fits, large = measure(run.job([point("a"), shared("b", 8)], environment=environment(**GPU)))
    assert (fits.status, large.status) == ("ok", "unsupported")
    assert large.reason == ("too few devices: world size 8 needs 8 NVIDIA H200, this machine has 1")
    assert run.trace == ["a works"]
    told = capsys.readouterr().err
    assert told.count("gemm: 1 point(s) need more devices than the 1 of the kind here") == 1


def test_points_that_lacked_devices_are_measured_where_there_are_enough(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = [card(uuid="GPU-A")]
    monkeypatch.setattr(session, "visible_gpus", lambda: cards)
    plan, found = [shared("a", 2), shared("b", 4)], environment(**GPU)
    assert [m.status for m in measure(run.job(plan, environment=found))] == ["unsupported"] * 2
    cards += [card(uuid="GPU-B"), card(uuid="GPU-C")]
    again = measure(run.job(plan, environment=found))
    assert [m.status for m in again] == ["ok", "unsupported"]
    assert "this machine has 1" in str(again[1].reason), "what is known is not asked again"
    assert run.sessions()[-1].device_uuid == "GPU-A,GPU-B"


def test_all_devices_of_a_point_are_locked_while_it_is_measured(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = [card(uuid=f"GPU-{name}") for name in "ABC"]
    monkeypatch.setattr(session, "visible_gpus", lambda: cards)
    held: list[list[str]] = []
    real = journal.Journal.append

    def append(self: journal.Journal, record: Record) -> None:
        real(self, record)
        if isinstance(record, Measurement):
            locked = {uuid: locks.try_lock(uuid) for uuid in ("GPU-A", "GPU-B", "GPU-C")}
            held.append([uuid for uuid, lock in locked.items() if lock is None])
            for lock in filter(None, locked.values()):
                lock.release()

    monkeypatch.setattr(journal.Journal, "append", append)
    measure(run.job([shared("a", 2, sweeps=("exits",))], environment=environment(**GPU)))
    assert held == [["GPU-A", "GPU-B"]]
    for uuid in held[0]:
        lock = locks.try_lock(uuid)
        assert lock is not None, "a rank that died keeps its device"
        lock.release()


def test_a_cpu_stands_in_for_four_devices_at_most(run: Run) -> None:
    few, many = measure(run.job([shared("a", 4), shared("a", 8)]))
    assert (few.status, many.status) == ("ok", "unsupported")
    assert "a CPU measures with 4 at most" in str(many.reason)


def test_a_job_of_a_world_size_measures_its_points_and_no_others(run: Run) -> None:
    plan = [point("alone"), shared("two", 2), shared("four", 4)]

    rows = measure(run.job(plan, world_sizes=(1, 4)))

    assert [row.point_id for row in rows] == [plan[0].point_id, plan[2].point_id]
    with pytest.raises(MeasureError, match="holds no point of world size 8"):
        measure(run.job(plan, world_sizes=(8,)))
