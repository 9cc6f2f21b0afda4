"""The median and an interval that covers it as often as it says."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofcal.core.statistics import order_statistic_rank, sqnr_db, summarise


@pytest.mark.parametrize(("count", "rank"), [(1, 0), (5, 0), (6, 0), (9, 1), (12, 2), (25, 7)])
def test_ranks_are_those_of_the_binomial_table(count: int, rank: int) -> None:
    assert order_statistic_rank(count) == rank
    if count >= 6:
        tail = sum(math.comb(count, i) for i in range(rank + 1)) / 2**count
        wider = tail + math.comb(count, rank + 1) / 2**count
        assert 2 * tail <= 0.05 < 2 * wider


@pytest.mark.parametrize("count", [7, 60, 401])
def test_the_interval_covers_the_median_of_a_skewed_distribution(count: int) -> None:
    source = random.Random(count)
    truth = math.log(2)
    hits = 0
    for _ in range(400):
        summary = summarise([source.expovariate(1) for _ in range(count)])
        hits += summary.ci95_low <= truth <= summary.ci95_high
    assert hits / 400 >= 0.92


@settings(max_examples=30)
@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_the_interval_holds_the_median_and_lies_within_the_samples(samples: list[float]) -> None:
    summary = summarise(samples)
    assert min(samples) <= summary.ci95_low <= summary.median <= summary.ci95_high <= max(samples)
    assert summary.count == len(samples)


def test_few_samples_are_never_known_well_and_none_are_an_error() -> None:
    assert summarise([1.0] * 5).half_width_fraction == math.inf
    assert summarise([1.0] * 6).half_width_fraction == 0
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_noise_over_signal_in_decibels() -> None:
    decibels = [sqnr_db(error) for error in (1.0, 0.1, 2.0, 0.0)]
    assert decibels == pytest.approx([0.0, 20.0, -6.0206, math.inf], abs=1e-4)
