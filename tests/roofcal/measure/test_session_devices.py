"""Which devices a session takes for its points, and what becomes of points that need more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from roofcal.core.machine import locks
from roofcal.core.machine.nvml import Gpu
from roofcal.core.records import Measurement, PlanPoint, Protocol, Record
from roofcal.measure import journal, session
from roofcal.measure.session import measure
from roofcal.measure.supervisor import MeasureError
from tests.roofcal.core.machine.stand_in_nvml import H200
from tests.roofcal.measure.runs import Run, environment, point

ALIKE = ("compute_units", "memory_clock_hz", "memory_bus_bits", "power_limit_w", "driver")
GPU: dict[str, Any] = {"device": "test-cpu", "vendor": "nvidia", "device_name": H200.name}
GPU |= {name: getattr(H200, name) for name in ALIKE}


def card(**changes: Any) -> Gpu:
    return replace(H200, **changes)


A, B, C = (card(uuid=f"GPU-{name}") for name in "ABC")
OTHER = card(uuid="GPU-D", name="other")
Measure = Callable[..., list[Measurement]]


@pytest.fixture
def measure_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Measures a plan for H200s on a machine with these cards."""

    def measure_plan(cards: list[Gpu], *plan: PlanPoint) -> list[Measurement]:
        monkeypatch.setattr(session, "visible_gpus", lambda: cards)
        return measure(run.job(plan, environment=environment(**GPU)))

    return measure_plan


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The locks that are held when a measurement is noted, one after the other."""
    noted: list[set[str]] = []
    append = journal.Journal.append

    def note(self: journal.Journal, record: Record) -> None:
        append(self, record)
        if isinstance(record, Measurement):
            names = (A.uuid, B.uuid, C.uuid, locks.HOST_CLOCK)
            noted.append({name for name in names if locks.is_locked(name)})

    monkeypatch.setattr(journal.Journal, "append", note)
    return noted


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
    measure_on: Measure, cards: list[Gpu], seen: str
) -> None:
    with pytest.raises(MeasureError, match=f"this machine has {seen}"):
        measure_on(cards, point("a"))


def test_the_first_free_card_of_the_kind_is_taken(measure_on: Measure, run: Run) -> None:
    with locks.lock_held(A.uuid, pytest.fail):
        measure_on([A, OTHER, C], point("a"))
    assert run.sessions()[0].device_uuid == C.uuid


def test_points_that_lack_devices_are_rows_and_measured_where_there_are_enough(
    measure_on: Measure, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = [point("a"), point("b", world_size=2), point("c", world_size=4)]
    fits, *large = measure_on([A, OTHER], *plan)
    assert [row.status for row in (fits, *large)] == ["ok", "unsupported", "unsupported"]
    why = "too few devices: world size 2 needs 2 NVIDIA H200, this machine has 1"
    assert large[0].reason == why
    assert run.trace == ["a works"]
    told = capsys.readouterr().err
    assert told.count("gemm: 2 point(s) need more devices than the 1 of the kind here") == 1
    again = measure_on([A, B, C], *plan)
    assert [row.status for row in again] == ["ok", "ok", "unsupported"]
    assert "this machine has 1" in str(again[2].reason), "what is known is not asked again"
    assert run.sessions()[-1].device_uuid == "GPU-A,GPU-B"


def test_all_devices_of_a_point_are_locked_while_it_is_measured(
    measure_on: Measure, held: list[set[str]]
) -> None:
    measure_on([A, B, C], point("a", "exits", world_size=2))
    assert held == [{A.uuid, B.uuid}]
    assert not any(map(locks.is_locked, held[0])), "a rank that died keeps its device"


def test_nothing_is_compiled_while_the_host_clock_times_a_group(
    measure_on: Measure, run: Run, held: list[set[str]]
) -> None:
    wall = point("wall", protocol=Protocol(method="wall"))
    measure_on([A], point("graph"), wall, point("b", repeat=1))
    assert run.trace == ["graph works", "wall works", "b works"]
    assert held == [{A.uuid}, {A.uuid, locks.HOST_CLOCK}, {A.uuid}]
    assert not locks.is_locked(locks.HOST_CLOCK)


def test_a_cpu_stands_in_for_four_devices_and_a_job_measures_its_world_sizes(run: Run) -> None:
    plan = [point("a", world_size=size) for size in (1, 2, 4, 8)]
    one, few, many = measure(run.job(plan, world_sizes=(1, 4, 8)))
    assert [row.point_id for row in (one, few)] == [plan[0].point_id, plan[2].point_id]
    assert (few.status, many.status) == ("ok", "unsupported")
    assert "a CPU measures with 4 at most" in str(many.reason)
    with pytest.raises(MeasureError, match="holds no point of world size 3"):
        measure(run.job(plan, world_sizes=(3,)))
