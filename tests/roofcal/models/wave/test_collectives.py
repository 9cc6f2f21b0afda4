"""Collectives by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofcal.core.wave_device import WaveDevice
from roofcal.models.errors import PredictError
from roofcal.models.wave.collectives import (
    all_gather,
    all_reduce,
    reduce_scatter,
    reduction_seconds,
    send,
    used_bytes_per_s,
)
from roofcal.models.wave.operator_time import OperatorTime
from tests.roofcal.models.runs import WAVE

Collective = Callable[[WaveDevice, int, int], OperatorTime]
ALL: list[Collective] = [all_gather, reduce_scatter, all_reduce]
SWITCHED = replace(WAVE, link_peers=1)


def test_a_mesh_uses_the_links_among_the_ranks_alone() -> None:
    assert used_bytes_per_s(WAVE, 8) == pytest.approx(200e9)
    assert used_bytes_per_s(WAVE, 2) == pytest.approx(200e9 / 7)
    assert used_bytes_per_s(SWITCHED, 2) == pytest.approx(200e9)


def test_an_all_gather_by_hand() -> None:
    time = all_gather(WAVE, 10**9, 8)
    assert time.total_s == pytest.approx(3 * 10e-6 + 7 / 8 * 1e9 / 200e9)
    assert time.bound_by == "link"


def test_a_small_one_is_bound_by_latency() -> None:
    assert all_gather(WAVE, 8, 8).bound_by == "latency"


def test_a_reduce_scatter_adds_its_share_in_memory() -> None:
    time = reduce_scatter(WAVE, 10**9, 4)
    assert reduction_seconds(WAVE, 10**9, 4) == pytest.approx(5 / 4 * 1e9 / 2e12)
    gathered = all_gather(WAVE, 10**9, 4).total_s
    assert time.total_s == pytest.approx(gathered + 5 / 4 * 1e9 / 2e12)


def test_an_all_reduce_is_both() -> None:
    both = all_gather(WAVE, 10**8, 4).total_s + reduce_scatter(WAVE, 10**8, 4).total_s
    assert all_reduce(WAVE, 10**8, 4).total_s == pytest.approx(both)


@pytest.mark.parametrize("collective", ALL)
def test_one_rank_has_nothing_to_exchange(collective: Collective) -> None:
    assert collective(WAVE, 10**9, 1).total_s == 0


@pytest.mark.parametrize("collective", ALL)
def test_mistakes_are_named(collective: Collective) -> None:
    with pytest.raises(PredictError, match="16 ranks: the links of made-up reach 8"):
        collective(WAVE, 10**9, 16)
    with pytest.raises(PredictError, match="nbytes=0, ranks=0"):
        collective(WAVE, 0, 0)


@given(nbytes=st.integers(1, 10**10), more=st.integers(1, 10**10), ranks=st.integers(2, 8))
def test_more_bytes_never_take_less(nbytes: int, more: int, ranks: int) -> None:
    for collective in ALL:
        shorter = collective(WAVE, nbytes, ranks).total_s
        assert collective(WAVE, nbytes + more, ranks).total_s >= shorter


def test_a_send_uses_the_link_between_two() -> None:
    assert send(WAVE, 10**9).total_s == pytest.approx(10e-6 + 1e9 * 7 / 200e9)
    with pytest.raises(PredictError, match="send: nbytes=0"):
        send(WAVE, 0)
