"""Which of several silent processes hangs, and which wait for it."""

import faulthandler
from pathlib import Path

from roofcal.measure.rank_group import hanging_rank, innermost_call

WAITS = """Thread 0x01 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 359 in wait

Current thread 0x02 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 88 in barrier
  File "/study/roofcal/measure/ranks.py", line 104 in align
"""
WORKS = """Current thread 0x02 (most recent call first):
  File "/study/roofcal/ops/gemm/bench.py", line 7 in call
  File "/study/roofcal/measure/rank_timing.py", line 80 in _one
"""


def test_the_rank_that_does_not_wait_is_the_one_that_hangs() -> None:
    assert hanging_rank([WAITS, WORKS, WAITS]) == (1, "call at gemm/bench.py:7")


def test_a_process_without_an_answer_hangs() -> None:
    assert hanging_rank([WAITS, ""]) == (1, "gives no answer")


def test_where_all_wait_nobody_is_blamed() -> None:
    rank, where = hanging_rank([WAITS, WAITS])
    assert rank is None
    assert where.startswith("rank 0: barrier at distributed/distributed_c10d.py:88; rank 1: ")


def test_a_stack_of_this_python_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stack"
    with path.open("w") as stream:
        faulthandler.dump_traceback(stream)
    where, waits = innermost_call(path.read_text())
    assert where.startswith("test_a_stack_of_this_python_is_read at measure/test_hanging_rank.py:")
    assert not waits
