"""The fit of an op's equation to its probes: families by cross-validation, intervals by intervals.

An op states a `Problem`: the constants of each of its families, what they predict, and how many
folds and steps its fit takes. The rest is the same for every op and is done here:

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofcal.core.portable_math import exp, log
from roofcal.core.priors import Known, Prior
from roofcal.core.records import ON_BOUND, Ceiling
from roofcal.core.times import Array
from roofcal.fitting import intervals
from roofcal.fitting.batched_least_squares import ResidualsWithJacobian, minimise
from roofcal.fitting.intervals import Errors, Index, half_widths
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
_LOG_NUDGE: Final = 2.0**-24 - 2.0**-49  # log(1 + x) = x - x^2 / 2, exact to the last bit here
_MOST_STEPS: Final = 80
_MOST_LEFT_OUT: Final = 60  # fits; of more probes, two or three are left out at once
_MOST_REFITS: Final = 4
_NOTICEABLE: Final = 1e-3
_ON_BOUND: Final = 1e-6  # of a logarithm
_PRIOR_ROOM: Final = 0.5  # of a logarithm, that a search has on both sides of a prior
_NORMAL_95: Final = 1.959963984540054  # quantile of a normal deviate, for intervals of 95 %

# constants [..., fits, constants], in the order of a space, NaN where unknown
#   -> seconds [..., fits, probes]
Predictor = Callable[[Array], Array]


class SearchSpace(NamedTuple):
    """Where the constants of a family are searched, in natural logarithms.

    low, high  bounds, [constants] or [fits, constants]
    starts     [starts, constants] or [starts, fits, constants]; of the searches from all starts,
               the best fit counts
    """

    low: Array
    high: Array
    starts: Array


class Stage(NamedTuple):
    """Constants that are searched together while those of the stages before are held.

    probes        which probes they are searched on, [probes]
    least_probes  with fewer probes, the constants stay unknown (NaN)
    """

    names: tuple[str, ...]
    probes: NDArray[np.bool_]
    least_probes: int = 0


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """Probes that are fitted together, the equation that is fitted to them, and how.

    An op declares

    equation         its model.py, see roofcal.ops.constants
    noun             what its probes are, in messages: "products"
    least_probes     a group of fewer is not fitted
    needs_all        whether such a group is an error
    joint_recipes    whether the recipes of a provider are one group
    least_of_recipe  a recipe of fewer is not part of such a group
    folds            of the cross-validation
    soft             logarithms beyond this one pull less than their square
    quick_folds, quick_steps, judged_steps
                     of the shorter fits of a learning curve, see held_out_log_errors

    and left_out has the constants that an earlier fit did not identify.
    """

    equation: ClassVar[Any]
    noun: ClassVar[str]
    least_probes: ClassVar[int]
    needs_all: ClassVar[bool] = False
    joint_recipes: ClassVar[bool] = False
    least_of_recipe: ClassVar[int] = 0
    folds: ClassVar[int]
    soft: ClassVar[float] = 0.1
    quick_folds: ClassVar[int]
    quick_steps: ClassVar[int] = _MOST_STEPS
    judged_steps: ClassVar[int] = _MOST_STEPS

    probes: Sequence[Probe]
    device: Device
    left_out: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def families(self) -> Sequence[str]:
        """The families to choose from; the first of several that are equally good is taken."""

    @property
    @abstractmethod
    def quantities(self) -> Mapping[str, tuple[float, float]]:
        """What bounds of searches count in, by the names of Search.of: (a, b) for a / b.

        Only then are values that a fit starts from the same to the last bit, however a declaration
        counts them.
        """

    @abstractmethod
    def constants(self, family: str) -> Sequence[str]:
        """The constants of the equation that are searched."""

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds of every probe by the equation, [..., fits, probes].

        constants: [..., fits, constants] in the order of `names`, NaN where unknown.
        """
        columns, units = self.columns(family, constants), self.device.compute_units
        total = np.empty((*constants.shape[:-1], len(self.probes)))
        for number, recipe in enumerate(self.recipes):
            members = np.flatnonzero(self.recipe_index == number)
            own = {name: columns[column] for name, column in self.names_of(family, recipe).items()}
            parts = self.equation.evaluate(own, family, recipe, self.sizes[:, members], units)
            total[..., members] = parts.total
        return total

    @classmethod
    def of(cls, probes: Sequence[Probe], device: Device) -> "Problem":
        """The problem of probes that are fitted together, by the equation of a kind of device."""
        return cls(probes=probes, device=device)

    def constants_of_recipes(self, family: str) -> Sequence[str]:  # noqa: ARG002
        """Constants that each recipe has for itself; recipes fitted together share the others."""
        return ()

    def shifts(self, family: str) -> Sequence[Mapping[str, float]]:  # noqa: ARG002
        """Of every start of a search: constant -> logarithm that is added to what it declares."""
        return ({},)

    def known(self, family: str) -> dict[str, Ceiling]:  # noqa: ARG002
        """Constants of the equation that probes of other ops tell, by name."""
        return {}

    def more(self, generator: np.random.Generator) -> dict[str, Ceiling]:  # noqa: ARG002
        """Constants beside those of the equation, by name; every recipe gets the same."""
        return {}

    def restarts(self, generator: np.random.Generator) -> Sequence[Array]:  # noqa: ARG002
        """Further starts of the final fit, logarithms in the order of `names`."""
        return ()

    def stages(self, family: str) -> Sequence[Stage]:
        """The stages of a search; by default one, of all constants on all probes."""
        return [Stage(self.names(family), np.full(len(self.probes), True))]

    def fold_numbers(self, subset: Array, folds: int) -> Index:
        """The fold of every probe of a subset (1 inside, 0 outside), [probes]: in turn."""
        numbers: Index = (np.cumsum(subset > 0) - 1) % folds
        return numbers

    def linearised(self, family: str, constants: Array) -> tuple[Array, Predictor]:
        """(seconds of every probe by `constants`, seconds by other constants very close to them).

        Where the equation takes the best of many ways, the second predictor may keep the ways that
        the first chose. Shapes are those of `predicted_seconds`.
        """
        return self.predicted_seconds(family, constants), partial(self.predicted_seconds, family)

    def ranges(self, family: str) -> dict[str, tuple[float, float, float]]:  # noqa: ARG002
        """Constant -> (start, least, most) of its search."""
        quantities, ranges = {"": (1.0, 1.0), **self.quantities}, {}
        for constant in self.equation.CONSTANTS.values():
            search = (self.device.is_cpu and constant.on_cpu) or constant.search
            if search:
                above, below = quantities[search.of]
                start, least, most = (value * above / below for value in search[:3])
                ranges[constant.name] = (start, least, most)
        return ranges

    def space(self, family: str) -> SearchSpace:
        """Where the constants of a family are searched."""
        known, names = self.known(family).items(), self.names(family)
        ranges = self.ranges(family) | {name: (one.value,) * 3 for name, one in known}
        kinds = [name.rpartition(".")[2] for name in names]
        start, low, high = log(np.array([ranges[kind] for kind in kinds])).T
        shifts = [[shift.get(kind, 0.0) for kind in kinds] for shift in self.shifts(family)]
        return SearchSpace(low, high, start + np.array(shifts))

    def names_of(self, family: str, recipe: str) -> dict[str, str]:
        """Constants of the equation -> their names in the search, the same for a single recipe."""
        own = self.constants_of_recipes(family)
        return {n: f"{recipe}.{n}" if n in own else n for n in self.constants(family)}

    def names(self, family: str) -> tuple[str, ...]:
        """The constants of all recipes by their names in the search."""
        of_recipes = (self.names_of(family, recipe).values() for recipe in self.recipes)
        return tuple(dict.fromkeys(name for names in of_recipes for name in names))

    def columns(self, family: str, constants: Array) -> dict[str, Array]:
        """Name in the search -> its values, [..., fits, 1], of constants [..., fits, constants].

        An unknown constant has its neutral value, if it has one.
        """
        columns = {name: constants[..., i : i + 1] for i, name in enumerate(self.names(family))}
        return columns | {
            name: np.where(np.isnan(columns[name]), value, columns[name])
            for name, value in self.neutral.items()
            if name in columns
        }

    def prior_logs(self, family: str) -> tuple[Array, Array]:
        """What other cards say of the constants of a search: logarithms and their deviations.

        Both [constants], NaN where they say nothing, or where probes of this card's other ops tell.
        """
        told, by_search_name = self.known(family), dict[str, Known]()
        for recipe in self.recipes:
            prior = self.device.priors.get((self.provider, recipe), Prior())
            if prior.family == family:
                by_search_name |= {
                    searched: prior.constants[name]
                    for name, searched in self.names_of(family, recipe).items()
                    if name in prior.constants and name not in told
                }
        unknown = Known(np.nan, np.nan)
        values = np.array([by_search_name.get(name, unknown) for name in self.names(family)])
        return log(values[:, 0]), values[:, 1]

    def log_errors(self, family: str, constants: Array) -> Array:
        """log(predicted / measured) of every probe, [fits, probes]."""
        return log(self.predicted_seconds(family, constants)) - log(self.seconds)

    @cached_property
    def neutral(self) -> dict[str, float]:
        """Constants that may be left out -> the value that leaves them out of the equation."""
        constants = self.equation.CONSTANTS.values()
        return {c.name: c.neutral for c in constants if c.neutral is not None}

    @cached_property
    def sizes(self) -> Array:
        """Sizes of the probes along the axes of the op, [axes, probes]."""
        axes = self.equation.OP.axes
        return np.array([[float(probe.shape[axis]) for probe in self.probes] for axis in axes])

    @cached_property
    def seconds(self) -> Array:
        """Measured medians, [probes]."""
        return np.array([probe.latency.median for probe in self.probes])

    @property
    def provider(self) -> str:
        """Whose probes they are."""
        return self.probes[0].point.provider

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


