"""What other cards say of a constant pulls at its fit, and stands for what no probe tells."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.priors import Known, Prior
from roofcal.fitting.cross_validation import fit_each_recipe, fit_problem, search
from tests.roofcal.fitting.test_cross_validation import (
    LARGE,
    SMALL,
    Powers,
    problem,
)

PRICE = 0.01  # of every small size


def with_prior(
    sizes: Sequence[int], family: str = "linear", slower: float = 3.0, **known: Known
) -> Powers:
    prior = Prior(family=family, constants=known, cards=("one-card", "another"))
    plain = problem(sizes, slower=slower)
    return replace(plain, device=replace(plain.device, priors={("made", "copy"): prior}))


def searched(fitted: Powers) -> dict[str, float]:
    """The constants of the best fit to all probes."""
    space, every = fitted.space("linear"), np.ones((1, len(fitted.probes)))
    (constants,) = search(fitted, "linear", every, space)
    return dict(zip(fitted.names("linear"), constants.tolist(), strict=True))


def test_constants_lie_between_the_probes_and_the_prior_and_many_probes_win() -> None:
    near = Known(1.5 * PRICE, 0.1)
    few, many = (searched(with_prior(SMALL * times, price=near))["price"] for times in (1, 100))
    assert 1.02 * PRICE < few < 0.98 * near.value
    assert PRICE < many < few
    assert many == pytest.approx(PRICE, rel=0.02)


def test_a_prior_far_from_what_probes_say_pulls_no_more_the_farther_it_is() -> None:
    """A square would pull twice as hard at twice the distance, and win."""
    far, farther = (
        searched(with_prior(SMALL * 20, price=Known(times * PRICE, 0.1)))["price"]
        for times in (10, 100)
    )
    assert far == pytest.approx(PRICE, rel=0.1)
    assert farther == pytest.approx(far, rel=0.02)


def test_the_prior_of_another_family_is_ignored() -> None:
    near = Known(1.5 * PRICE, 0.02)
    assert searched(with_prior(SMALL, "square", price=near)) == pytest.approx(
        searched(problem(SMALL)), nan_ok=True
    )


def test_a_constant_that_no_probe_tells_keeps_the_prior_with_its_deviation() -> None:
    held = with_prior(SMALL, large_price=Known(0.05, 0.1))

    result = fit_problem(held, np.random.default_rng(0))

    expected = 0.05 * np.exp([0.0, -0.196, 0.196])
    assert result.constants["large_price"] == pytest.approx(tuple(expected), rel=1e-4)
    assert result.constants["price"][0] == pytest.approx(PRICE, rel=1e-3)
    assert result.fixed == result.left_out == ()
    without = fit_problem(problem(SMALL), np.random.default_rng(0))
    assert "large_price" not in without.constants


def test_a_prior_outside_of_the_bounds_of_a_search_widens_them() -> None:
    """Large sizes cost 3.0 each, and the equation searches up to 1.0."""
    sizes = [*SMALL, *LARGE * 10]
    assert searched(problem(sizes, slower=300.0))["large_price"] == pytest.approx(1.0)
    widened = with_prior(sizes, slower=300.0, large_price=Known(2.5, 0.3))
    assert searched(widened)["large_price"] == pytest.approx(3.0, rel=0.02)


def test_the_evidence_of_a_constant_names_the_cards() -> None:
    def evidence(fitted: Powers) -> str:
        generator = np.random.default_rng(0)
        result = fit_each_recipe(Powers, fitted.probes, fitted.device, generator)
        return result.constants["stream.made.copy.price"].evidence

    assert evidence(problem(SMALL)) == "probe_copy, 19 sizes, linear"
    known = with_prior(SMALL, price=Known(PRICE, 0.1))
    assert evidence(known) == "probe_copy, 19 sizes, linear, prior of one-card and another"
