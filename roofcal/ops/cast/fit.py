"""Constants of casts, fitted on probe_cast by provider and recipe; equations: the model beside."""

from collections.abc import Mapping, Sequence
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
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.cast.model import CONSTANTS, FAMILIES, FAMILY, NEUTRAL, evaluate, interval_groups

# Of (misaligned, extra_columns). Two, because there are two minima: slow large casts are put down
# to narrow matrices or to misaligned rows.
_STARTS: Final = ((1.2, 10.0), (2.0, 1000.0))


class Casts(Problem):
    """Casts of one provider and recipe."""

    axes = ("rows", "cols")
    neutral = NEUTRAL
    families = tuple(FAMILIES)  # the probes tell which one a provider has

    def space(self, family: str) -> SearchSpace:
        """Bounds from the fastest and the shortest cast."""
        rows, cols = self.sizes
        rate = float((rows * cols / self.seconds).max())
        shortest = float(self.seconds.min())
        starts = [[shortest, 3 * rate, 3 * rate, *start] for start in _STARTS]
        return SearchSpace(
            names=tuple(CONSTANTS),
            low=np.log([0.02 * shortest, 0.05 * rate, 0.05 * rate, 1.0, 0.1]),
            high=np.log([5 * shortest, 50 * rate, 50 * rate, 6.0, 8000.0]),
            starts=np.log(starts),
        )

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the model."""
        columns = columns_by_name(CONSTANTS, constants, NEUTRAL)
        cache_bytes = self.device.cache_bytes or 0.0
        rows, cols = self.sizes
        return evaluate(columns, self.recipe, rows, cols, family, cache_bytes).total


METHOD: Final = Method(
    problem=Casts, noun="casts", least_probes=8, folds=7, quick_folds=3, soft=0.1
)


def group_of(recipe: str, shape: Mapping[str, int]) -> str:
    """The group whose errors make the interval of a shape."""
    return interval_groups(np.array([shape["rows"]]), np.array([shape["cols"]]))[0]


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """The constants of every provider and recipe with eight casts and more."""
    problems, families = list(METHOD.problems(probes, device)), (FAMILY, FAMILIES)
    return fit_each_recipe(
        problems,
        METHOD,
        generator,
        op="cast",
        units=CONSTANTS,
        families=families,
        group_of=group_of,
    )