class Fit(NamedTuple):
    """The fit of a problem.

    constants   (value, low and high end) by name, without the constants that no probe tells of
    log_errors  log(predicted / measured) of every probe by a fit without it, [probes]
    left_out    constants that are not identified, so that the equation has none of them
    fixed       constants that are not identified and that the equation needs
    """

    family: str
    constants: dict[str, tuple[float, float, float]]
    log_errors: Array
    left_out: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


def problems_of(kind: type[Problem], probes: Sequence[Probe], device: Device) -> Iterator[Problem]:
    """The groups of probes that are fitted, by their names; those of too few are skipped."""
    least = 0 if kind.needs_all else kind.least_probes
    pairs = [(provider, own) for provider, _, own in by_provider_and_recipe(probes)]
    if kind.joint_recipes:
        of_providers = groupby(pairs, key=lambda pair: pair[0])
        pairs = [
            (provider, [p for _, own in group if len(own) >= kind.least_of_recipe for p in own])
            for provider, group in of_providers
        ]
    yield from (kind.of(own, device) for _, own in pairs if len(own) >= max(1, least))


def fit_each_recipe(
    kind: type[Problem],
    probes: Sequence[Probe],
    device: Device,
    generator: np.random.Generator,
) -> Fitted:
    """The constants `<op>.<provider>.<recipe>.*` of an op; generator: draws the resamples."""
    fitted, equation = Fitted(), kind.equation
    op = equation.OP.name
    problems = list(problems_of(kind, probes, device))
    pairs = list(zip(problems, generator.spawn(len(problems)), strict=True))
    fits = parallel_map(lambda pair: fit_problem(*pair), pairs)
    errors: list[Errors] = []
    for problem, fit in zip(problems, fits, strict=True):
        family = intervals.encode_family(equation.FAMILIES, fit.family)
        if fit.left_out:
            lacks = f"{family.evidence}; not identified, left out: {', '.join(fit.left_out)}"
            family = replace(family, evidence=lacks)
        probe_op = problem.probes[0].point.op
        for number, recipe in enumerate(problem.recipes):
            own = problem.recipe_index == number
            logs, name = fit.log_errors[own], f"{op}.{problem.provider}.{recipe}"
            count = f"{own.sum()} {kind.noun}"
            if len(problem.recipes) > 1:
                count += f" of {len(own)}"
            evidence = f"{probe_op}, {count}, {fit.family}"
            cards = device.priors.get((problem.provider, recipe), Prior()).cards
            evidence += f", prior of {' and '.join(cards)}" if cards else ""
            constants = {equation.FAMILY: family}
            for part, searched in problem.names_of(fit.family, recipe).items():
                if searched in fit.constants:
                    said = f"{evidence}; {ON_BOUND}" if searched in fit.fixed else evidence
                    ends, unit = fit.constants[searched], equation.CONSTANTS[part].unit
                    constants[part] = intervals.ceiling(*ends, unit, said)
            constants |= problem.known(fit.family) | problem.more(generator)
            fitted.constants.update({f"{name}.{part}": value for part, value in constants.items()})
            # By portable_math, so that published errors have the same bits on every machine.
            fitted.errors[name] = error_summary(np.abs(exp(logs) - 1))
            groups = equation.groups_of(recipe, problem.sizes[:, own])
            errors.append((problem.provider, recipe, groups, logs))
    for name, widths in half_widths(op, errors, equation.GROUPS).items():
        fitted.errors[name] |= widths
    return fitted


