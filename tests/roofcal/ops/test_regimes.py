"""Regimes of products, at their bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofcal.ops.regimes import REGIMES, gemm_regime


@pytest.mark.parametrize(
    ("m", "n", "k", "regime"),
    [
        (1, 4096, 4096, "decode"),
        (64, 4096, 4096, "decode"),
        (63, 4096, 4096, "decode"),
        (4096, 64, 4096, "decode"),
        (65, 4096, 4096, "ragged"),
        (4096, 4095, 4096, "ragged"),
        (4096, 4096, 4100, "ragged"),
        (8192, 8192, 1024, "skinny_k"),
        (4096, 4096, 1024, "skinny_k"),
        (2048, 8192, 1024, "mid"),
        (1024, 1024, 1024, "small"),
        (1040, 1040, 1040, "mid"),
        (4096, 4096, 4096, "mid"),
        (4112, 4112, 4112, "large"),
    ],
)
def test_a_shape_belongs_to_the_first_regime_that_holds(
    m: int, n: int, k: int, regime: str
) -> None:
    assert gemm_regime(m, n, k) == regime


@given(st.integers(1, 1 << 17), st.integers(1, 1 << 17), st.integers(1, 1 << 17))
def test_every_shape_has_a_regime(m: int, n: int, k: int) -> None:
    assert gemm_regime(m, n, k) in REGIMES
