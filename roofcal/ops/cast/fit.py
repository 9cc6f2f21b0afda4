"""Constants of casts, fitted on probe_cast by provider and recipe; equations: the model beside."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from roofcal.core.times import Array
from roofcal.fitting.bootstrap import Index, ceiling
from roofcal.fitting.cross_validation import (
    Method,
    Problem,
    SearchSpace,
    error_summary,
    fit_problem,
    p95_of_logs,
)
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.cast.model import CONSTANTS, FAMILIES, FAMILY, evaluate
from roofcal.ops.constants import encode_family

# Of (misaligned, extra_columns). Two, because there are two minima: slow large casts are put down
# to narrow matrices or to misaligned rows.
_STARTS: Final = ((1.2, 10.0), (2.0, 1000.0))


class Casts(Problem):
    """Casts of one provider and recipe."""

    @cached_property
    def _sizes(self) -> Array:
        """Rows and columns, [2, probes]."""
        sizes = [[p.shape["rows"], p.shape["cols"]] for p in self.probes]
        return np.array(sizes, dtype=float).T

    @property
    def families(self) -> Sequence[str]:
        """All: which kernels a provider has, the probes tell."""
        return list(FAMILIES)

    def space(self, family: str) -> SearchSpace:
        """Bounds from the fastest and the shortest cast."""
        rows, cols = self._sizes
        rate = float((rows * cols / self.seconds).max())
        shortest = float(self.seconds.min())
        starts = [[shortest, 3 * rate, 3 * rate, *start] for start in _STARTS]
        return SearchSpace(
            names=tuple(CONSTANTS),
            low=np.log([0.02 * shortest, 0.05 * rate, 0.05 * rate, 1.0, 0.1]),
            high=np.log([5 * shortest, 50 * rate, 50 * rate, 6.0, 8000.0]),
            starts=np.log(starts),
        )

    def predictor(self, family: str, index: Index) -> Callable[[Array], Array]:
        """Seconds by the equation of the model."""
        recipe, cache_bytes = self.probes[0].point.recipe, self.device.cache_bytes or 0.0
        rows, cols = self._sizes[:, index]

        def predict(constants: Array) -> Array:
            named = dict(zip(CONSTANTS, constants.tolist(), strict=True))
            return evaluate(named, recipe, rows, cols, family, cache_bytes).total

        return predict


METHOD: Final = Method(
    problem=Casts, noun="casts", least_probes=8, folds=7, quick_folds=3, soft=0.1
)


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """The constants of every provider and recipe with eight casts and more."""
    fitted = Fitted()
    for problem in METHOD.problems(probes, device):
        result = fit_problem(problem, METHOD, generator)
        name = f"cast.{problem.provider}.{problem.recipe}"
        evidence = f"probe_cast, {len(problem.probes)} casts, {result.family}"
        fitted.constants[f"{name}.{FAMILY}"] = encode_family(FAMILIES, result.family)
        for constant, value in result.constants.items():
            fitted.constants[f"{name}.{constant}"] = ceiling(
                value, *result.intervals[constant], CONSTANTS[constant], evidence
            )
        errors = error_summary(np.abs(np.expm1(result.log_errors)))
        fitted.errors[name] = errors | {"log_p95": p95_of_logs(result.log_errors)}
    return fitted
