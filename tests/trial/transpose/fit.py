"""Constants of transposes, fitted on probe_transpose by provider and recipe."""

from functools import partial
from typing import Final

import numpy as np

from roofcal.core.times import Array
from roofcal.fitting.cross_validation import (
    Method,
    Problem,
    SearchSpace,
    columns_by_name,
    fit_each_recipe,
)
from roofcal.ops.transpose import model
from roofcal.ops.transpose.model import CONSTANTS, FAMILIES, evaluate


class Transposes(Problem):
    """Transposes of one provider."""

    axes = ("rows", "cols")
    families = tuple(FAMILIES)  # the probes tell which one a provider has

    def space(self, family: str) -> SearchSpace:
        """Bounds from the fastest and the shortest probe."""
        rows, cols = self.sizes
        shortest, rate = float(self.seconds.min()), float((4 * rows * cols / self.seconds).max())
        low, start, high = np.log([[0.01 * shortest, 0.1 * rate], [shortest, rate], [1.0, 1e15]])
        return SearchSpace(names=tuple(CONSTANTS), low=low, high=high, starts=start[None])

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the model."""
        rows, cols = self.sizes
        return np.asarray(evaluate(columns_by_name(CONSTANTS, constants), rows, cols, family))


METHOD: Final = Method(
    problem=Transposes, noun="transposes", least_probes=6, folds=3, quick_folds=2, soft=0.1
)


# The constants of every provider with six probes and more.
fit = partial(fit_each_recipe, op="transpose", equation=model, method=METHOD)
