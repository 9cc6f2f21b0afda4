"""Roofs of products with narrow weights, fitted on probe_mixed_gemm; equations: the model beside.

All recipes of a provider are fitted at once: they start alike and share the memory, and differ in
what a weight and a token cost. A roof that no probe touches has no upper end: its interval reaches
to the bound of the search.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from roofcal.core.times import Array
from roofcal.fitting.bootstrap import Index, ceiling, encode_family
from roofcal.fitting.conformal import Errors, half_widths
from roofcal.fitting.cross_validation import (
    Fit,
    Method,
    Problem,
    SearchSpace,
    columns_by_name,
    error_summary,
    fit_problems,
)
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.constants import search_ranges
from roofcal.ops.kernel_rules import int4
from roofcal.ops.mixed_gemm.model import (
    CONSTANTS,
    FAMILIES,
    FAMILY,
    OF_PROCESSORS,
    constants_of,
    evaluate,
    groups_of,
    our_blocks,
)

_OF_A_RECIPE: Final = ("weights_per_s", "flops_per_s")  # recipes share the other constants
_OURS: Final = {  # provider -> family
    "triton": "ours",
    "triton_chained": "ours_chained",
    "triton_specialised": "ours_specialised",
}
_NOT_TUNED: Final = "_int4_plain_kernel"  # which kernels.int4 runs where it has no tuned blocks
# Logarithms added to the start of a recipe's own constants: whether the search takes memory,
# weights or tokens for what binds at first.
_SHIFTS: Final = (
    {"weights_per_s": 2.0, "flops_per_s": 2.0},
    {"flops_per_s": 2.0},
    {"weights_per_s": 2.0},
)


class NarrowProducts(Problem):
    """Products of one provider in one recipe and more."""

    axes = ("m", "n", "k")

    @cached_property
    def recipes(self) -> tuple[str, ...]:
        """The recipes of the probes, in their order."""
        return tuple(dict.fromkeys(probe.point.recipe for probe in self.probes))

    @cached_property
    def recipe_index(self) -> Index:
        """The place in `recipes` of each probe."""
        return np.array([self.recipes.index(probe.point.recipe) for probe in self.probes])

    @property
    def families(self) -> Sequence[str]:
        """Tiles of multiprocessors are for GPUs alone; the blocks of our kernels are known.

        Names of kernels tell whether our tuned kernels ran, which are for Hopper.
        """
        if self.device.is_cpu:
            return OF_PROCESSORS
        if self.provider not in _OURS:
            return ["no_blocks", "tiles"]
        names = {name for probe in self.probes for name in probe.measurement.kernel_names}
        return ["tiles"] if _NOT_TUNED in names else [_OURS[self.provider]]

    @cached_property
    def cuts(self) -> dict[str, int4.Blocks]:
        """The blocks of the probes of each recipe, which are those of every fit."""
        rule, units = FAMILIES[_OURS[self.provider]].rule, self.device.compute_units
        cuts = {}
        for number, recipe in enumerate(self.recipes):
            m, n, k = self.sizes[:, self.recipe_index == number]
            cuts[recipe] = our_blocks(rule, recipe, m, n, k, units)
        return cuts

    def fold_numbers(self, subset: Array, folds: int) -> Index:
        """A shape is left out in all recipes at once, because one recipe would reveal another."""
        _, shape = np.unique(self.sizes, axis=1, return_inverse=True)
        numbers: Index = shape.ravel() % folds
        return numbers

    def names(self, family: str, recipe: str) -> dict[str, str]:
        """Constants of the model -> their names in the search: recipes share some, not others."""
        # Our kernels multiply alike in all recipes, and differ in how they convert weights.
        own = _OF_A_RECIPE[:1] if FAMILIES[family].rule else _OF_A_RECIPE
        return {name: f"{recipe}.{name}" if name in own else name for name in constants_of(family)}

    def space(self, family: str) -> SearchSpace:
        """Bounds from the fastest probes, and of the memory from the streams."""
        m, n, k = self.sizes
        shortest, weights = float(self.seconds.min()), float((n * k / self.seconds).max())
        flops = float((2 * m * n * k / self.seconds).max())
        stream, ours = self.device.stream_bytes_per_s, bool(FAMILIES[family].rule)
        quantities = {
            "time": (shortest, 1.0),
            "weights": (weights, 1.0),
            "flops": (flops, 1.0),
        }
        ranges = search_ranges(CONSTANTS.values(), quantities, on_cpu=self.device.is_cpu)
        # Streams measure what memory can give; products may fall short of it. Ours read weights as
        # streams do, and what keeps them from it is in their equation.
        ranges["bytes_per_s"] = (
            (0.95 * stream, (0.85 if ours else 0.4) * stream, 1.02 * stream)
            if stream
            else (weights, 0.05 * weights, 20 * weights)
        )
        names = dict.fromkeys(
            name for recipe in self.recipes for name in self.names(family, recipe).values()
        )
        kinds = [name.rpartition(".")[2] for name in names]
        start, low, high = np.log([ranges[kind] for kind in kinds]).T
        shifts = [[shift.get(kind, 0.0) for kind in kinds] for shift in _SHIFTS]
        return SearchSpace(names=tuple(names), low=low, high=high, starts=start + np.array(shifts))

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the model, recipe by recipe."""
        columns = columns_by_name(self.space(family).names, constants)
        total = np.empty((*constants.shape[:-1], len(self.probes)))
        for number, recipe in enumerate(self.recipes):
            members = np.flatnonzero(self.recipe_index == number)
            m, n, k = self.sizes[:, members]
            own = {name: columns[column] for name, column in self.names(family, recipe).items()}
            units = self.device.compute_units
            cut = self.cuts[recipe] if FAMILIES[family].rule else None
            total[..., members] = evaluate(own, family, units, recipe, (m, n, k), cut).total
        return total


METHOD: Final = Method(
    problem=NarrowProducts,
    noun="products",
    least_probes=8,
    joint_recipes=True,
    folds=7,
    quick_folds=3,
    soft=0.1,
    resample_from_best=True,
)


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """The constants of every provider and recipe with eight products and more, by provider."""
    fitted = Fitted()
    fits = fit_problems([*METHOD.problems(probes, device)], METHOD, generator)
    widths = half_widths("mixed_gemm", _errors_by_recipe(fits))
    for problem, result in fits:
        for number, recipe in enumerate(problem.recipes):
            own = result.log_errors[problem.recipe_index == number]
            count = f"{len(own)} products of {len(problem.probes)}"
            evidence = f"probe_mixed_gemm, {count}, {result.family}"
            prefix = f"mixed_gemm.{problem.provider}.{recipe}"
            fitted.constants[f"{prefix}.{FAMILY}"] = encode_family(FAMILIES, result.family)
            for name, fitted_name in problem.names(result.family, recipe).items():
                fitted.constants[f"{prefix}.{name}"] = ceiling(
                    result.constants[fitted_name],
                    *result.intervals[fitted_name],
                    CONSTANTS[name].unit,
                    evidence,
                )
            fitted.errors[prefix] = error_summary(np.abs(np.expm1(own))) | widths[prefix]
    return fitted


def _errors_by_recipe(fits: Iterable[tuple[NarrowProducts, Fit]]) -> Iterator[Errors]:
    for problem, result in fits:
        for number, recipe in enumerate(problem.recipes):
            own = problem.recipe_index == number
            groups = groups_of(recipe, problem.sizes[:, own])
            yield problem.provider, recipe, groups, result.log_errors[own]
