"""Constants of transposes, fitted on probe_transpose by provider and recipe."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

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


# The constants of every provider with six probes and more.
PROBLEM: Final = Transposes
fit = partial(fit_each_recipe, PROBLEM)
