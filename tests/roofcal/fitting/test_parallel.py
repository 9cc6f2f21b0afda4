"""Fits on several cores: the results, their order and errors are those of one core."""

import os
from collections.abc import Callable

import pytest

from roofcal.fitting import parallel
from roofcal.fitting.parallel import parallel_map

Cores = Callable[[int], None]


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Cores:
    """Sets how many cores this process may use."""
    return lambda number: monkeypatch.setattr(parallel, "usable_cores", lambda: number)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_results_come_in_the_order_of_the_items(cores: Cores, count: int) -> None:
    offset = 10  # a closure, which could not be sent to another process
    for number in (1, 2, 3):
        cores(number)
        assert parallel_map(lambda item: item + offset, range(count)) == list(range(10, 10 + count))


def test_several_cores_are_several_processes_and_one_core_or_item_is_this_one(cores: Cores) -> None:
    cores(2)
    assert os.getpid() not in parallel_map(lambda _: os.getpid(), range(4))
    assert parallel_map(lambda _: os.getpid(), range(1)) == [os.getpid()]
    cores(1)
    assert parallel_map(lambda _: os.getpid(), range(4)) == [os.getpid()] * 4


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_call_raises_is_raised(cores: Cores, number: int) -> None:
    cores(number)
    with pytest.raises(KeyError, match="2"):
        parallel_map(lambda item: {0: 0, 1: 1}[item], range(3))
