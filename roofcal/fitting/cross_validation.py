"""The fit of an op's equation to its probes: families by cross-validation, intervals by bootstrap.

An op states a `Problem`: the constants of each of its families, where they are searched, and what
they predict. It states in a `Method` how many folds and steps its fit takes. All else is alike for
every op and stands here:

- A search minimises soft-clipped logarithms of predicted / measured (soft_l1 of SciPy). A point of
  3 us then counts as much as one of 3 ms, and an outlier pulls less than its square.
- Of the families, the one with the smallest mean |logarithm| on probes left out of its fit is
  taken. These errors on probes left out also give the intervals of predictions.
- The interval of a constant comes from fits to resampled probes.

`search` takes all index sets of a problem at once (folds, resamples), each a subset of its probes
or a draw with repetitions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from roofcal.core.times import Array
from roofcal.fitting.bootstrap import Index, draw_resamples, interval_ends
from roofcal.fitting.probes import CalibrationError, Device, Probe, by_provider_and_recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """The constants of a family and where they are searched, in natural logarithms.

    low, high  bounds, [constants]
    starts     [starts, constants]; of the searches from all of them, the best fit counts
    """

    names: tuple[str, ...]
    low: Array
    high: Array
    starts: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Constants that are searched together while those of the stages before are held.

    probes        which probes they are searched on, [probes]
    least_probes  with fewer of them, the constants stay unknown (NaN)
    """

    names: tuple[str, ...]
    probes: NDArray[np.bool_]
    least_probes: int = 0


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """Probes that are fitted together, and the equation that is fitted to them."""

    probes: Sequence[Probe]
    device: Device

    @cached_property
    def seconds(self) -> Array:
        """Measured medians, [probes]."""
        return np.array([probe.latency.median for probe in self.probes])

    @property
    def provider(self) -> str:
        """Whose probes they are."""
        return self.probes[0].point.provider

    @property
    def recipe(self) -> str:
        """The recipe of the probes; the first where there are several."""
        return self.probes[0].point.recipe

    @property
    def every_index(self) -> Index:
        """The indices of all probes."""
        return np.arange(len(self.probes))

    @property
    @abstractmethod
    def families(self) -> Sequence[str]:
        """The families to choose from; the first of several that are equally good is taken."""

    @abstractmethod
    def space(self, family: str) -> SearchSpace:
        """The constants of a family and where they are searched."""

    @abstractmethod
    def predictor(self, family: str, index: Index) -> Callable[[Array], Array]:
        """A function from constants, in the order of `space`, to seconds of the probes of `index`.

        Constants that are unknown are NaN.
        """

    def stages(self, family: str) -> Sequence[Stage]:
        """The stages of a search; by default one, of all constants on all probes."""
        return [Stage(names=self.space(family).names, probes=np.full(len(self.probes), True))]

    def restarts(self, generator: np.random.Generator) -> Sequence[Array]:  # noqa: ARG002
        """Further starts of the final fit, logarithms in the order of `space`; by default none."""
        return ()

    @property
    def fold_keys(self) -> Index:
        """Probes of equal keys, modulo the number of folds, are left out together."""
        return self.every_index

    def log_errors(self, family: str, constants: Array, index: Index) -> Array:
        """log(predicted / measured) of the probes of `index`."""
        return np.log(self.predictor(family, index)(constants) / self.seconds[index])


