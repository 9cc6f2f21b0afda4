"""The pool of compiling processes tells what is compiled at once; its death costs nothing."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from triton import knobs

from roofcal.core.records import PlanPoint
from roofcal.measure import compile_pool
from roofcal.measure.compile_pool import CompilePool, pool_size


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compile_pool, "WORKER", "tests.roofcal.measure.stand_ins.compile_stub")
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path))


def point(number: int, recipe: str = "bf16", world_size: int = 1) -> PlanPoint:
    shape = {"m": number, "n": 1, "k": 1}
    return PlanPoint(
        op="gemm", provider="p", recipe=recipe, shape=shape, device="d", world_size=world_size
    )


class Pool:
    """A pool, what it said, and where a test lets slow points go on."""

    def __init__(self, points: list[PlanPoint], size: int, timeout_s: float) -> None:
        self.said: list[str] = []
        self.pool = CompilePool(
            points, "", size, self.said.append, lambda op: f"code of {op}", timeout_s
        )

    def let_slow_points_go(self) -> None:
        Path(self.pool._locks.name, "go").touch()


@pytest.fixture
def pools() -> Iterator[list[Pool]]:
    made: list[Pool] = []
    yield made
    for one in made:
        one.pool.stop()


def started(pools: list[Pool], points: list[PlanPoint], size: int, timeout_s: float = 600) -> Pool:
    pools.append(Pool(points, size, timeout_s))
    return pools[-1]


def test_the_first_group_whose_points_are_compiled_is_told(pools: list[Pool]) -> None:
    slow, quick = [point(1), point(2, "slow")], [point(3), point(4)]
    one = started(pools, [*slow, *quick], size=2)
    assert one.pool.wait_for_any([slow, quick]) == 1
    assert not one.pool.is_compiled(slow)
    one.let_slow_points_go()
    assert one.pool.wait_for_any([slow]) == 0
    assert one.pool.is_compiled([*slow, *quick])


def test_points_of_several_devices_and_unknown_points_are_not_waited_for(
    pools: list[Pool],
) -> None:
    shared = [point(1, "slow", world_size=2)]
    one = started(pools, shared, size=1)
    assert one.pool.is_compiled(shared)
    assert one.pool.is_compiled([point(9)])


def test_a_process_that_is_killed_leaves_its_point_to_the_timing_process(
    pools: list[Pool],
) -> None:
    points = [point(1, "killed"), *(point(i) for i in range(2, 8))]
    one = started(pools, points, size=2)
    for number in range(len(points)):
        assert one.pool.wait_for_any([[points[number]]]) == 0
    assert one.said == []


def test_a_dead_pool_says_so_once_and_is_waited_for_no_more(pools: list[Pool]) -> None:
    points = [point(1, "killed"), point(2, "killed"), point(3, "slow")]
    one = started(pools, points, size=2)
    assert one.pool.wait_for_any([[points[2]]]) == 0
    (said,) = one.said
    assert "points are compiled where they are timed" in said
    assert "-9" in said


def test_a_compilation_that_hangs_is_killed_and_the_next_point_compiled(pools: list[Pool]) -> None:
    hanging = point(1, "slow")
    one = started(pools, [hanging, point(2)], size=1, timeout_s=3)
    (first,) = one.pool._processes
    assert one.pool.wait_for_any([[hanging]]) == 0
    assert one.pool.wait_for_any([[point(2)]]) == 0
    assert first.poll() == -signal.SIGKILL
    (said,) = one.said
    assert "slow {'m': 1, 'n': 1, 'k': 1} is not compiled after 3 s" in said
    one.pool.stop()
    again = started(pools, [hanging, point(2)], size=2)
    assert not again.pool.is_compiled([hanging]), "what hung is not noted as compiled"
    assert again.pool.is_compiled([point(2)]), "the process that replaced the first compiled it"


def test_a_paused_pool_neither_compiles_nor_lets_its_deadlines_pass(pools: list[Pool]) -> None:
    slow = point(2, "slow")
    one = started(pools, [point(1), slow, point(3)], size=1, timeout_s=3)
    assert one.pool.wait_for_any([[point(1)]]) == 0
    (process,) = one.pool._processes
    with one.pool.paused():
        one.let_slow_points_go()
        time.sleep(3.5)
        assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
        assert not one.pool.is_compiled([slow])
    assert one.pool.wait_for_any([[slow]]) == 0
    assert one.pool.wait_for_any([[point(3)]]) == 0
    assert one.said == []


def test_a_paused_pool_can_be_stopped(pools: list[Pool]) -> None:
    one = started(pools, [point(1), point(2, "slow")], size=1)
    assert one.pool.wait_for_any([[point(1)]]) == 0
    with one.pool.paused():
        one.pool.stop()
        assert [process.poll() for process in one.pool._processes] == [-signal.SIGKILL]
    pools.clear()


def test_a_pool_without_processes_keeps_nobody_waiting(pools: list[Pool]) -> None:
    points = [point(1, "slow")]
    assert started(pools, points, size=0).pool.wait_for_any([points]) == 0


def test_stopping_ends_processes_that_still_compile(pools: list[Pool]) -> None:
    one = started(pools, [point(1, "slow")], size=1)
    one.pool.stop()
    assert all(process.poll() is not None for process in one.pool._processes)
    assert one.said == []
    pools.clear()


@pytest.mark.parametrize(
    ("cores", "available_gib", "size"), [(1, 100, 0), (2, 100, 0), (16, 100, 14), (64, 9, 4)]
)
def test_the_pool_takes_no_more_cores_and_memory_than_there_are(
    monkeypatch: pytest.MonkeyPatch, cores: int, available_gib: int, size: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(compile_pool, "_available_bytes", lambda: available_gib << 30)
    assert pool_size() == size


def test_a_point_that_did_not_compile_is_not_noted_as_compiled(pools: list[Pool]) -> None:
    bad = point(1, "uncompilable")
    first = started(pools, [bad, point(2)], size=1)
    assert first.pool.wait_for_any([[bad]]) == 0
    assert first.pool.wait_for_any([[point(2)]]) == 0
    first.pool.stop()
    again = started(pools, [bad, point(2)], size=2)
    assert len(again.pool._processes) == 1, "one point is left to compile"


def test_points_compiled_before_are_not_compiled_again(pools: list[Pool]) -> None:
    one = started(pools, [point(1), point(2, "killed")], size=1)
    assert one.pool.wait_for_any([[point(1), point(2, "killed")]]) == 0

    again = started(pools, [point(1), point(2, "slow")], size=2)
    assert again.pool.is_compiled([point(1)])
    assert not again.pool.is_compiled([point(2, "slow")])
    assert len(again.pool._processes) == 1


def test_a_pool_with_nothing_to_compile_starts_no_process(pools: list[Pool]) -> None:
    started(pools, [point(1)], size=1).pool.wait_for_any([[point(1)]])
    again = started(pools, [point(1)], size=4)
    assert again.pool.is_compiled([point(1)])
    assert again.pool._processes == []
