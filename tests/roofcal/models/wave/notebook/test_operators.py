"""The notebook's operators, against the intermediate figures it prints and by hand."""

from dataclasses import replace

import pytest

from roofcal.models.wave.notebook import operators
from roofcal.models.wave.notebook.device import load_notebook_device

NOTEBOOK = load_notebook_device()


def test_softmax_and_attention_efficiency_are_the_printed_ones() -> None:
    assert operators.softmax_clocks(NOTEBOOK, 256, 128) == 3168.0
    efficiency = operators.attention_efficiency(NOTEBOOK, 0.8, 128, 256, 128)
    assert efficiency == pytest.approx(0.5769014084507043, rel=1e-15)


def test_two_workgroups_a_unit_lose_a_fifth_or_wait_for_the_softmax() -> None:
    scores = 256 * 128 / (2 * 256 * 128 * 128 / 2048)  # per clock; the softmax takes ten
    assert operators.attention_efficiency(NOTEBOOK, 2.0, 128, 256, 128) == 0.8
    slow = {**NOTEBOOK.softmax_per_clock, "exponential": 8.0}  # and now six
    efficiency = operators.attention_efficiency(
        replace(NOTEBOOK, softmax_per_clock=slow), 2.0, 128, 256, 128
    )
    assert efficiency == pytest.approx(6 / scores * 0.8)


def test_between_one_and_two_workgroups_part_of_the_softmax_shows() -> None:
    clocks = 2 * 256 * 128 * 128 / 2048
    expected = 2 * clocks / (2 * clocks + 3168 * 0.5)
    assert operators.attention_efficiency(NOTEBOOK, 1.5, 128, 256, 128) == pytest.approx(expected)


def test_a_tile_of_128_by_hand() -> None:
    l2 = 2 * (256 * 1024 + 128 * 128) / (2 * 128 * 128 * 1024 / 2048)
    assert 16384 / 304 / l2 > 1
    assert operators.gemm_efficiency(NOTEBOOK, 128, 128, 1024) == pytest.approx(1 - 0.05)
    assert operators.gemm_efficiency(NOTEBOOK, 16, 16, 1024) < 0.2


def test_a_part_of_a_tile_counts_as_that_part() -> None:
    assert operators.gemm_utilisation(NOTEBOOK, 64, 128 * 304, (128, 128)) == 0.5
    assert operators.gemm_utilisation(NOTEBOOK, 128, 128 * 304, (128, 128)) == 1.0


def test_few_rows_are_bound_by_memory_in_units_of_its_own() -> None:
    right = 8192 * 8192 * 2 / (4259.84e9 * 0.85)
    wrong = operators.gemm_s(NOTEBOOK, 1, 8192, 8192)
    assert wrong == operators.skinny_s(NOTEBOOK, 1, 8192, 8192)
    assert wrong / right == pytest.approx(1e9 / (2**30 * 1.5e15), rel=1e-12)


def test_memory_and_links_by_hand() -> None:
    assert operators.normalisation_s(NOTEBOOK, 2, 4259840) == pytest.approx(8e-6)
    assert operators.gelu_s(NOTEBOOK, 304 * 256) == pytest.approx(100 / 1.5e9)
    assert operators.latency_s(NOTEBOOK, 8) == pytest.approx(36e-6)
    assert operators.link_bytes_per_s(NOTEBOOK) == pytest.approx(313.6e9)
    assert operators.gather_s(NOTEBOOK, 1568, 10, 2) == pytest.approx(0.5 * 31360 / 313.6e9)
    assert operators.reduce_scatter_s(NOTEBOOK, 2, 100) == pytest.approx(400 / 313.6e9)
    assert operators.reduction_s(NOTEBOOK, 2, 100, 2) == pytest.approx(2400 / 4259.84e9)


def test_attention_takes_the_next_power_of_two() -> None:
    one_head = replace(NOTEBOOK, compute_units=2)
    rows_256, rows_512 = (operators.attention_s(one_head, t, 1, 128) for t in (512, 513))
    assert rows_512 > rows_256
