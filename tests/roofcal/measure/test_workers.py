"""Which rank is at fault where several share a point."""

import faulthandler
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from roofcal.core.jsonl import decode, encode
from roofcal.core.records import PlanPoint
from roofcal.measure.workers import Workers, hanging_rank, innermost_call
from tests.roofcal.measure.runs import point, scripted
from tests.waiting import wait_until

SETUP = {"environment_id": "e", "session_id": "s"}


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Three ranks of stand_ins/scripted_worker.py, which started."""
    scripted(monkeypatch, tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = psutil.Process().children()
    group = Workers("gemm", None, [], world_size=3)
    group.begin([SETUP] * 3)
    assert group.next_event(120) == {"ready": True}
    yield group
    group.kill()
    assert psutil.Process().children() == before, "a worker or a zombie is left"
    assert list(tmp_path.glob("roofcal-ranks-*")) == []


def ask(group: Workers, *deeds: str) -> list[PlanPoint]:
    points = [point(f"r{index}", deed) for index, deed in enumerate(deeds)]
    group.send(json.dumps([encode(p) for p in points]))
    return points


def words(group: Workers, timeout: float = 120.0) -> list[str]:
    """The first word of every event until `done` or silence."""
    found: list[str] = []
    while (event := group.next_event(timeout)) is not None:
        found.append(next(iter(event)))
        if "measurement" in event:
            decode(event["measurement"])
        if "done" in event:
            break
    return found


def test_all_ranks_measure_and_one_of_them_reports(group: Workers) -> None:
    ask(group, "works", "works")
    assert words(group) == ["at", "at", "measurement", "measurement", "done"]
    ask(group, "works")
    assert words(group) == ["at", "measurement", "done"]


def test_ranks_that_give_no_answer_are_timed_out(group: Workers) -> None:
    (asked,) = ask(group, "hangs")
    assert group.next_event(120) == {"at": asked.point_id}
    assert group.next_event(1.0) is None
    fault = group.fault(1.0)
    assert (fault.status, fault.last) == ("timeout", asked.point_id)
    said = "no sign of life for 1 s; rank 0 (gives no answer); the workers were killed"
    assert fault.reason == said


def test_a_child_that_holds_a_pipe_does_not_hide_that_its_rank_died(group: Workers) -> None:
    ask(group, "leaves_a_child")
    assert words(group, 1.0) in (["at"], [])
    wait_until(lambda: not group._workers[0].is_running(), "the end of rank 0")
    assert group.fault(1.0).reason == "rank 0: the worker died (exit code 5)"


WAITS = """Thread 0x01 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 359 in wait

Current thread 0x02 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 88 in barrier
  File "/study/roofcal/measure/ranks.py", line 104 in align
"""
WORKS = """Current thread 0x02 (most recent call first):
  File "/study/roofcal/ops/gemm/bench.py", line 7 in call
  File "/study/roofcal/measure/timing.py", line 80 in take
"""


def test_the_rank_that_does_not_wait_is_the_one_that_hangs_and_where_all_wait_nobody() -> None:
    assert hanging_rank([WAITS, WORKS, WAITS]) == (1, "call at gemm/bench.py:7")
    assert hanging_rank([WAITS, ""]) == (1, "gives no answer")
    rank, where = hanging_rank([WAITS, WAITS])
    assert rank is None
    assert where.startswith("rank 0: barrier at distributed/distributed_c10d.py:88; rank 1: ")


def test_a_stack_of_this_python_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stack"
    with path.open("w") as stream:
        faulthandler.dump_traceback(stream)
    where, waits = innermost_call(path.read_text())
    assert where.startswith("test_a_stack_of_this_python_is_read at measure/test_workers.py:")
    assert not waits