def fit_problem(problem: Problem, generator: np.random.Generator) -> Fit:
    """The best family, its constants with 95 % intervals, and its errors on probes left out.

    Raises CalibrationError for fewer probes than the fit needs.
    """
    count = len(problem.probes)
    _require_probes(problem, count)
    every = np.ones((1, count))
    (chosen,), by_family = choose_families(problem, every)
    family, problems = problem.families[chosen], [problem] * len(problem.families)
    best = _best_constants(problem, family, generator)
    fixed: tuple[str, ...] = ()
    for _ in range(_MOST_REFITS):
        unknown = _not_identified(problem, family, best)
        left_out = frozenset(unknown) & frozenset(problem.neutral)
        fixed = tuple(name for name in unknown if name not in left_out)
        if not left_out:
            break
        problem = replace(problem, left_out=problem.left_out | left_out)
        best = _best_constants(problem, family, generator)
    if problem.left_out:
        by_family[chosen] = _left_out_errors(problem, family, every, problem.folds)
        problems[chosen] = problem
    log_errors = _errors_left_out_alone(problems, by_family)
    draws = intervals.draw_resamples(count, generator)
    weights = np.array([np.bincount(draw, minlength=count) for draw in draws]).astype(float)
    space = problem.space(family)._replace(starts=log(best)[None])
    resampled = search(problem, family, weights, space)
    low, high = intervals.interval_ends(np.where(np.isnan(resampled), best, resampled))
    # Of constants that the probes do not tell, the prior knows how far cards lie apart.
    _, deviations = problem.prior_logs(family)
    is_held = (low == high) & ~np.isnan(deviations)
    factor = exp(_NORMAL_95 * np.where(is_held, deviations, 0.0))
    ends = np.stack([best, low / factor, high * factor], axis=1).tolist()
    names = problem.names(family)
    return Fit(
        family=family,
        constants={
            name: (value, low, high)
            for name, (value, low, high) in zip(names, ends, strict=True)
            if not np.isnan(value)
        },
        log_errors=log_errors,
        left_out=tuple(name for name in names if name in problem.left_out),
        fixed=fixed,
    )


