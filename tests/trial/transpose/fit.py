"""Constants of transposes, fitted on probe_transpose by provider and recipe."""

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
from roofcal.ops.constants import encode_family
from roofcal.ops.transpose.model import CONSTANTS, FAMILIES, FAMILY, evaluate


class Transposes(Problem):
    """Transposes of one provider."""

    @cached_property
    def _sizes(self) -> Array:
        sizes = [[p.shape["rows"], p.shape["cols"]] for p in self.probes]
        return np.array(sizes, dtype=float).T

    @property
    def families(self) -> Sequence[str]:
        """All: which one a provider has, the probes tell."""
        return list(FAMILIES)

    def space(self, family: str) -> SearchSpace:
        """Bounds from the fastest and the shortest probe."""
        rows, cols = self._sizes
        shortest, rate = float(self.seconds.min()), float((4 * rows * cols / self.seconds).max())
        low, start, high = np.log([[0.01 * shortest, 0.1 * rate], [shortest, rate], [1.0, 1e15]])
        return SearchSpace(names=tuple(CONSTANTS), low=low, high=high, starts=start[None])

    def predictor(self, family: str, index: Index) -> Callable[[Array], Array]:
        """Seconds by the equation of the model."""
        rows, cols = self._sizes[:, index]

        def predict(constants: Array) -> Array:
            named = dict(zip(CONSTANTS, constants.tolist(), strict=True))
            return np.asarray(evaluate(named, rows, cols, family))

        return predict


METHOD: Final = Method(
    problem=Transposes, noun="transposes", least_probes=6, folds=3, quick_folds=2, soft=0.1
)


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """The constants of every provider with six probes and more."""
    fitted = Fitted()
    for problem in METHOD.problems(probes, device):
        result = fit_problem(problem, METHOD, generator)
        name = f"transpose.{problem.provider}.{problem.recipe}"
        evidence = f"probe_transpose, {len(problem.probes)} transposes, {result.family}"
        fitted.constants[f"{name}.{FAMILY}"] = encode_family(FAMILIES, result.family)
        for constant, value in result.constants.items():
            ends = result.intervals[constant]
            fitted.constants[f"{name}.{constant}"] = ceiling(
                value, *ends, CONSTANTS[constant], evidence
            )
        errors = error_summary(np.abs(np.expm1(result.log_errors)))
        fitted.errors[name] = errors | {"log_p95": p95_of_logs(result.log_errors)}
    return fitted
