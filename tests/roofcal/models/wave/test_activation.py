"""GELU and SiLU by hand."""

from dataclasses import replace

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.wave.activation import activation
from tests.roofcal.models.runs import WAVE


def test_a_kernel_of_its_own_is_bound_by_memory() -> None:
    found = activation(WAVE, 10**8)
    assert found.total_s == pytest.approx(1e-6 + 3 * 10**8 * 2 / 2e12)
    assert found.bound_by == "dram"


def test_one_input_less_without_a_gate() -> None:
    gated, plain = (activation(WAVE, 10**8, gated=gated).parts["dram"] for gated in (True, False))
    assert plain == pytest.approx(gated * 2 / 3)


def test_fused_it_costs_clocks_alone() -> None:
    found = activation(WAVE, 10**8, function="gelu", fused=True)
    assert found.total_s == pytest.approx(10**6 * 0.4 / 1e9)
    assert found.bound_by == "vector"


def test_slow_lanes_bound_it() -> None:
    slow = replace(WAVE, activation_clocks_per_element={"silu": 20.0})
    assert activation(slow, 10**8).bound_by == "vector"


@pytest.mark.parametrize(
    ("function", "says"), [("sillu", "did you mean 'silu'"), ("tanh", "it has silu, gelu")]
)
def test_an_unknown_function_names_the_file(function: str, says: str) -> None:
    with pytest.raises(PredictError, match=rf"config/devices/made-up\.yaml: wave\.act.*{says}"):
        activation(WAVE, 10, function=function)


def test_no_elements_are_named() -> None:
    with pytest.raises(PredictError, match="activation: elements=0"):
        activation(WAVE, 0)
