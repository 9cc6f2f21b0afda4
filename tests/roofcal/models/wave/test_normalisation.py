"""LayerNorm by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofcal.models.errors import PredictError
from roofcal.models.wave.normalisation import normalisation
from tests.roofcal.models.runs import WAVE


def test_many_rows_are_bound_by_memory() -> None:
    found = normalisation(WAVE, 4096, 8192)
    assert found.total_s == pytest.approx(1e-6 + 2 * 4096 * 8192 * 2 / 2e12)
    assert found.bound_by == "dram"


def test_the_residual_is_read_and_written_too() -> None:
    plain = normalisation(WAVE, 4096, 8192).parts["dram"]
    assert normalisation(WAVE, 4096, 8192, residual=True).parts["dram"] == 2 * plain


def test_slow_lanes_bound_it() -> None:
    found = normalisation(replace(WAVE, vector_per_clock=1.0), 150, 8192)
    assert found.bound_by == "vector"
    assert found.total_s == pytest.approx(1e-6 + 2 * (8192 * 7 + 100) / 1e9)


@given(rows=st.integers(1, 10_000), columns=st.integers(1, 20_000), more=st.integers(1, 1000))
def test_more_never_takes_less(rows: int, columns: int, more: int) -> None:
    before = normalisation(WAVE, rows, columns).total_s
    assert normalisation(WAVE, rows + more, columns).total_s >= before
    assert normalisation(WAVE, rows, columns + more).total_s >= before


def test_no_rows_are_named() -> None:
    with pytest.raises(PredictError, match="normalisation: rows=0"):
        normalisation(WAVE, 0, 8)
