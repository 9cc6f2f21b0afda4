"""The statistics of differences against simulations and properties that hold for any numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofcal.core.visits import differences
from roofcal.core.visits.intervals import moderated

PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array)


@settings(max_examples=30)
@given(PROBABILITIES)
def test_adjusted_p_values_never_fall_below_the_raw_and_keep_their_order(
    p: differences.Array,
) -> None:
    q = differences.adjusted(p, np.ones(len(p)))
    assert (q >= p - 1e-12).all()
    assert (q <= 1).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(q[order]) >= 0).all()


@pytest.mark.parametrize(
    ("p", "at_edge", "q"),
    [
        ([0.01, 0.04, 0.03, 0.005], [1.0] * 4, [0.02, 0.04, 0.04, 0.02]),  # a worked example
        # Points that cannot reach the threshold by chance cost the others nothing.
        ([0.01, 0.02, 0.9, 0.9], [0.5, 0.5, 0.0, 0.0], [0.02, 0.02, 1.0, 1.0]),
        ([1e-9, 1e-3], [1e-12, 0.1], [1.0, 1e-3]),  # the first lies below the threshold
    ],
)
def test_adjusted_p_values_are_false_discovery_rates(
    p: list[float], at_edge: list[float], q: list[float]
) -> None:
    assert differences.adjusted(np.array(p), np.array(at_edge)) == pytest.approx(q, rel=1e-6)


def test_groups_come_near_their_mean_where_chance_alone_tells_them_apart() -> None:
    """Over draws, errors of what is returned are a quarter of those of the values themselves."""
    source = np.random.default_rng(5)
    values = source.normal(3, 1, (200, 40))
    shrunk = np.array([differences.shrunk_to_mean(row, np.ones(40)) for row in values])
    assert np.mean((shrunk - 3) ** 2) < 0.25 * np.mean((values - 3) ** 2)
    apart = np.array([0.0, 10.0, 50.0])
    assert differences.shrunk_to_mean(apart, np.full(3, 0.1)) == pytest.approx(apart, abs=0.01)
    assert differences.shrunk_to_mean(apart[:1], np.full(1, 0.1)) == pytest.approx(apart[:1])


@pytest.mark.parametrize("between", [0.0, 0.01])
def test_a_common_shift_is_found_beside_changed_points(between: float) -> None:
    source = np.random.default_rng(1)
    variances = source.uniform(0.5, 2, 400) * 1e-6
    changes = source.normal(-0.027, np.sqrt(variances + between**2))
    changes[:20] += 0.5
    degrees = np.full(400, 1e4)

    shift, error, between_runs = differences.common_shift(changes, variances, degrees)

    assert shift == pytest.approx(-0.027, abs=4 * np.sqrt(error))
    assert np.sqrt(between_runs) == pytest.approx(between, abs=0.002)  # 5 % changed widen it


def test_the_width_of_students_distribution_is_not_taken_for_a_change() -> None:
    source = np.random.default_rng(2)
    residuals = source.standard_t(4, 4000) * 1e-3
    variance = differences.between_variance(residuals, np.full(4000, 1e-6), np.full(4000, 4.0))
    assert variance < 0.1e-6


def test_points_that_scatter_alike_share_what_they_know_and_others_keep_their_own() -> None:
    source = np.random.default_rng(3)
    degrees, chance = np.full(500, 6.0), source.chisquare(6, 500) / 6

    pooled, more = moderated(chance * 4e-6, degrees)
    assert np.std(pooled) < 0.4 * np.std(chance * 4e-6)
    assert more.min() > 20
    assert np.median(pooled) == pytest.approx(4e-6, rel=0.1)

    true = np.exp(source.normal(0, 2, 500)) * 1e-6
    pooled, more = moderated(chance * true, degrees)
    assert more.max() < 8
    assert np.corrcoef(np.log(pooled), np.log(true))[0, 1] > 0.9


def test_verdicts_are_by_evidence_and_by_size() -> None:
    changes = np.array([0.03, -0.03, 0.03, 0.001, 0.015, 0.0])
    half = np.array([0.005, 0.005, 0.005, 0.005, 0.01, 0.05])
    q = np.array([0.01, 0.01, 0.2, 0.9, 0.01, 0.9])
    verdicts = differences.verdicts(changes, half, q, 0.02)
    assert verdicts == ["SLOWER", "FASTER", "AMBIGUOUS", "SAME", "AMBIGUOUS", "AMBIGUOUS"]


@settings(max_examples=30)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.floats(0.001, 0.5))
def test_a_change_and_its_opposite_have_opposite_verdicts(
    values: list[float], threshold: float
) -> None:
    changes, half = np.array(values), np.full(len(values), 0.01)
    opposite = {"SLOWER": "FASTER", "FASTER": "SLOWER"}
    for q in (np.zeros(len(values)), np.ones(len(values))):
        one = differences.verdicts(changes, half, q, threshold)
        other = differences.verdicts(-changes, half, q, threshold)
        assert [opposite.get(name, name) for name in one] == other


def test_scatter_leaves_out_what_is_unknown() -> None:
    assert differences.scatter(np.array([1.0, 2.0, 3.0, np.nan])) == pytest.approx(1.4826)
    assert differences.scatter(np.array([np.nan])) == 0.0


def test_p_values_and_intervals_agree_at_five_percent() -> None:
    errors, degrees = np.array([0.01, 0.02]), np.array([5.0, 500.0])
    half = differences.half_widths(errors, degrees)
    assert differences.p_values(half, errors, degrees) == pytest.approx([0.05, 0.05])
