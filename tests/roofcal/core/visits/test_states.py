"""Which visits of a point are one state, and how several are told apart."""

import pytest

from roofcal.core.visits.states import states_of_visits


def states(*medians: float) -> list[tuple[float, int]]:
    return [(state.seconds, state.visits) for state in states_of_visits(medians)]


def test_visits_within_five_percent_are_one_state() -> None:
    assert states() == []
    assert states(2.0) == [(2.0, 1)]
    assert states(1.05, 1.0, 1.02) == [(1.02, 3)]


def test_the_fastest_state_comes_first_with_the_median_of_its_visits() -> None:
    assert states(121.3, 109.3, 108.7) == [(109.0, 2), (121.3, 1)]


@pytest.mark.parametrize(
    ("medians", "visits"), [((100, 104.9, 105.1), [1, 2]), ((100, 104, 109, 120), [2, 1, 1])]
)
def test_visits_are_cut_at_the_widest_gap(medians: tuple[float, ...], visits: list[int]) -> None:
    assert [count for _, count in states(*medians)] == visits
