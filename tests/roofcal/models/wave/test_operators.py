"""Kernels that memory and the vector units bound, and collectives, by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofcal.core.devices import WaveDevice
from roofcal.models.errors import PredictError
from roofcal.models.wave.operators import (
    OperatorTime,
    activation,
    all_gather,
    all_reduce,
    check_sizes,
    normalisation,
    send,
    used_bytes_per_s,
)
from tests.roofcal.models.runs import WAVE

Collective = Callable[[WaveDevice, int, int], OperatorTime]
BOTH: list[Collective] = [all_gather, all_reduce]


def test_normalising_many_rows_is_bound_by_memory_which_the_residual_doubles() -> None:
    time = normalisation(WAVE, 4096, 8192)
    assert time.total_s == pytest.approx(1e-6 + 2 * 4096 * 8192 * 2 / 2e12)
    assert time.bound_by == "dram"
    assert normalisation(WAVE, 4096, 8192, residual=True).parts["dram"] == 2 * time.parts["dram"]


def test_an_activation_is_bound_by_memory_and_reads_one_input_less_without_a_gate() -> None:
    gated, plain = (activation(WAVE, 10**8, gated=gated) for gated in (True, False))
    assert gated.total_s == pytest.approx(1e-6 + 3 * 10**8 * 2 / 2e12)
    assert gated.bound_by == "dram"
    assert plain.parts["dram"] == pytest.approx(gated.parts["dram"] * 2 / 3)
    slow = replace(WAVE, activation_clocks_per_element={"silu": 20.0})
    assert activation(slow, 10**8).bound_by == "vector"
    assert activation(WAVE, 10**8, function="gelu").parts["vector"] == pytest.approx(4e-4)


def test_a_mesh_uses_the_links_among_the_ranks_alone() -> None:
    assert used_bytes_per_s(WAVE, 8) == pytest.approx(200e9)
    assert used_bytes_per_s(WAVE, 2) == pytest.approx(200e9 / 7)
    assert used_bytes_per_s(replace(WAVE, link_peers=1), 2) == pytest.approx(200e9)


def test_an_all_gather_by_hand() -> None:
    time = all_gather(WAVE, 10**9, 8)
    assert time.total_s == pytest.approx(3 * 10e-6 + 7 / 8 * 1e9 / 200e9)
    assert time.bound_by == "link"
    assert all_gather(WAVE, 8, 8).bound_by == "latency"


def test_an_all_reduce_sends_twice_and_adds_its_share_in_memory() -> None:
    sent = 2 * all_gather(WAVE, 10**9, 4).total_s
    assert all_reduce(WAVE, 10**9, 4).total_s == pytest.approx(sent + 5 / 4 * 1e9 / 2e12)


@pytest.mark.parametrize("collective", BOTH)
def test_one_rank_has_nothing_to_exchange_and_too_many_are_refused(collective: Collective) -> None:
    assert collective(WAVE, 10**9, 1).total_s == 0
    with pytest.raises(PredictError, match="16 ranks: the links of made-up reach 8"):
        collective(WAVE, 10**9, 16)
    with pytest.raises(PredictError, match="nbytes=0, ranks=0"):
        collective(WAVE, 0, 0)


SIZES = st.integers(1, 10**6)


@given(rows=SIZES, columns=SIZES, more=SIZES, ranks=st.integers(2, 8))
def test_more_never_takes_less(rows: int, columns: int, more: int, ranks: int) -> None:
    before = normalisation(WAVE, rows, columns).total_s
    assert normalisation(WAVE, rows + more, columns).total_s >= before
    assert normalisation(WAVE, rows, columns + more).total_s >= before
    for collective in BOTH:
        shorter = collective(WAVE, rows * columns, ranks).total_s
        assert collective(WAVE, rows * columns + more, ranks).total_s >= shorter


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "4"])
def test_a_size_that_is_none_is_named(size: object) -> None:
    with pytest.raises(PredictError, match=r"product: m=.* must be a whole number from 1"):
        check_sizes("product", m=size, n=4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "message"), [("sillu", "did you mean 'silu'"), ("tanh", "allowed: gelu, silu")]
)
def test_an_unknown_function_names_the_file(function: str, message: str) -> None:
    with pytest.raises(PredictError, match=rf"config/devices/made-up\.yaml: wave\.act.*{message}"):
        activation(WAVE, 10, function=function)


def test_a_send_uses_the_link_between_two() -> None:
    assert send(WAVE, 10**9).total_s == pytest.approx(10e-6 + 1e9 * 7 / 200e9)
