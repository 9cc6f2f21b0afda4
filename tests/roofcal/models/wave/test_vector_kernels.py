"""LayerNorm, GELU and SiLU by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofcal.models.errors import PredictError
from roofcal.models.wave.vector_kernels import activation, normalisation
from tests.roofcal.models.runs import WAVE


def test_normalising_many_rows_is_bound_by_memory() -> None:
    time = normalisation(WAVE, 4096, 8192)
    assert time.total_s == pytest.approx(1e-6 + 2 * 4096 * 8192 * 2 / 2e12)
    assert time.bound_by == "dram"


def test_the_residual_is_read_and_written_too() -> None:
    plain = normalisation(WAVE, 4096, 8192).parts["dram"]
    assert normalisation(WAVE, 4096, 8192, residual=True).parts["dram"] == 2 * plain


def test_slow_lanes_bound_a_normalisation() -> None:
    time = normalisation(replace(WAVE, vector_per_clock=1.0), 150, 8192)
    assert time.bound_by == "vector"
    assert time.total_s == pytest.approx(1e-6 + 2 * (8192 * 7 + 100) / 1e9)


@given(rows=st.integers(1, 10_000), columns=st.integers(1, 20_000), more=st.integers(1, 1000))
def test_normalising_more_never_takes_less(rows: int, columns: int, more: int) -> None:
    before = normalisation(WAVE, rows, columns).total_s
    assert normalisation(WAVE, rows + more, columns).total_s >= before
    assert normalisation(WAVE, rows, columns + more).total_s >= before


def test_a_normalisation_of_no_rows_is_refused() -> None:
    with pytest.raises(PredictError, match="normalisation: rows=0"):
        normalisation(WAVE, 0, 8)


def test_an_activation_kernel_is_bound_by_memory() -> None:
    time = activation(WAVE, 10**8)
    assert time.total_s == pytest.approx(1e-6 + 3 * 10**8 * 2 / 2e12)
    assert time.bound_by == "dram"


def test_an_activation_without_a_gate_reads_one_input_less() -> None:
    gated, plain = (activation(WAVE, 10**8, gated=gated).parts["dram"] for gated in (True, False))
    assert plain == pytest.approx(gated * 2 / 3)


def test_a_fused_activation_costs_clocks_alone() -> None:
    time = activation(WAVE, 10**8, function="gelu", fused=True)
    assert time.total_s == pytest.approx(10**6 * 0.4 / 1e9)
    assert time.bound_by == "vector"


def test_slow_lanes_bound_an_activation() -> None:
    slow = replace(WAVE, activation_clocks_per_element={"silu": 20.0})
    assert activation(slow, 10**8).bound_by == "vector"


@pytest.mark.parametrize(
    ("function", "message"), [("sillu", "did you mean 'silu'"), ("tanh", "allowed: gelu, silu")]
)
def test_an_unknown_function_names_the_file(function: str, message: str) -> None:
    with pytest.raises(PredictError, match=rf"config/devices/made-up\.yaml: wave\.act.*{message}"):
        activation(WAVE, 10, function=function)


def test_an_activation_of_no_elements_is_refused() -> None:
    with pytest.raises(PredictError, match="activation: elements=0"):
        activation(WAVE, 0)
