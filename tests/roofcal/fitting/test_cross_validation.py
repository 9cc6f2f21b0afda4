"""The generic fit: families, stages and index sets of a problem whose truth is known."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from roofcal.core.statistics import summarise
from roofcal.core.times import Array
from roofcal.fitting import cross_validation
from roofcal.fitting.cross_validation import (
    Problem,
    Stage,
    choose_families,
    fit_problem,
    held_out_log_errors,
    judging_families,
    problems_of,
    search,
)
from roofcal.fitting.probes import CalibrationError, Probe
from roofcal.ops.constants import Constant, Search, by_name
from tests.roofcal.calibrate.probe_runs import device_with
from tests.roofcal.made_up_records import point_of, row

POWERS = {"linear": 1.0, "square": 2.0}
PRICE = Search(1e-3, 1e-6, 1.0)


class Powers(Problem):
    """seconds = start + price * size ** power; sizes beyond 100 have a price of their own."""

    equation = SimpleNamespace(
        OP=SimpleNamespace(name="stream", axes=("size",)),
        FAMILY="power",
        FAMILIES=POWERS,
        GROUPS={},
        groups_of=lambda _, sizes: ["all"] * len(sizes[0]),
        CONSTANTS=by_name(
            Constant("start", "s", "Start", Search(1.0, 1e-3, 1e3)),
            Constant("price", "s", "Price of a size", PRICE),
            Constant("large_price", "s", "Price of a large size", PRICE),
        ),
    )
    noun = "sizes"
    least_probes = 6
    folds = 4
    quick_folds = 2
    families = tuple(POWERS)
    quantities = {}  # noqa: RUF012

    def constants(self, family: str) -> Sequence[str]:  # noqa: ARG002
        return tuple(self.equation.CONSTANTS)

    def stages(self, family: str) -> Sequence[Stage]:  # noqa: ARG002
        small = self.sizes[0] <= 100
        return [Stage(("start", "price"), small), Stage(("large_price",), ~small, 3)]

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        start, price, large_price = np.moveaxis(constants, -1, 0)[..., None]
        large_price = np.where(np.isnan(large_price), price, large_price)
        own = np.where(self.sizes > 100, large_price, price)
        return np.asarray(start + own * self.sizes ** POWERS[family])


def problem(sizes: Sequence[int], power: float = 1.0, slower: float = 3.0) -> Powers:
    probes = []
    for size in sizes:
        price = 0.01 * (slower if size > 100 else 1.0)
        seconds = 2.0 + price * size**power
        point = point_of("probe_copy", "copy", {"size": size})
        latency = summarise([seconds] * 6)
        probes.append(Probe(point=point, measurement=row(), latency=latency))
    return Powers(probes=probes, device=device_with())


SMALL = list(range(5, 100, 5))
LARGE = [200, 300, 400, 500]


@pytest.mark.parametrize("family", POWERS)
def test_the_family_that_predicts_probes_left_out_is_chosen(family: str) -> None:
    every = np.ones((1, len(SMALL)))
    (chosen,), log_errors = choose_families(problem(SMALL, POWERS[family]), every)
    assert list(POWERS)[chosen] == family
    assert log_errors.shape == (len(POWERS), *every.shape)
    assert np.abs(log_errors[chosen]).max() < 1e-4


def test_a_family_that_leaves_a_probe_without_a_time_is_not_chosen_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = {"linear": [[0.1, 0.1, np.nan]], "square": [[np.nan, 0.15, np.nan]]}
    monkeypatch.setattr(
        cross_validation, "_left_out_errors", lambda _, family, *__: np.array(errors[family])
    )
    three = problem(SMALL[:3])

    (chosen,), log_errors = choose_families(three, np.ones((1, 3)))

    assert chosen == 0  # the last probe, which no family predicts, decides nothing
    assert judging_families(three, log_errors).tolist()[:2] == [0, 0]


def test_each_subset_has_a_family_and_errors_of_its_own() -> None:
    """A fit of a subset is that of its probes alone: bounds, folds and family."""
    square = problem(SMALL, 2.0)
    mixed = replace(square, probes=[*problem(SMALL).probes, *square.probes])
    subsets = np.zeros((2, 2 * len(SMALL)))
    subsets[0, : len(SMALL)] = subsets[1, len(SMALL) :] = 1.0
    chosen, log_errors = choose_families(mixed, subsets)
    assert chosen.tolist() == [0, 1]
    assert (np.isnan(log_errors) == (subsets == 0)).all()
    _, alone = choose_families(square, np.ones((1, len(SMALL))))
    assert log_errors[1, 1, len(SMALL) :] == pytest.approx(alone[1, 0], abs=1e-9)


def test_a_search_answers_every_row_of_weights_and_leaves_what_they_do_not_tell_unknown() -> None:
    both = problem([*SMALL, *LARGE])
    every = np.ones(len(both.probes))
    without_two = np.where(np.arange(len(every)) < len(every) - 2, 1.0, 0.0)
    weights = np.array([every, without_two, 2 * every])
    constants = search(both, "linear", weights, both.space("linear"))
    assert constants.shape == (3, 3)
    assert constants[:, :2] == pytest.approx(np.array([[2.0, 0.01]] * 3), rel=1e-3)
    assert constants[0, 2] == pytest.approx(0.03, rel=1e-3)
    assert np.isnan(constants[1, 2])  # two large sizes are too few
    assert constants[2] == pytest.approx(constants[0], rel=1e-6)


def test_a_fit_has_intervals_that_hold_its_constants_and_no_unknown_ones() -> None:
    for sizes, names in (([*SMALL, *LARGE], 3), ([*SMALL, *LARGE[:2]], 2)):
        same = problem(sizes, slower=1.0)
        result, again = (fit_problem(same, np.random.default_rng(0)) for _ in range(2))
        assert result.family == "linear"
        assert len(result.constants) == names
        for value, low, high in result.constants.values():
            assert low <= value * (1 + 1e-3)
            assert high >= value * (1 - 1e-3)
        assert result.constants == again.constants  # equal draws fit alike


def test_a_fit_is_judged_on_probes_that_it_has_not_seen() -> None:
    subset = np.array([[1.0] * len(SMALL) + [0.0] * 2])
    log_errors = held_out_log_errors(problem([*SMALL, 7, 61]), subset)
    assert np.abs(log_errors).max() < 1e-3
    others = problem([7, 61], power=1.5)
    wrong = Powers(probes=[*problem(SMALL).probes, *others.probes], device=others.device)
    assert np.abs(held_out_log_errors(wrong, subset)[:, -2:]).max() > 0.1


def test_too_few_probes_are_named_and_no_group_of_a_fit() -> None:
    few = problem(SMALL[:5])
    with pytest.raises(CalibrationError, match="made copy: 5 sizes in probe_copy, needs 6"):
        fit_problem(few, np.random.default_rng(0))
    with pytest.raises(CalibrationError, match="needs 6; measure more"):
        held_out_log_errors(problem(SMALL), np.array([[1.0] * 5 + [0.0] * 14]))
    assert list(problems_of(Powers, few.probes, few.device)) == []


# A fit wants six probes, here three of a recipe beside others.
@pytest.mark.parametrize(
    ("joint", "beside", "groups"),
    [
        *((False, 19, [19, 19]), (False, 5, [19])),
        *((True, 19, [38]), (True, 3, [22]), (True, 2, [19])),
    ],
)
def test_recipes_are_fitted_apart_or_together(joint: bool, beside: int, groups: list[int]) -> None:
    probes = list(problem(SMALL).probes)
    probes += [replace(p, point=replace(p.point, recipe="read")) for p in probes[:beside]]

    class Groups(Powers):
        joint_recipes = joint
        least_of_recipe = 3

    problems = problems_of(Groups, probes, device_with())
    assert [len(group.probes) for group in problems] == groups


def noisy(sizes: Sequence[int]) -> Powers:
    source, exact = np.random.default_rng(7), problem(sizes)
    factors = np.exp(0.1 * source.normal(size=len(sizes))).tolist()
    probes = [
        replace(probe, latency=summarise([probe.latency.median * factor] * 6))
        for probe, factor in zip(exact.probes, factors, strict=True)
    ]
    return replace(exact, probes=probes)


@pytest.mark.parametrize(
    ("fits", "left_out"), [(60, [[p] for p in range(19)]), (5, [[2, 7, 12, 17]])]
)
def test_the_error_of_a_probe_is_that_of_a_fit_without_it_and_of_many_without_several(
    monkeypatch: pytest.MonkeyPatch, fits: int, left_out: list[list[int]]
) -> None:
    monkeypatch.setattr(cross_validation, "_MOST_LEFT_OUT", fits)
    scattered = noisy(SMALL)
    result = fit_problem(scattered, np.random.default_rng(0))
    space = scattered.space(result.family)
    for places in left_out:
        others = np.ones((1, len(SMALL)))
        others[0, places] = 0.0
        constants = search(scattered, result.family, others, space)
        expected = scattered.log_errors(result.family, constants)[0, places]
        assert result.log_errors[places] == pytest.approx(expected, abs=1e-6)