P = TypeVar("P", bound=Problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[P]):
    """How the constants of one op are fitted.

    problem              what is fitted to a group of probes
    noun                 what its probes are, in messages: "products"
    least_probes         a group of fewer is not fitted
    joint_recipes        whether the recipes of a provider are one group
    folds                of the cross-validation
    soft                 logarithms beyond this one pull less than their square
    inside_bounds        how far inside its bounds a search starts, in logarithms
    resample_from_best   whether fits to resamples start from the final fit; else from all starts
    resample_steps       most evaluations of each of these fits; None: until it converges
    quick_folds, quick_steps, judged_steps
                         of the shorter fits of a learning curve, see `judge`
    subtract_logs        log(predicted) - log(measured) in a search instead of log(predicted /
                         measured): they round differently, and published constants are exact
    """

    problem: type[P]
    noun: str
    least_probes: int
    joint_recipes: bool = False
    folds: int
    soft: float
    inside_bounds: float = 1e-9
    resample_from_best: bool = False
    resample_steps: int | None = None
    quick_folds: int
    quick_steps: int | None = None
    judged_steps: int | None = None
    subtract_logs: bool = False

    def problems(self, probes: Sequence[Probe], device: Device) -> Iterator[P]:
        """The groups that are fitted, by their names; those of too few probes are skipped."""
        pairs = [
            pair for pair in by_provider_and_recipe(probes) if len(pair[2]) >= self.least_probes
        ]
        if not self.joint_recipes:
            yield from (self.problem(probes=members, device=device) for _, _, members in pairs)
            return
        for _, group in groupby(pairs, key=lambda pair: pair[0]):
            members = [probe for _, _, of_recipe in group for probe in of_recipe]
            yield self.problem(probes=members, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The fit of a problem.

    constants, intervals  by name, without the constants that no probe tells of
    log_errors            log(predicted / measured) of every probe by a fit without it
    """

    family: str
    constants: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    log_errors: Array


def fit_problem(problem: Problem, method: Method[Any], generator: np.random.Generator) -> Fit:
    """The best family, its constants with 95 % intervals, and its errors on probes left out.

    Raises CalibrationError for fewer probes than the method needs.
    """
    _require_probes(problem, method)
    family, log_errors = choose_family(problem, method)
    best = _best_constants(problem, family, method, generator)
    resampled = search(
        problem,
        family,
        draw_resamples(len(problem.probes), generator),
        method,
        starts=np.log(best)[None] if method.resample_from_best else None,
        steps=method.resample_steps,
    )
    low, high = interval_ends(np.where(np.isnan(resampled), best, resampled))
    columns = {name: i for i, name in enumerate(problem.space(family).names) if best[i] == best[i]}
    return Fit(
        family=family,
        constants={name: float(best[i]) for name, i in columns.items()},
        intervals={name: (float(low[i]), float(high[i])) for name, i in columns.items()},
        log_errors=log_errors,
    )


def choose_family(
    problem: Problem, method: Method[Any], *, folds: int | None = None, steps: int | None = None
) -> tuple[str, Array]:
    """(family with the smallest errors on probes left out, log(predicted / measured) of them)."""
    log_errors = {
        family: _left_out_errors(problem, family, method, folds or method.folds, steps)
        for family in problem.families
    }
    family = min(log_errors, key=lambda name: float(np.abs(log_errors[name]).mean()))
    return family, log_errors[family]


def judge(problem: Problem, unseen: Problem, method: Method[Any]) -> Array:
    """log(predicted / measured) of `unseen` probes by a fit of `problem` alone, family included.

    The family is chosen with fewer folds and steps than in fit_problem. Raises CalibrationError for
    fewer probes than the method needs.
    """
    _require_probes(problem, method)
    family = problem.families[0]
    if len(problem.families) > 1:
        family, _ = choose_family(
            problem, method, folds=method.quick_folds, steps=method.quick_steps
        )
    (constants,) = search(problem, family, [problem.every_index], method, steps=method.judged_steps)
    return unseen.log_errors(family, constants, unseen.every_index)


def search(
    problem: Problem,
    family: str,
    index_sets: Sequence[Index] | Index,
    method: Method[Any],
    *,
    starts: Array | None = None,
    steps: int | None = None,
) -> Array:
    """Constants of the best fit to each index set, [sets, constants]; NaN where unknown.

    Args:
        problem: the probes and their equation.
        family: one of the problem's.
        index_sets: for each fit, the indices of the probes that it is fitted to.
        method: of the op.
        starts: logarithms to search from, [starts, constants]; None: those of the problem.
        steps: most evaluations per search; None: until it converges.
    """
    space = problem.space(family)
    one_fit = _Search(
        problem=problem,
        family=family,
        method=method,
        space=space if starts is None else replace(space, starts=starts),
        stages=problem.stages(family),
        steps=steps,
    )
    return np.array([one_fit.constants(index) for index in index_sets])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """A search with SciPy, one index set after the other."""

    problem: Problem
    family: str
    method: Method[Any]
    space: SearchSpace
    stages: Sequence[Stage]
    steps: int | None

    def constants(self, index: Index) -> Array:
        """Constants of the best fit to the probes of `index`, stage by stage."""
        constants = np.full(len(self.space.names), np.nan)
        for stage in self.stages:
            own = index[stage.probes[index]]
            columns = [self.space.names.index(name) for name in stage.names]
            starts = self.space.starts[:, columns]
            # A constant without a start is one that the final fit left unknown.
            if len(own) >= stage.least_probes and not np.isnan(starts).any():
                constants[columns] = self._stage(own, columns, constants)
        return constants

    def _stage(self, own: Index, columns: list[int], held: Array) -> Array:
        predict = self.problem.predictor(self.family, own)
        measured = self.problem.seconds[own]
        low, high = self.space.low[columns], self.space.high[columns]
        inside = self.method.inside_bounds

        def residual(logarithms: Array) -> Array:
            constants = held.copy()
            constants[columns] = np.exp(logarithms)
            predicted = predict(constants)
            if self.method.subtract_logs:
                return np.asarray(np.log(predicted) - np.log(measured))
            return np.asarray(np.log(predicted / measured))

        fits = [
            least_squares(
                residual,
                np.clip(start[columns], low + inside, high - inside),
                bounds=(low, high),
                loss="soft_l1",
                f_scale=self.method.soft,
                max_nfev=self.steps,
            )
            for start in self.space.starts
        ]
        constants: Array = np.exp(min(fits, key=lambda fit: float(fit.cost)).x)
        return constants


def _require_probes(problem: Problem, method: Method[Any]) -> None:
    if len(problem.probes) < method.least_probes:
        op = problem.probes[0].point.op
        raise CalibrationError(
            f"{problem.provider} {problem.recipe}: {len(problem.probes)} {method.noun} in {op}, "
            f"needs {method.least_probes}; measure more (config/sweeps/{op}.yaml: count)"
        )


def _best_constants(
    problem: Problem, family: str, method: Method[Any], generator: np.random.Generator
) -> Array:
    """The best of the fits from the usual starts and from every restart of the problem."""
    starts = [None, *(start[None] for start in problem.restarts(generator))]
    every = problem.every_index
    fits = [search(problem, family, [every], method, starts=start)[0] for start in starts]

    def mean_error(constants: Array) -> float:
        return float(np.abs(problem.log_errors(family, constants, every)).mean())

    return min(fits, key=mean_error) if len(fits) > 1 else fits[0]


def _left_out_errors(
    problem: Problem, family: str, method: Method[Any], folds: int, steps: int | None
) -> Array:
    """log(predicted / measured) of every probe, fitted on the other folds."""
    fold = problem.fold_keys % folds
    numbers = np.unique(fold)
    kept = [np.flatnonzero(fold != number) for number in numbers]
    log_errors = np.empty(len(fold))
    for number, constants in zip(
        numbers, search(problem, family, kept, method, steps=steps), strict=True
    ):
        left_out = np.flatnonzero(fold == number)
        log_errors[left_out] = problem.log_errors(family, constants, left_out)
    return log_errors


def error_summary(errors: Array) -> dict[str, float]:
    """What a calibration says of |predicted / measured - 1| on probes left out."""
    return {
        "mape": float(errors.mean()),
        "median": float(np.median(errors)),
        "p95": float(np.percentile(errors, 95)),
        "count": float(len(errors)),
    }


def p95_of_logs(log_errors: Array) -> float:
    """95th percentile of |log(predicted / measured)|: exp of it is the factor of an interval."""
    return float(np.percentile(np.abs(log_errors), 95))
