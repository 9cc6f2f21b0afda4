"""The generic fit: families, stages and index sets of a problem whose truth is known."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.statistics import summarise
from roofcal.core.times import Array
from roofcal.fitting import cross_validation
from roofcal.fitting.cross_validation import (
    Method,
    Problem,
    SearchSpace,
    Stage,
    choose_families,
    fit_problem,
    held_out_log_errors,
    search,
)
from roofcal.fitting.probes import CalibrationError, Probe
from tests.roofcal.calibrate.probe_runs import device_with
from tests.roofcal.made_up_records import point_of, row

POWERS = {"linear": 1.0, "square": 2.0}


class Powers(Problem):
    """seconds = start + price * size ** power; sizes beyond 100 have a price of their own."""

    axes = ("size",)
    families = tuple(POWERS)

    def space(self, family: str) -> SearchSpace:  # noqa: ARG002
        low, start, high = np.log([[1e-3, 1e-6, 1e-6], [1.0, 1e-3, 1e-3], [1e3, 1.0, 1.0]])
        names = ("start", "price", "large_price")
        return SearchSpace(names=names, low=low, high=high, starts=start[None])

    def stages(self, family: str) -> Sequence[Stage]:  # noqa: ARG002
        small = self.sizes[0] <= 100
        return [
            Stage(names=("start", "price"), probes=small),
            Stage(names=("large_price",), probes=~small, least_probes=3),
        ]

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        start, price, large_price = np.moveaxis(constants, -1, 0)[..., None]
        large_price = np.where(np.isnan(large_price), price, large_price)
        own = np.where(self.sizes > 100, large_price, price)
        return np.asarray(start + own * self.sizes ** POWERS[family])


METHOD = Method(problem=Powers, noun="sizes", least_probes=6, folds=4, quick_folds=2, soft=0.1)


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
    (chosen,), log_errors = choose_families(problem(SMALL, POWERS[family]), METHOD, every)
    assert chosen == family
    assert log_errors.shape == every.shape
    assert np.abs(log_errors).max() < 1e-4


def test_a_family_that_leaves_a_probe_without_a_time_is_not_chosen_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = {"linear": [[0.1, 0.1, np.nan]], "square": [[np.nan, 0.15, np.nan]]}
    monkeypatch.setattr(
        cross_validation, "_left_out_errors", lambda _, family, *__: np.array(errors[family])
    )

    families, chosen = choose_families(problem(SMALL[:3]), METHOD, np.ones((1, 3)))

    assert families == ["linear"]  # the last probe, which no family predicts, decides nothing
    assert chosen.tolist()[0][:2] == [0.1, 0.1]


def test_each_subset_has_a_family_and_errors_of_its_own() -> None:
    """A fit of a subset is that of its probes alone: bounds, folds and family."""
    mixed = problem([*SMALL, *SMALL])
    square = problem(SMALL, 2.0)
    mixed = Powers(probes=[*mixed.probes[: len(SMALL)], *square.probes], device=mixed.device)
    subsets = np.zeros((2, 2 * len(SMALL)))
    subsets[0, : len(SMALL)] = subsets[1, len(SMALL) :] = 1.0
    families, log_errors = choose_families(mixed, METHOD, subsets)
    assert families == ["linear", "square"]
    assert (np.isnan(log_errors) == (subsets == 0)).all()
    alone = choose_families(square, METHOD, np.ones((1, len(SMALL))))[1]
    assert log_errors[1, len(SMALL) :] == pytest.approx(alone[0], abs=1e-9)


def test_a_search_answers_every_row_of_weights_and_leaves_what_they_do_not_tell_unknown() -> None:
    both = problem([*SMALL, *LARGE])
    every = np.ones(len(both.probes))
    without_two = np.where(np.arange(len(every)) < len(every) - 2, 1.0, 0.0)
    weights = np.array([every, without_two, 2 * every])
    constants = search(both, "linear", weights, both.space("linear"), METHOD)
    assert constants.shape == (3, 3)
    assert constants[:, :2] == pytest.approx(np.array([[2.0, 0.01]] * 3), rel=1e-3)
    assert constants[0, 2] == pytest.approx(0.03, rel=1e-3)
    assert np.isnan(constants[1, 2])  # two large sizes are too few
    assert constants[2] == pytest.approx(constants[0], rel=1e-6)


def test_a_fit_has_intervals_that_hold_its_constants_and_no_unknown_ones() -> None:
    for sizes, names in (([*SMALL, *LARGE], 3), ([*SMALL, *LARGE[:2]], 2)):
        result = fit_problem(problem(sizes, slower=1.0), METHOD, np.random.default_rng(0))
        assert result.family == "linear"
        assert len(result.constants) == len(result.intervals) == names
        for name, value in result.constants.items():
            low, high = result.intervals[name]
            assert low <= value * (1 + 1e-3)
            assert high >= value * (1 - 1e-3)


def test_resamples_from_the_best_fit_leave_alone_what_it_did_and_equal_draws_fit_alike() -> None:
    method = replace(METHOD, resample_from_best=True)
    two_large = problem([*SMALL, *LARGE[:2]], slower=1.0)
    once, again = (fit_problem(two_large, method, np.random.default_rng(0)) for _ in range(2))
    assert set(once.constants) == {"start", "price"}
    assert (once.constants, once.intervals) == (again.constants, again.intervals)


def test_a_fit_is_judged_on_probes_that_it_has_not_seen() -> None:
    subset = np.array([[1.0] * len(SMALL) + [0.0] * 2])
    log_errors = held_out_log_errors(problem([*SMALL, 7, 61]), METHOD, subset)
    assert np.abs(log_errors).max() < 1e-3
    others = problem([7, 61], power=1.5)
    wrong = Powers(probes=[*problem(SMALL).probes, *others.probes], device=others.device)
    assert np.abs(held_out_log_errors(wrong, METHOD, subset)[:, -2:]).max() > 0.1


def test_too_few_probes_are_named_and_no_group_of_a_fit() -> None:
    few = problem(SMALL[:5])
    with pytest.raises(CalibrationError, match="made copy: 5 sizes in probe_copy, needs 6"):
        fit_problem(few, METHOD, np.random.default_rng(0))
    with pytest.raises(CalibrationError, match="needs 6; measure more"):
        held_out_log_errors(problem(SMALL), METHOD, np.array([[1.0] * 5 + [0.0] * 14]))
    assert list(METHOD.problems(few.probes, few.device)) == []


# METHOD wants six probes, here three of a recipe beside others.
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
    method = replace(METHOD, joint_recipes=joint, least_of_recipe=3)
    problems = list(method.problems(probes, device_with()))
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
    result = fit_problem(scattered, METHOD, np.random.default_rng(0))
    space = scattered.space(result.family)
    for places in left_out:
        others = np.ones((1, len(SMALL)))
        others[0, places] = 0.0
        constants = search(scattered, result.family, others, space, METHOD)
        expected = scattered.log_errors(result.family, constants)[0, places]
        assert result.log_errors[places] == pytest.approx(expected, abs=1e-6)
