"""Constants of transposes, fitted on probe_transpose by provider and recipe."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

import numpy as np

from roofcal.core.times import Array
from roofcal.fitting.cross_validation import Problem, fit_each_recipe
from roofcal.ops.transpose import model


class Transposes(Problem):
    """Transposes of one provider."""

    equation: ClassVar = model
    noun = "transposes"
    least_probes = 6
    folds = 3
    quick_folds = 2
    families = tuple(model.FAMILIES)  # the probes tell which one a provider has

    @property
    def quantities(self) -> Mapping[str, tuple[float, float]]:
        """From the shortest and the fastest probe."""
        rows, cols = self.sizes
        rate = float((4 * rows * cols / self.seconds).max())
        return {"time": (float(self.seconds.min()), 1.0), "rate": (rate, 1.0)}

    def constants(self, family: str) -> Sequence[str]:
        """All of the equation."""
        return tuple(model.CONSTANTS)

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the model."""
        rows, cols = self.sizes
        return np.asarray(model.evaluate(self.columns(family, constants), rows, cols, family))


# The constants of every provider with six probes and more.
PROBLEM: Final = Transposes
fit = partial(fit_each_recipe, PROBLEM)
