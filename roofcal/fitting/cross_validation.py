"""The fit of an op's equation to its probes: families by cross-validation, intervals by bootstrap.

An op states a `Problem`: the constants of each of its families, where they are searched, and what
they predict. It states in a `Method` how many folds and steps its fit takes. The rest is the same
for every op and is done here:

- A search minimises soft-clipped logarithms of predicted / measured (the soft-L1 loss). A point of
  3 us then counts as much as one of 3 ms, and an outlier pulls less than its square.
- Of the families, the one with the smallest mean |logarithm| on probes left out of its fit is
  taken.
- The intervals of predictions come from the error on each probe of a fit to all others, with the
  family that the other folds choose. A probe is left out alone, not with its fold, because a fit
  without a sixth of 40 probes is worse than the final one: on an H200, products left out alone are
  5.4 % off, left out by sixths 5.8 %.
- The interval of a constant comes from fits to resampled probes.
- A constant whose search ends on a bound, or that moves no probe, is not identified. It is left
  out, and the rest fitted again, if the equation has a neutral value for it.

All fits of a family to parts of the same probes (folds, resamples, the draws of a learning curve)
are one vectorised search, see roofcal.fitting.batched_least_squares.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from roofcal.core.portable_math import exp, log
from roofcal.core.priors import Known, Prior
from roofcal.core.records import ON_BOUND, Ceiling
from roofcal.core.times import Array
from roofcal.fitting.batched_least_squares import ResidualsWithJacobian, minimise
from roofcal.fitting.bootstrap import (
    Index,
    ceiling,
    draw_resamples,
    encode_family,
    interval_ends,
)
from roofcal.fitting.conformal import Errors, half_widths
from roofcal.fitting.parallel import parallel_map
from roofcal.fitting.probes import (
    CalibrationError,
    Device,
    Fitted,
    Probe,
    by_provider_and_recipe,
)

# Derivatives are differences over this factor of a constant: half of the digits of a float64.
_NUDGE: Final = 1.0 + 2.0**-24
_MOST_STEPS: Final = 80
_MOST_LEFT_OUT: Final = 60  # fits; of more probes, two or three are left out at once
_MOST_REFITS: Final = 4
_NOTICEABLE: Final = 1e-3
_ON_BOUND: Final = 1e-6  # of a logarithm
_PRIOR_ROOM: Final = 0.5  # of a logarithm, that a search has on both sides of a prior
_NORMAL_95: Final = 1.959963984540054  # quantile of a normal deviate, for intervals of 95 %
_LOG_NUDGE: Final = 2.0**-24 - 2.0**-49  # log(1 + x) = x - x^2 / 2, exact to the last bit here

# constants [..., fits, constants], in the order of a space, NaN where unknown
#   -> seconds [..., fits, probes]
Predictor = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """The constants of a family and where they are searched, in natural logarithms.

    low, high  bounds, [constants] or [fits, constants]
    starts     [starts, constants] or [starts, fits, constants]; of the searches from all starts,
               the best fit counts
    """

    names: tuple[str, ...]
    low: Array
    high: Array
    starts: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Constants that are searched together while those of the stages before are held.

    probes        which probes they are searched on, [probes]
    least_probes  with fewer probes, the constants stay unknown (NaN)
    """

    names: tuple[str, ...]
    probes: NDArray[np.bool_]
    least_probes: int = 0


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """Probes that are fitted together, and the equation that is fitted to them.

    axes      those of the op, in the order of `sizes`
    neutral   constants that may be left out -> the value that leaves them out of the equation
    left_out  constants that an earlier fit did not identify
    """

    axes: ClassVar[tuple[str, ...]]
    neutral: ClassVar[Mapping[str, float]] = {}

    probes: Sequence[Probe]
    device: Device
    left_out: frozenset[str] = frozenset()

    @cached_property
    def sizes(self) -> Array:
        """Sizes of the probes, [axes, probes]."""
        return np.array([[float(probe.shape[axis]) for probe in self.probes] for axis in self.axes])

    @cached_property
    def seconds(self) -> Array:
        """Measured medians, [probes]."""
        return np.array([probe.latency.median for probe in self.probes])

    @property
    def provider(self) -> str:
        """Whose probes they are."""
        return self.probes[0].point.provider

    def known(self, family: str) -> dict[str, Ceiling]:  # noqa: ARG002
        """Constants of the equation that probes of other ops tell, by name."""
        return {}

    @cached_property
    def recipes(self) -> tuple[str, ...]:
        """The recipes of the probes, in their order."""
        return tuple(dict.fromkeys(probe.point.recipe for probe in self.probes))

    @cached_property
    def recipe_index(self) -> Index:
        """The place in `recipes` of each probe."""
        return np.array([self.recipes.index(probe.point.recipe) for probe in self.probes])

    @property
    def recipe(self) -> str:
        """The recipe of the probes; the first where there are several."""
        return self.recipes[0]

    def prior_logs(self, family: str, names: Sequence[str]) -> tuple[Array, Array]:
        """What other cards say of the constants of a search: logarithms and their deviations.

        Both [names], NaN where they say nothing, or where probes of this card's other ops tell.
        """
        told, by_search_name = self.known(family), dict[str, Known]()
        for recipe in self.recipes:
            prior = self.device.priors.get((self.provider, recipe), Prior())
            if prior.family == family:
                names_here = self.names_of(family, recipe).items()
                own = {n: constant for n, constant in prior.constants.items() if n not in told}
                by_search_name |= {
                    searched: own[name] for name, searched in names_here if name in own
                }
        unknown = Known(np.nan, np.nan)
        values = np.array([by_search_name.get(name, unknown) for name in names])
        return log(values[:, 0]), values[:, 1]

    def names_of(self, family: str, recipe: str) -> Mapping[str, str]:  # noqa: ARG002
        """Constants of the equation -> their names in the search, the same for a single recipe."""
        return {name: name for name in self.space(family).names}

    @property
    @abstractmethod
    def families(self) -> Sequence[str]:
        """The families to choose from; the first of several that are equally good is taken."""

    @abstractmethod
    def space(self, family: str) -> SearchSpace:
        """The constants of a family and where they are searched."""

    @abstractmethod
    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds of every probe by the equation, [..., fits, probes].

        constants: [..., fits, constants] in the order of `space`, NaN where unknown.
        """

    def linearised(self, family: str, constants: Array) -> tuple[Array, Predictor]:
        """(seconds of every probe by `constants`, seconds by other constants very close to them).

        Where the equation takes the best of many ways, the second predictor may keep the ways that
        the first chose. Shapes are those of `predicted_seconds`.
        """
        return self.predicted_seconds(family, constants), partial(self.predicted_seconds, family)

    def stages(self, family: str) -> Sequence[Stage]:
        """The stages of a search; by default one, of all constants on all probes."""
        return [Stage(names=self.space(family).names, probes=np.full(len(self.probes), True))]

    def restarts(self, generator: np.random.Generator) -> Sequence[Array]:  # noqa: ARG002
        """Further starts of the final fit, logarithms in the order of `space`; by default none."""
        return ()

    def fold_numbers(self, subset: Array, folds: int) -> Index:
        """The fold of every probe of a subset (1 inside, 0 outside), [probes]: in turn."""
        numbers: Index = (np.cumsum(subset > 0) - 1) % folds
        return numbers

    def moves_probes(self, family: str, constants: Array, column: int) -> bool:
        """Whether a tenth more of a constant moves the prediction of any probe by a thousandth."""
        both = np.array([constants, constants])
        both[1, column] *= 1.1
        before, after = self.predicted_seconds(family, both)
        return bool(np.abs(after / before - 1).max() > _NOTICEABLE)

    def log_errors(self, family: str, constants: Array) -> Array:
        """log(predicted / measured) of every probe, [fits, probes]."""
        return log(self.predicted_seconds(family, constants)) - log(self.seconds)


# further constants by name; every recipe of a problem gets the same
MoreConstants = Callable[[Problem, np.random.Generator], Mapping[str, Ceiling]]
P = TypeVar("P", bound=Problem)
P_co = TypeVar("P_co", bound=Problem, covariant=True)


class MakeProblem(Protocol[P_co]):
    """The class of a problem, or a function that chooses one by the kind of device."""

    def __call__(self, *, probes: Sequence[Probe], device: Device) -> P_co:
        """The problem of probes that are fitted together."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[P]):
    """How the constants of one op are fitted.

    problem              what is fitted to a group of probes
    noun                 what its probes are, in messages: "products"
    least_probes         a group of fewer is not fitted
    needs_all            whether such a group is an error
    joint_recipes        whether the recipes of a provider are one group
    least_of_recipe      a recipe of fewer is not part of such a group
    folds                of the cross-validation
    soft                 logarithms beyond this one pull less than their square
    resample_from_best   whether fits to resamples start from the final fit; else from all starts
    quick_folds, quick_steps, judged_steps
                         of the shorter fits of a learning curve, see held_out_log_errors
    more                 constants beside those of the equation
    """

    problem: MakeProblem[P]
    noun: str
    least_probes: int
    needs_all: bool = False
    joint_recipes: bool = False
    least_of_recipe: int = 0
    folds: int
    soft: float
    resample_from_best: bool = False
    quick_folds: int
    quick_steps: int | None = None
    judged_steps: int | None = None
    more: MoreConstants | None = None

    def problems(self, probes: Sequence[Probe], device: Device) -> Iterator[P]:
        """The groups that are fitted, by their names; those of too few probes are skipped."""
        least = 0 if self.needs_all else self.least_probes
        pairs = list(by_provider_and_recipe(probes))
        if not self.joint_recipes:
            every = (members for _, _, members in pairs if len(members) >= least)
            yield from (self.problem(probes=members, device=device) for members in every)
            return
        for _, group in groupby(pairs, key=lambda pair: pair[0]):
            of_recipes = [own for _, _, own in group if len(own) >= self.least_of_recipe]
            members = [probe for of_recipe in of_recipes for probe in of_recipe]
            if len(members) >= max(1, least):
                yield self.problem(probes=members, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The fit of a problem.

    constants, intervals  by name, without the constants that no probe tells of
    log_errors            log(predicted / measured) of every probe by a fit without it, [probes]
    left_out              constants that are not identified, so that the equation has none of them
    fixed                 constants that are not identified and that the equation needs
    """

    family: str
    constants: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    log_errors: Array
    left_out: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    def ceilings(
        self, declared: Mapping[str, Any], evidence: str, names: Mapping[str, str]
    ) -> dict[str, Ceiling]:
        """The constants of one recipe with their intervals by name.

        declared: constants with a unit, by name. names: name -> name in the search.
        """
        fixed = dict.fromkeys(self.fixed, f"{evidence}; {ON_BOUND}")
        return {
            name: ceiling(
                self.constants[searched],
                *self.intervals[searched],
                declared[name].unit,
                fixed.get(searched, evidence),
            )
            for name, searched in names.items()
            if searched in self.constants
        }

    def choice(self, families: Iterable[str]) -> Ceiling:
        """The constant that holds the family; its evidence names the constants left out."""
        chosen = encode_family(families, self.family)
        if not self.left_out:
            return chosen
        names = ", ".join(self.left_out)
        return replace(chosen, evidence=f"{chosen.evidence}; not identified, left out: {names}")


def fit_each_recipe(
    probes: Sequence[Probe],
    device: Device,
    generator: np.random.Generator,
    *,
    op: str,
    equation: Any,
    method: Method[Any],
) -> Fitted:
    """The constants `<op>.<provider>.<recipe>.*` of an op.

    Args:
        probes: of all providers and recipes.
        device: that was measured.
        generator: draws the resamples.
        op: the op's name.
        equation: its model.py, which declares FAMILY, FAMILIES and CONSTANTS, and where intervals
            differ from group to group GROUPS and groups_of: (recipe, sizes) -> the group of each
            shape.
        method: of the op.
    """
    fitted, groups_of = Fitted(), getattr(equation, "groups_of", _one_group)
    pairs = fit_problems(list(method.problems(probes, device)), method, generator)
    errors: list[Errors] = []
    for problem, fit in pairs:
        family = {equation.FAMILY: fit.choice(equation.FAMILIES)}
        probe_op = problem.probes[0].point.op
        for number, recipe in enumerate(problem.recipes):
            own = problem.recipe_index == number
            logs, name = fit.log_errors[own], f"{op}.{problem.provider}.{recipe}"
            count = f"{own.sum()} {method.noun}"
            if len(problem.recipes) > 1:
                count += f" of {len(own)}"
            evidence = f"{probe_op}, {count}, {fit.family}"
            cards = problem.device.priors.get((problem.provider, recipe), Prior()).cards
            evidence += f", prior of {' and '.join(cards)}" if cards else ""
            names = problem.names_of(fit.family, recipe)
            constants = family | fit.ceilings(equation.CONSTANTS, evidence, names)
            constants |= problem.known(fit.family)
            constants |= method.more(problem, generator) if method.more else {}
            fitted.constants.update({f"{name}.{part}": value for part, value in constants.items()})
            # By portable_math, so that published errors have the same bits on every machine.
            fitted.errors[name] = error_summary(np.abs(exp(logs) - 1))
            groups = groups_of(recipe, problem.sizes[:, own])
            errors.append((problem.provider, recipe, groups, logs))
    for name, widths in half_widths(op, errors, getattr(equation, "GROUPS", ())).items():
        fitted.errors[name] |= widths
    return fitted


def _one_group(_recipe: str, sizes: Array) -> list[str]:
    return ["all"] * sizes.shape[1]


def fit_problems(
    problems: Sequence[P], method: Method[P], generator: np.random.Generator
) -> list[tuple[P, Fit]]:
    """Every problem with its fit, see `fit_problem`; independent problems share the cores."""
    generators = generator.spawn(len(problems))
    pairs = list(zip(problems, generators, strict=True))
    fits = parallel_map(lambda pair: fit_problem(pair[0], method, pair[1]), pairs)
    return list(zip(problems, fits, strict=True))


def fit_problem(problem: Problem, method: Method[Any], generator: np.random.Generator) -> Fit:
    """The best family, its constants with 95 % intervals, and its errors on probes left out.

    Raises CalibrationError for fewer probes than the method needs.
    """
    _require_probes(problem, method, len(problem.probes))
    every = np.ones((1, len(problem.probes)))
    by_family = _errors_by_family(problem, method, every, method.folds, None)
    chosen = int(_mean_distances(by_family, every)[:, 0].argmin())
    family = problem.families[chosen]
    best = _best_constants(problem, family, method, generator)
    by_place: dict[int, Problem] = dict.fromkeys(range(len(problem.families)), problem)
    fixed: tuple[str, ...] = ()
    for _ in range(_MOST_REFITS):
        unknown = _not_identified(problem, family, best)
        left_out = frozenset(unknown) & frozenset(problem.neutral)
        fixed = tuple(name for name in unknown if name not in left_out)
        if not left_out:
            break
        problem = replace(problem, left_out=problem.left_out | left_out)
        best = _best_constants(problem, family, method, generator)
    if problem.left_out:
        by_family[chosen] = _left_out_errors(problem, family, method, every, method.folds, None)
    by_place[chosen] = problem
    (log_errors,) = _errors_left_out_alone(by_place, method, by_family, every)
    space = problem.space(family)
    if method.resample_from_best:
        space = replace(space, starts=log(best)[None])
    draws = draw_resamples(len(problem.probes), generator)
    counts = np.array([np.bincount(draw, minlength=len(problem.probes)) for draw in draws])
    weights = counts.astype(float)
    resampled = search(problem, family, weights, space, method)
    low, high = interval_ends(np.where(np.isnan(resampled), best, resampled))
    # Of constants that the probes do not tell, the prior knows how far cards lie apart.
    _, deviations = problem.prior_logs(family, space.names)
    is_held = (low == high) & ~np.isnan(deviations)
    factor = exp(_NORMAL_95 * np.where(is_held, deviations, 0.0))
    low, high = low / factor, high * factor
    columns = {name: i for i, name in enumerate(space.names) if not np.isnan(best[i])}
    return Fit(
        family=family,
        constants={name: float(best[i]) for name, i in columns.items()},
        intervals={name: (float(low[i]), float(high[i])) for name, i in columns.items()},
        log_errors=log_errors,
        left_out=tuple(name for name in space.names if name in problem.left_out),
        fixed=fixed,
    )


def _not_identified(problem: Problem, family: str, best: Array) -> list[str]:
    """Constants whose search ended on a bound, or that move no probe noticeably."""
    space = problem.space(family)
    logs, (prior, _) = log(best), problem.prior_logs(family, space.names)
    on_bound = (logs <= space.low + _ON_BOUND) | (logs >= space.high - _ON_BOUND)
    return [
        name
        for i, name in enumerate(space.names)
        if not np.isnan(best[i])
        and np.isnan(prior[i])
        and (on_bound[i] or not problem.moves_probes(family, best, i))
    ]


def choose_families(
    problem: Problem,
    method: Method[Any],
    subsets: Array,
    *,
    folds: int | None = None,
    steps: int | None = None,
) -> tuple[list[str], Array]:
    """The best family of each subset of the probes, and its errors on probes left out in turn.

    Args:
        problem: the probes and their equations.
        method: of the op.
        subsets: 1 for the probes of a subset, 0 for the others, [subsets, probes].
        folds: parts that are left out in turn; None: those of the method.
        steps: most evaluations per search; None: until it converges.

    Returns:
        The family of each subset, and log(predicted / measured) of its probes by fits without
        them of the family that is best without them, [subsets, probes], NaN outside of the subset.
    """
    folds = folds or method.folds
    log_errors = _errors_by_family(problem, method, subsets, folds, steps)
    best = _mean_distances(log_errors, subsets).argmin(axis=0)
    families = problem.families
    return [families[i] for i in best], _judged_errors(problem, log_errors, subsets, folds)


def _errors_by_family(
    problem: Problem, method: Method[Any], subsets: Array, folds: int, steps: int | None
) -> Array:
    """The errors of each family on probes left out, [families, subsets, probes]."""
    return np.array(
        [_left_out_errors(problem, f, method, subsets, folds, steps) for f in problem.families]
    )


def _mean_distances(log_errors: Array, subsets: Array) -> Array:
    """Mean |log error| of each family, [families, subsets], on the probes of subsets."""
    # A family must not win by leaving out a probe that another family predicts.
    is_left_out = np.isnan(log_errors) & (subsets == 1)
    is_predicted = ~is_left_out.all(axis=0)
    distances = np.where(is_left_out & is_predicted, np.inf, np.abs(log_errors))
    distances = np.where(subsets == 1, distances, 0.0)
    # Summed in order: the last bits of NumPy's nanmean differ between machines.
    means: Array = np.nansum(distances, axis=2) / subsets.sum(axis=1)
    return means


def _judged_errors(problem: Problem, log_errors: Array, subsets: Array, folds: int) -> Array:
    """The error of each probe with the family that the other folds choose.

    A family chosen by a probe would do better on that probe than on unseen shapes.
    """
    judges = _judging_families(problem, log_errors, subsets, folds)
    judged: Array = np.take_along_axis(log_errors, judges[None], axis=0)[0]
    return judged


def _judging_families(problem: Problem, log_errors: Array, subsets: Array, folds: int) -> Index:
    """The place of the family that the other folds choose for each probe, [subsets, probes]."""
    judges = np.zeros(subsets.shape, dtype=np.int64)
    for row, subset in enumerate(subsets):
        fold = problem.fold_numbers(subset, folds)
        for number in range(folds):
            own = (subset == 1) & (fold == number)
            others = (subset == 1) & (fold != number)
            means = _mean_distances(log_errors[:, row : row + 1], 1.0 * others[None])
            judges[row, own] = means[:, 0].argmin()
    return judges


def _errors_left_out_alone(
    problems: Mapping[int, Problem], method: Method[Any], by_family: Array, every: Array
) -> Array:
    """The error of each probe by a fit to the others, in at most _MOST_LEFT_OUT fits, [1, probes].

    Args:
        problems: place of a family -> the problem, without the constants that are left out of it.
        method: of the op.
        by_family: errors by folds, [families, 1, probes]; they choose the family of each probe as
            in `_judged_errors`.
        every: 1 for every probe, [1, probes].
    """
    judges = _judging_families(problems[0], by_family, every, method.folds)
    errors = np.full(every.shape, np.nan)
    for place in np.unique(judges).tolist():
        problem = problems[place]
        numbers = problem.fold_numbers(every[0], min(len(problem.probes), _MOST_LEFT_OUT))
        family, fits = problem.families[place], int(numbers.max()) + 1
        own = _left_out_errors(problem, family, method, every, fits, None)
        errors = np.where(judges == place, own, errors)
    return errors


def held_out_log_errors(problem: Problem, method: Method[Any], subsets: Array) -> Array:
    """log(predicted / measured) of every probe by fits to subsets alone, families included.

    The families are chosen with fewer folds and steps than in fit_problem. Bounds and starts of a
    search come from the probes of the subset, too.

    Args:
        problem: all probes and their equations.
        method: of the op.
        subsets: 1 for the probes of a subset, 0 for the others, [subsets, probes].

    Returns:
        [subsets, probes]; the probes of a subset itself are predicted by a fit that has seen them.

    Raises:
        CalibrationError: for a subset of fewer probes than the method needs.
    """
    _require_probes(problem, method, int(subsets.sum(axis=1).min()))
    families = [problem.families[0]] * len(subsets)
    if len(problem.families) > 1:
        families, _ = choose_families(
            problem, method, subsets, folds=method.quick_folds, steps=method.quick_steps
        )
    log_errors = np.empty(subsets.shape)
    for family in dict.fromkeys(families):
        rows = np.flatnonzero([chosen == family for chosen in families])
        space = _space_of_subsets(problem, family, subsets[rows])
        constants = search(problem, family, subsets[rows], space, method, steps=method.judged_steps)
        log_errors[rows] = problem.log_errors(family, constants)
    return log_errors


def search(
    problem: Problem,
    family: str,
    weights: Array,
    space: SearchSpace,
    method: Method[Any],
    *,
    steps: int | None = None,
) -> Array:
    """Constants of the best fit by each row of weights, [fits, constants]; NaN where unknown.

    Args:
        problem: the probes and their equation.
        family: one of the problem's.
        weights: how often each probe counts in each fit, [fits, probes].
        space: where to search.
        method: of the op.
        steps: most evaluations per search; None: until it converges.
    """
    prior, deviations = problem.prior_logs(family, space.names)
    space = _with_prior(space, prior)
    # What no stage searches keeps the value of the prior.
    of_prior = np.where(np.isnan(prior), np.nan, exp(np.nan_to_num(prior)))
    constants = np.tile(of_prior, (len(weights), 1))
    full = (len(space.starts), *constants.shape)
    # One start for all fits, or one for each.
    starts = np.broadcast_to(
        space.starts if space.starts.ndim == 3 else space.starts[:, None], full
    )
    low, high = np.broadcast_to(space.low, full[1:]), np.broadcast_to(space.high, full[1:])

    def tiled(rows: Array) -> Array:
        return np.tile(rows, (len(starts), 1))

    for stage in problem.stages(family):
        names = [name for name in stage.names if name not in problem.left_out]
        columns = np.array([space.names.index(name) for name in names])
        stage_weights = weights * stage.probes
        has_enough = stage_weights.sum(axis=1) >= stage.least_probes
        # A constant without a start is one that the final fit left unknown.
        has_start = ~np.isnan(starts[:, :, columns]).any(axis=(0, 2))
        rows = np.flatnonzero(has_enough & has_start)
        if not len(rows):
            continue
        residuals = _log_residuals(problem, family, columns, tiled(constants[rows]))
        is_known = ~np.isnan(prior[columns])
        solution = minimise(
            _with_prior_residuals(residuals, prior[columns], method.soft / deviations[columns]),
            starts[:, rows][:, :, columns].reshape(-1, len(columns)),
            (tiled(low[rows][:, columns]), tiled(high[rows][:, columns])),
            tiled(np.hstack([stage_weights[rows], np.ones((len(rows), is_known.sum()))])),
            method.soft,
            steps=steps or _MOST_STEPS,
        )
        best = solution.cost.reshape(len(starts), len(rows)).argmin(axis=0)
        by_start = solution.parameters.reshape(len(starts), len(rows), len(columns))
        constants[np.ix_(rows, columns)] = exp(by_start[best, np.arange(len(rows))])
    return constants


def _log_residuals(
    problem: Problem, family: str, columns: Index, held: Array
) -> ResidualsWithJacobian:
    """log(predicted / measured) and its derivatives by the logarithms of some constants.

    columns: places of these constants. held: all constants of every search, [searches, constants].
    """
    log_seconds = log(problem.seconds)

    def residuals(logarithms: Array, rows: Index) -> tuple[Array, Array]:
        constants = held[rows]
        constants[:, columns] = exp(logarithms)
        seconds, nearby = problem.linearised(family, constants)
        nudged = np.repeat(constants[None], len(columns), axis=0)
        nudged[np.arange(len(columns)), :, columns] *= _NUDGE
        derivatives = (nearby(nudged) / seconds - 1.0) / _LOG_NUDGE
        return log(seconds) - log_seconds, np.moveaxis(derivatives, 0, 1)

    return residuals


def _with_prior(space: SearchSpace, prior: Array) -> SearchSpace:
    """A space that holds the prior and starts from it, too; prior: logarithms, NaN where none."""
    if np.isnan(prior).all():
        return space
    first = np.where(np.isnan(prior), space.starts[0], prior)
    return replace(
        space,
        low=np.fmin(space.low, prior - _PRIOR_ROOM),
        high=np.fmax(space.high, prior + _PRIOR_ROOM),
        starts=np.concatenate([first[None], space.starts]),
    )


def _with_prior_residuals(
    residuals: ResidualsWithJacobian, prior: Array, slopes: Array
) -> ResidualsWithJacobian:
    """Residuals with one more for each constant that has a prior.

    A constant that lies one deviation from its prior pulls as much as a probe that is `soft` off,
    so that the search finds the maximum a posteriori (Gelman et al., Bayesian Data Analysis, 2013,
    section 13.3). The loss is that of probes: a card that is unlike all others pulls free.

    slopes: `soft` over the deviation of each constant, [constants].
    """
    drawn = np.flatnonzero(~np.isnan(prior))  # places of the constants that have a prior
    if not len(drawn):
        return residuals

    def with_prior(logarithms: Array, rows: Index) -> tuple[Array, Array]:
        residual, jacobian = residuals(logarithms, rows)
        away = slopes[drawn] * (logarithms[:, drawn] - prior[drawn])
        of_prior = np.zeros((*jacobian.shape[:2], len(drawn)))
        of_prior[:, drawn, np.arange(len(drawn))] = slopes[drawn]
        return np.hstack([residual, away]), np.concatenate([jacobian, of_prior], axis=2)

    return with_prior


def _require_probes(problem: Problem, method: Method[Any], count: int) -> None:
    if count < method.least_probes:
        op = problem.probes[0].point.op
        raise CalibrationError(
            f"{problem.provider} {problem.recipe}: {count} {method.noun} in {op}, "
            f"needs {method.least_probes}; measure more (config/sweeps/{op}.yaml: count)"
        )


def _best_constants(
    problem: Problem, family: str, method: Method[Any], generator: np.random.Generator
) -> Array:
    """The best of the fits to all probes from the usual starts and every restart of the problem."""
    space = problem.space(family)
    restarts = problem.restarts(generator)
    starts = np.concatenate([space.starts, *(restart[None] for restart in restarts)])
    every = np.ones((1, len(problem.probes)))
    (best,) = search(problem, family, every, replace(space, starts=starts), method)
    return np.asarray(best)


def _left_out_errors(
    problem: Problem,
    family: str,
    method: Method[Any],
    subsets: Array,
    folds: int,
    steps: int | None,
) -> Array:
    """log(predicted / measured) of a subset's probes by fits to its other folds; NaN elsewhere."""
    fold = np.array([problem.fold_numbers(subset, folds) for subset in subsets])
    number = np.arange(folds)[None, :, None]
    is_left_out = (fold[:, None, :] == number) & (subsets[:, None, :] > 0)  # subset, fold, probe
    weights = np.where(is_left_out, 0.0, subsets[:, None, :]).reshape(-1, subsets.shape[1])
    space = _space_of_subsets(problem, family, np.repeat(subsets, folds, axis=0))
    constants = search(problem, family, weights, space, method, steps=steps)
    errors = problem.log_errors(family, constants).reshape(is_left_out.shape)
    log_errors = np.full(subsets.shape, np.nan)
    subset, _, probe = np.nonzero(is_left_out)
    log_errors[subset, probe] = errors[is_left_out]
    return log_errors


def _space_of_subsets(problem: Problem, family: str, subsets: Array) -> SearchSpace:
    """The search space of each subset, whose bounds and starts come from its own probes."""
    if subsets.all():
        return problem.space(family)
    by_subset: dict[bytes, SearchSpace] = {}
    for subset in subsets:
        if subset.tobytes() not in by_subset:
            members = [p for p, inside in zip(problem.probes, subset, strict=True) if inside]
            alone = replace(problem, probes=members)
            by_subset[subset.tobytes()] = alone.space(family)
    spaces = [by_subset[subset.tobytes()] for subset in subsets]
    return SearchSpace(
        names=spaces[0].names,
        low=np.array([space.low for space in spaces]),
        high=np.array([space.high for space in spaces]),
        starts=np.stack([space.starts for space in spaces], axis=1),
    )


def columns_by_name(
    names: Iterable[str], constants: Array, neutral: Mapping[str, float] = MappingProxyType({})
) -> dict[str, Array]:
    """Name -> its values, [..., fits, 1], of constants [..., fits, constants] in that order.

    neutral: what stands for an unknown constant.
    """
    columns = {name: constants[..., i : i + 1] for i, name in enumerate(names)}
    return columns | {
        name: np.where(np.isnan(columns[name]), value, columns[name])
        for name, value in neutral.items()
        if name in columns
    }


def error_summary(errors: Array) -> dict[str, float]:
    """What a calibration says of |predicted / measured - 1| on probes left out."""
    return {
        "mape": float(errors.mean()),
        "median": float(np.median(errors)),
        "p95": float(np.percentile(errors, 95)),
        "count": float(len(errors)),
    }
