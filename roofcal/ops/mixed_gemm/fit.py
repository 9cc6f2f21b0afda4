"""Roofs of products with narrow weights, fitted on probe_mixed_gemm; equations: the model beside.

All recipes of a provider are fitted at once, because they share constants. A roof that no probe
touches has no upper end: its interval reaches to the bound of the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import ClassVar, Final

import numpy as np

from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.fitting.cross_validation import Problem, fit_each_recipe
from roofcal.fitting.intervals import Index
from roofcal.ops.gemm.model import CEILING
from roofcal.ops.mixed_gemm import model
from roofcal.ops.mixed_gemm.model import FAMILIES, OF_PROCESSORS

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
# Logarithms added to the starts of a recipe's own constants.
_SHIFTS: Final = (
    {"weights_per_s": 2.0, "flops_per_s": 2.0},
    {"flops_per_s": 2.0},
    {"weights_per_s": 2.0},
)


class NarrowProducts(Problem):
    """Products of one provider in one recipe and more."""

    equation: ClassVar = model
    noun = "products"
    least_probes = 8
    joint_recipes = True
    least_of_recipe = 4
    folds = 7
    quick_folds = 3

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

    def fold_numbers(self, subset: Array, folds: int) -> Index:
        """A shape is left out in all recipes at once, because one recipe would reveal another."""
        _, shape = np.unique(self.sizes, axis=1, return_inverse=True)
        numbers: Index = shape.ravel() % folds
        return numbers

    def constants(self, family: str) -> Sequence[str]:
        """Those of the equation of the family."""
        return FAMILIES[family].constants

    def constants_of_recipes(self, family: str) -> Sequence[str]:
        """Recipes share some constants, not others."""
        return FAMILIES[family].own

    @cached_property
    def quantities(self) -> Mapping[str, tuple[float, float]]:
        """From the fastest probes."""
        m, n, k = self.sizes
        return {
            "time": (float(self.seconds.min()), 1.0),
            "weights": (float((n * k / self.seconds).max()), 1.0),
            "flops": (float((2 * m * n * k / self.seconds).max()), 1.0),
        }

    def ranges(self, family: str) -> dict[str, tuple[float, float, float]]:
        """As declared, and those of the memory from the streams.

        Streams measure what memory can give; products may fall short of it. Ours read weights as
        streams do, and what keeps them from it is in their equation.
        """
        stream, (weights, _) = self.device.stream_bytes_per_s, self.quantities["weights"]
        least = 0.85 if FAMILIES[family].rule else 0.4
        of_memory = (0.95 * stream, least * stream, 1.02 * stream) if stream else None
        ranges = super().ranges(family)
        return ranges | {"bytes_per_s": of_memory or (weights, 0.05 * weights, 20 * weights)}

    def shifts(self, family: str) -> Sequence[Mapping[str, float]]:
        """Whether the search takes memory, weights or tokens for what binds at first."""
        return _SHIFTS

    def known(self, family: str) -> dict[str, Ceiling]:
        """The rates of the library's product in bf16, where weights become bf16 first.

        Probes of few tokens do not tell that product from the pass that converts.
        """
        told = _OF_BF16_PRODUCTS if FAMILIES[family].converts else {}
        return {
            name: replace(self.device.constants[of], evidence=f"as {of}")
            for name, of in told.items()
            if of in self.device.constants
        }


# The constants of every provider with eight products and more, of its recipes with four and more.
PROBLEM: Final = NarrowProducts
fit = partial(fit_each_recipe, PROBLEM)
