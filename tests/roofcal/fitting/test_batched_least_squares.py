"""The batched search finds what scipy finds, whatever else is solved beside a problem."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import least_squares

from roofcal.fitting.batched_least_squares import minimise

Array = NDArray[np.float64]

TIMES = np.linspace(0.1, 4.0, 40)
BOUNDS = (np.array([-3.0, -3.0, -6.0]), np.array([3.0, 3.0, 1.0]))
SCALE = 0.05
MEASURED = np.log(2.0 * np.exp(-1.3 * TIMES) + 0.02) + 0.03 * np.sin(37 * TIMES)
FIRST = np.array([0])
MEASURED[7] += 1.5  # an outlier, which the loss is there for


def residuals(parameters: Array, _: NDArray[np.int64]) -> tuple[Array, Array]:
    """log(a exp(-b t) + c) - measured; parameters are log a, log b and log c."""
    a, b, c = (np.exp(parameters[:, i : i + 1]) for i in range(3))
    decay = a * np.exp(-b * TIMES)
    total = decay + c
    derivatives = np.stack([decay / total, -decay * b * TIMES / total, c / total], axis=1)
    return np.log(total) - MEASURED, derivatives


def scipy_fit(weights: Array, start: Array) -> tuple[Array, float]:
    chosen = np.repeat(np.arange(len(TIMES)), weights.astype(int))

    def residual_of_chosen(parameters: Array) -> Array:
        residual, _ = residuals(parameters[None], FIRST)
        return np.asarray(residual[0, chosen])

    solution = least_squares(
        residual_of_chosen,
        start,
        bounds=BOUNDS,
        loss="soft_l1",
        f_scale=SCALE,
        xtol=1e-12,
        ftol=1e-12,
    )
    return solution.x, float(solution.cost) / SCALE**2


def bootstrap_weights(count: int) -> Array:
    random = np.random.default_rng(5)
    draws = random.integers(0, len(TIMES), (count, len(TIMES)))
    return np.array([np.bincount(draw, minlength=len(TIMES)) for draw in draws], dtype=float)


def test_every_problem_ends_where_scipy_ends() -> None:
    weights = bootstrap_weights(12)
    start = np.tile([0.0, 0.0, -2.0], (12, 1))
    found, costs = minimise(residuals, start, BOUNDS, weights, SCALE)
    for index, weight in enumerate(weights):
        parameters, cost = scipy_fit(weight, start[index])
        np.testing.assert_allclose(found[index], parameters, atol=2e-5)
        assert costs[index] == pytest.approx(cost, rel=1e-8)


def test_a_problem_alone_gives_the_bits_that_it_gives_among_others() -> None:
    weights = bootstrap_weights(9)
    start = np.random.default_rng(1).uniform(-1.0, 0.5, (9, 3))
    together, _ = minimise(residuals, start, BOUNDS, weights, SCALE)
    for i in range(9):
        alone, _ = minimise(residuals, start[i : i + 1], BOUNDS, weights[i : i + 1], SCALE)
        assert alone.tobytes() == together[i : i + 1].tobytes()


def test_parameters_stay_within_their_bounds_and_stop_on_them() -> None:
    bounds = (np.array([-3.0, -3.0, -6.0]), np.array([0.2, 3.0, 1.0]))
    start = np.array([[9.0, 0.0, -2.0]])
    found, _ = minimise(residuals, start, bounds, np.ones((1, 40)), SCALE)
    assert found[0, 0] == 0.2
    assert (found >= bounds[0]).all()
    assert (found <= bounds[1]).all()


def test_points_of_weight_zero_do_not_count() -> None:
    weights = np.ones((2, 40))
    weights[1, 7] = 0
    start = np.tile([0.0, 0.0, -2.0], (2, 1))
    found, costs = minimise(residuals, start, BOUNDS, weights, SCALE)
    assert costs[1] < costs[0] - 10
    residual, _ = residuals(found[1:], FIRST)
    assert abs(residual[0, 7] + 1.5) < 0.2


def test_a_search_of_few_steps_does_not_get_worse_than_its_start() -> None:
    start = np.array([[2.5, 2.5, 0.5]])
    costs = [
        minimise(residuals, start, BOUNDS, np.ones((1, 40)), SCALE, steps=steps)[1][0]
        for steps in (0, 1, 2, 4, 80)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]