def _require_probes(problem: Problem, count: int) -> None:
    if count < problem.least_probes:
        op = problem.probes[0].point.op
        raise CalibrationError(
            f"{problem.provider} {problem.recipe}: {count} {problem.noun} in {op}, "
            f"needs {problem.least_probes}; measure more (config/sweeps/{op}.yaml: count)"
        )


def _best_constants(problem: Problem, family: str, generator: np.random.Generator) -> Array:
    """The best of the fits to all probes from the usual starts and every restart of the problem."""
    space = problem.space(family)
    restarts = problem.restarts(generator)
    starts = np.concatenate([space.starts, *(restart[None] for restart in restarts)])
    every = np.ones((1, len(problem.probes)))
    (best,) = search(problem, family, every, space._replace(starts=starts))
    return np.asarray(best)


def _not_identified(problem: Problem, family: str, best: Array) -> list[str]:
    """Constants whose search ended on a bound, or that move no probe noticeably."""
    space = problem.space(family)
    logs, (prior, _) = log(best), problem.prior_logs(family)
    on_bound = (logs <= space.low + _ON_BOUND) | (logs >= space.high - _ON_BOUND)

    def moves_probes(column: int) -> bool:
        """Whether a tenth more of a constant moves the prediction of any probe by a thousandth."""
        both = np.array([best, best])
        both[1, column] *= 1.1
        before, after = problem.predicted_seconds(family, both)
        return bool(np.abs(after / before - 1).max() > _NOTICEABLE)

    return [
        name
        for i, name in enumerate(problem.names(family))
        if not np.isnan(best[i]) and np.isnan(prior[i]) and (on_bound[i] or not moves_probes(i))
    ]


