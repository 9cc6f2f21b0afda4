"""Intervals cover as often as they say, and always hold the value."""

import numpy as np

from roofcal.fitting.intervals import ceiling, interval


def test_the_interval_of_a_mean_covers_it_most_of_the_time() -> None:
    source = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        x = source.normal(5.0, 1.0, 40)
        low, high = interval(40, lambda i, x=x: np.asarray(x[i].mean()), source)  # type: ignore[misc]
        hits += bool(low <= 5.0 <= high)
    assert 0.88 <= hits / 200 <= 0.99


def test_a_ceiling_holds_its_own_value() -> None:
    constant = ceiling(3.0, 3.5, 4.0, "s", "test")
    assert (constant.ci95_low, constant.ci95_high) == (3.0, 4.0)
