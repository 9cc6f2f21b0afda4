"""Roofs of products with narrow weights, fitted on probe_mixed_gemm; equations: the model beside.

All recipes of a provider are fitted at once, because they share constants. A roof that no probe
touches has no upper end: its interval reaches to the bound of the search.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from roofcal.core.portable_math import log
from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.fitting.bootstrap import Index
from roofcal.fitting.cross_validation import (
    Method,
    Problem,
    SearchSpace,
    columns_by_name,
    fit_each_recipe,
)
from roofcal.ops.constants import search_ranges
from roofcal.ops.gemm.model import CEILING
from roofcal.ops.kernel_rules import int4
from roofcal.ops.mixed_gemm import model
from roofcal.ops.mixed_gemm.model import (
    CONSTANTS,
    FAMILIES,
    OF_PROCESSORS,
    evaluate,
    our_blocks,
)

_OURS: Final = {  # provider -> family
    "triton": "ours",
    "triton_chained": "ours_chained",
    "triton_specialised": "ours_specialised",
}
# Constants of "converted" -> what the probes of other ops tell of them.
_OF_BF16_PRODUCTS: Final = {
    "bytes_per_s": "dram_read_bytes_per_s",
    "flops_per_s": f"gemm.cublaslt.bf16.{CEILING}",
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

    @property
    def families(self) -> Sequence[str]:
        """What a provider's kernels do is known, but on processors.

        Names of kernels tell whether our tuned kernels ran, which are for Hopper.
        """
        if self.device.is_cpu:
            return OF_PROCESSORS
        if self.provider not in _OURS:
            return ["converted" if self.provider == "torch_compile" else "no_blocks"]
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

    def names_of(self, family: str, recipe: str) -> dict[str, str]:
        """Recipes share some constants, not others."""
        how = FAMILIES[family]
        return {name: f"{recipe}.{name}" if name in how.own else name for name in how.constants}

    def space(self, family: str) -> SearchSpace:
        """Bounds from the fastest probes, and of the memory from the streams."""
        m, n, k = self.sizes
        shortest, weights = float(self.seconds.min()), float((n * k / self.seconds).max())
        flops = float((2 * m * n * k / self.seconds).max())
        stream, how = self.device.stream_bytes_per_s, FAMILIES[family]
        quantities = {
            "time": (shortest, 1.0),
            "weights": (weights, 1.0),
            "flops": (flops, 1.0),
        }
        ranges = search_ranges(CONSTANTS.values(), quantities, on_cpu=self.device.is_cpu)
        # Streams measure what memory can give; products may fall short of it. Ours read weights as
        # streams do, and what keeps them from it is in their equation.
        ranges["bytes_per_s"] = (
            (0.95 * stream, (0.85 if how.rule else 0.4) * stream, 1.02 * stream)
            if stream
            else (weights, 0.05 * weights, 20 * weights)
        )
        # probes of few tokens do not tell the library's product from the pass that converts
        known = self.known(family).items()
        ranges |= {name: (one.value, one.value, one.value) for name, one in known}
        names = dict.fromkeys(
            name for recipe in self.recipes for name in self.names_of(family, recipe).values()
        )
        kinds = [name.rpartition(".")[2] for name in names]
        start, low, high = log(np.array([ranges[kind] for kind in kinds])).T
        shifts = [[shift.get(kind, 0.0) for kind in kinds] for shift in _SHIFTS]
        return SearchSpace(names=tuple(names), low=low, high=high, starts=start + np.array(shifts))

    def known(self, family: str) -> dict[str, Ceiling]:
        """The rates of the library's product in bf16, where weights become bf16 first."""
        told = _OF_BF16_PRODUCTS if FAMILIES[family].converts else {}
        return {
            name: replace(self.device.constants[of], evidence=f"as {of}")
            for name, of in told.items()
            if of in self.device.constants
        }

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the model, recipe by recipe."""
        columns = columns_by_name(self.space(family).names, constants)
        total = np.empty((*constants.shape[:-1], len(self.probes)))
        for number, recipe in enumerate(self.recipes):
            members = np.flatnonzero(self.recipe_index == number)
            m, n, k = self.sizes[:, members]
            own = {name: columns[column] for name, column in self.names_of(family, recipe).items()}
            units = self.device.compute_units
            cut = self.cuts[recipe] if FAMILIES[family].rule else None
            total[..., members] = evaluate(own, family, units, recipe, (m, n, k), cut).total
        return total


METHOD: Final = Method(
    problem=NarrowProducts,
    noun="products",
    least_probes=8,
    joint_recipes=True,
    least_of_recipe=4,
    folds=7,
    quick_folds=3,
    soft=0.1,
    resample_from_best=True,
)


# The constants of every provider with eight products and more, of its recipes with four and more.
fit = partial(fit_each_recipe, op="mixed_gemm", equation=model, method=METHOD)