def choose_families(
    problem: Problem, subsets: Array, *, folds: int | None = None, steps: int = _MOST_STEPS
) -> tuple[Index, Array]:
    """The best family of each subset of the probes, and the errors of all on probes left out.

    Args:
        problem: the probes and their equations.
        subsets: 1 for the probes of a subset, 0 for the others, [subsets, probes].
        folds: parts that are left out in turn; None: those of the problem.
        steps: most evaluations per search.

    Returns:
        The place of the family of each subset, and log(predicted / measured) of its probes by fits
        without them, [families, subsets, probes], NaN outside of the subset.
    """
    log_errors = np.array(
        [
            _left_out_errors(problem, family, subsets, folds or problem.folds, steps)
            for family in problem.families
        ]
    )
    return _best_families(log_errors, subsets), log_errors


def _best_families(log_errors: Array, subsets: Array) -> Index:
    """The place of the family of least mean |log error| on the probes of each subset, [subsets]."""
    # A family must not win by leaving out a probe that another family predicts.
    is_left_out = np.isnan(log_errors) & (subsets == 1)
    is_predicted = ~is_left_out.all(axis=0)
    distances = np.where(is_left_out & is_predicted, np.inf, np.abs(log_errors))
    distances = np.where(subsets == 1, distances, 0.0)
    # Summed in order: the last bits of NumPy's nanmean differ between machines.
    best: Index = (np.nansum(distances, axis=2) / subsets.sum(axis=1)).argmin(axis=0)
    return best


def judging_families(problem: Problem, log_errors: Array) -> Index:
    """The place of the family that the other folds choose for each probe, [probes].

    A family chosen by a probe would do better on that probe than on unseen shapes. log_errors: of
    all probes by folds, [families, 1, probes].
    """
    fold = problem.fold_numbers(np.ones(len(problem.probes)), problem.folds)
    judges = np.zeros(len(fold), dtype=np.int64)
    for number in range(problem.folds):
        judges[fold == number] = _best_families(log_errors, 1.0 * (fold != number)[None])[0]
    return judges


def _errors_left_out_alone(problems: Sequence[Problem], log_errors: Array) -> Array:
    """The error of each probe by a fit to the others, in at most _MOST_LEFT_OUT fits, [probes].

    Args:
        problems: of every family, without the constants that are left out of it.
        log_errors: by folds, [families, 1, probes]; they choose the family of each probe.
    """
    judges = judging_families(problems[0], log_errors)
    every, errors = np.ones((1, len(judges))), np.full(len(judges), np.nan)
    for place in np.unique(judges).tolist():
        problem = problems[place]
        numbers = problem.fold_numbers(every[0], min(len(judges), _MOST_LEFT_OUT))
        family, fits = problem.families[place], int(numbers.max()) + 1
        (own,) = _left_out_errors(problem, family, every, fits)
        errors = np.where(judges == place, own, errors)
    return errors


