"""A small product that is timed for a moment says by how much its turns differ."""

from collections.abc import Iterator
from itertools import count

import pytest

from roofcal.study import steadiness


def test_the_drift_is_the_slowest_turn_over_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([9.0, 1.0, 1.1, 1.05, 1.0, 1.2])  # the first warms up
    monkeypatch.setattr(steadiness, "_median_seconds", lambda *_: next(turns))
    assert steadiness.product_drift() == pytest.approx(0.2)


def test_a_turn_has_one_product_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[int] = count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    assert steadiness.product_drift(seconds=0.0) == 0.0
