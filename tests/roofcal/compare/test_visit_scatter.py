"""The variance of points within two runs, where the true one is known."""

import numpy as np
import pytest

from roofcal.compare.visit_scatter import Scatter, moderated_in_groups

POINTS, GROUPS, DEGREES, TURN_DEGREES = 300, 10, 2.0, 24.0


def visits_of(
    between: np.ndarray, of_turns: np.ndarray, seed: int
) -> tuple[Scatter, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Arguments of moderated_in_groups: two visits in either run, in groups of thirty points."""
    source = np.random.default_rng(seed)
    chance = source.chisquare(DEGREES, POINTS) / DEGREES
    own = Scatter((between + of_turns) * chance, np.full(POINTS, DEGREES))
    turns = of_turns * source.chisquare(TURN_DEGREES, POINTS) / TURN_DEGREES
    groups = [np.arange(POINTS) % GROUPS == number for number in range(GROUPS)]
    return own, turns, np.full(POINTS, TURN_DEGREES), groups


def test_visits_that_scatter_alike_know_their_variance_from_their_group() -> None:
    between = np.full(POINTS, 25e-6)
    of_turns = np.exp(np.random.default_rng(0).normal(0, 1, POINTS)) * 1e-6
    scatter = moderated_in_groups(*visits_of(between, of_turns, seed=1))
    off = np.log(scatter.variance / (between + of_turns))
    assert abs(off.mean()) < 0.1
    assert off.std() < 0.4
    assert np.median(scatter.degrees) > 15


def test_a_point_whose_turns_scatter_more_has_visits_that_do() -> None:
    of_turns = np.where(np.arange(POINTS) < POINTS // 2, 1e-6, 100e-6)
    scatter = moderated_in_groups(*visits_of(np.full(POINTS, 4e-6), of_turns, seed=2))
    calm, restless = np.split(scatter.variance, 2)
    assert np.median(calm) == pytest.approx(5e-6, rel=0.3)
    assert np.median(restless) == pytest.approx(104e-6, rel=0.3)


def test_restless_groups_do_not_make_calm_ones_uncertain_and_calm_ones_do_not_calm_them() -> None:
    restless = np.arange(POINTS) % GROUPS < GROUPS // 2
    jumps = np.exp(np.random.default_rng(5).normal(0, 2, POINTS)) * 25e-6
    between = np.where(restless, jumps, 25e-6)
    scatter = moderated_in_groups(*visits_of(between, np.full(POINTS, 1e-6), seed=6))
    assert np.median(scatter.degrees[restless]) < 6
    assert np.median(scatter.degrees[~restless]) > 1.5 * np.median(scatter.degrees[restless])


def test_points_outside_of_groups_keep_their_own_and_turns_are_not_needed() -> None:
    own, turns, turn_degrees, groups = visits_of(np.ones(POINTS), np.ones(POINTS), seed=7)
    assert moderated_in_groups(own, turns, turn_degrees, []) is own
    scatter = moderated_in_groups(own, turns, turn_degrees, groups[:1])
    assert (scatter.variance[~groups[0]] == own.variance[~groups[0]]).all()
    assert (scatter.degrees[~groups[0]] == DEGREES).all()
    alike, none, _, groups = visits_of(np.full(POINTS, 25e-6), np.zeros(POINTS), seed=8)
    scatter = moderated_in_groups(alike, none, np.zeros(POINTS), groups)
    assert np.log(scatter.variance / 25e-6).std() < 0.5