def held_out_log_errors(problem: Problem, subsets: Array) -> Array:
    """log(predicted / measured) of every probe by fits to subsets alone, families included.

    The families are chosen with fewer folds and steps than in fit_problem. Bounds and starts of a
    search come from the probes of the subset, too.

    Args:
        problem: all probes and their equations.
        subsets: 1 for the probes of a subset, 0 for the others, [subsets, probes].

    Returns:
        [subsets, probes]; the probes of a subset itself are predicted by a fit that has seen them.

    Raises:
        CalibrationError: for a subset of fewer probes than the fit needs.
    """
    _require_probes(problem, int(subsets.sum(axis=1).min()))
    places = np.zeros(len(subsets), dtype=np.int64)
    if len(problem.families) > 1:
        places, _ = choose_families(
            problem, subsets, folds=problem.quick_folds, steps=problem.quick_steps
        )
    log_errors = np.empty(subsets.shape)
    for place in np.unique(places).tolist():
        rows, family = np.flatnonzero(places == place), problem.families[place]
        space = _space_of_subsets(problem, family, subsets[rows])
        constants = search(problem, family, subsets[rows], space, steps=problem.judged_steps)
        log_errors[rows] = problem.log_errors(family, constants)
    return log_errors


def _left_out_errors(
    problem: Problem, family: str, subsets: Array, folds: int, steps: int = _MOST_STEPS
) -> Array:
    """log(predicted / measured) of a subset's probes by fits to its other folds; NaN elsewhere."""
    fold = np.array([problem.fold_numbers(subset, folds) for subset in subsets])
    number = np.arange(folds)[None, :, None]
    is_left_out = (fold[:, None, :] == number) & (subsets[:, None, :] > 0)  # subset, fold, probe
    weights = np.where(is_left_out, 0.0, subsets[:, None, :]).reshape(-1, subsets.shape[1])
    space = _space_of_subsets(problem, family, np.repeat(subsets, folds, axis=0))
    constants = search(problem, family, weights, space, steps=steps)
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
            by_subset[subset.tobytes()] = replace(problem, probes=members).space(family)
    low, high, starts = zip(*(by_subset[subset.tobytes()] for subset in subsets), strict=True)
    return SearchSpace(np.array(low), np.array(high), np.stack(starts, axis=1))


def search(
    problem: Problem,
    family: str,
    weights: Array,
    space: SearchSpace,
    *,
    steps: int = _MOST_STEPS,
) -> Array:
    """Constants of the best fit by each row of weights, [fits, constants]; NaN where unknown.

    Args:
        problem: the probes and their equation.
        family: one of the problem's.
        weights: how often each probe counts in each fit, [fits, probes].
        space: where to search.
        steps: most evaluations per search.
    """
    (prior, deviations), names = problem.prior_logs(family), problem.names(family)
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
        own = [names.index(name) for name in stage.names if name not in problem.left_out]
        columns = np.array(own, dtype=np.int64)
        stage_weights = weights * stage.probes
        has_enough = stage_weights.sum(axis=1) >= stage.least_probes
        # A constant without a start is one that the final fit left unknown.
        has_start = ~np.isnan(starts[:, :, columns]).any(axis=(0, 2))
        rows = np.flatnonzero(has_enough & has_start)
        if not len(rows) or not own:
            continue
        residuals = _log_residuals(problem, family, columns, tiled(constants[rows]))
        is_known = ~np.isnan(prior[columns])
        parameters, cost = minimise(
            _with_prior_residuals(residuals, prior[columns], problem.soft / deviations[columns]),
            starts[:, rows][:, :, columns].reshape(-1, len(columns)),
            (tiled(low[rows][:, columns]), tiled(high[rows][:, columns])),
            tiled(np.hstack([stage_weights[rows], np.ones((len(rows), is_known.sum()))])),
            problem.soft,
            steps=steps,
        )
        best = cost.reshape(len(starts), len(rows)).argmin(axis=0)
        by_start = parameters.reshape(len(starts), len(rows), len(columns))
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
    return space._replace(
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


def error_summary(errors: Array) -> dict[str, float]:
    """What a calibration says of |predicted / measured - 1| on probes left out."""
    return {
        "mape": float(errors.mean()),
        "median": float(np.median(errors)),
        "p95": float(np.percentile(errors, 95)),
        "count": float(len(errors)),
    }
