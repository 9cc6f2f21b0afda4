"""Roofs of products with narrow weights, fitted on probe_mixed_gemm by provider and recipe.

Equations: roofcal.ops.mixed_gemm.time_model. The fit minimises soft-clipped logarithms of
predicted / measured, as those of products and casts do. A roof that no probe touches has no upper
end: its interval then reaches to the bound of the search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from roofcal.calibrate.bootstrap import ceiling, interval
from roofcal.calibrate.casts import by_pair, errors_of
from roofcal.calibrate.probes import Probe
from roofcal.ops.mixed_gemm.time_model import CONSTANTS, evaluate
from roofcal.records import Ceiling

Array = NDArray[np.float64]
LEAST_POINTS: Final = 8
_FOLDS: Final = 7
_SOFT: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedFit:
    """Result for one provider and recipe; errors are fractions of the measured time."""

    constants: Mapping[str, Ceiling]
    errors: Mapping[str, float]


def fit_mixed(
    probes: Sequence[Probe], generator: np.random.Generator
) -> Iterator[tuple[str, MixedFit]]:
    """("<provider>.<recipe>", fit) of every pair with eight probes and more."""
    for provider, recipe, some in by_pair(probes):
        if len(some) >= LEAST_POINTS:
            yield f"{provider}.{recipe}", _fit_one(_Data.of(recipe, some), generator)


def judged(probes: Sequence[Probe], others: Sequence[Probe]) -> Array:
    """log(predicted / measured) of `others` by a fit of `probes`: one provider and recipe."""
    recipe = probes[0].point.recipe
    found = _Data.of(recipe, probes).search(np.arange(len(probes)))
    return _Data.of(recipe, others).residual(found, np.arange(len(others)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    recipe: str
    sizes: Array
    seconds: Array

    @classmethod
    def of(cls, recipe: str, probes: Sequence[Probe]) -> "_Data":
        return cls(
            recipe=recipe,
            sizes=np.array([[float(p.shape[axis]) for axis in "mnk"] for p in probes]),
            seconds=np.array([p.latency.median for p in probes]),
        )

    def residual(self, constants: Array, index: NDArray[Any]) -> Array:
        """log(predicted / measured) of the probes of `index`; constants as CONSTANTS has them."""
        named = dict(zip(CONSTANTS, constants.tolist(), strict=True))
        m, n, k = self.sizes[index].T
        found: Array = np.log(evaluate(named, self.recipe, m, n, k).total / self.seconds[index])
        return found

    def search(self, index: NDArray[Any]) -> Array:
        """Constants of the best fit to the probes of `index`, the best of several starts."""
        m, n, k = self.sizes.T
        shortest = float(self.seconds.min())
        weights = float((n * k / self.seconds).max())
        flops = float((2 * m * n * k / self.seconds).max())
        start = np.log([0.5 * shortest, weights, weights, flops])
        low = start - np.log([50.0, 20.0, 20.0, 20.0])
        high = start + np.log([2.0, 20.0, 100.0, 100.0])

        def residual(x: Array) -> Array:
            return self.residual(np.exp(x), index)

        found = [
            least_squares(
                residual, start + shift, bounds=(low, high), loss="soft_l1", f_scale=_SOFT
            )
            for shift in _STARTS
        ]
        return np.exp(min(found, key=lambda fit: float(fit.cost)).x)


# which roof the search takes for the binding one at first: memory, issue slots, the matrix unit
_STARTS: Final = (
    np.array([0.0, 0.0, 2.0, 2.0]),
    np.array([0.0, 1.0, 0.0, 2.0]),
    np.array([0.0, 1.0, 2.0, 0.0]),
)


def _fit_one(data: _Data, generator: np.random.Generator) -> MixedFit:
    count = len(data.seconds)
    best = data.search(np.arange(count))
    low, high = interval(count, data.search, generator)
    evidence = f"probe_mixed_gemm, {count} products"
    constants = {
        name: ceiling(best[i], low[i], high[i], unit, evidence)
        for i, (name, unit) in enumerate(CONSTANTS.items())
    }
    return MixedFit(constants=constants, errors=errors_of(_left_out(data)))


def _left_out(data: _Data) -> Array:
    """log(predicted / measured) of every probe, fitted on the other folds."""
    fold = np.arange(len(data.seconds)) % _FOLDS
    residuals = np.empty(len(fold))
    for number in range(_FOLDS):
        left = np.flatnonzero(fold == number)
        residuals[left] = data.residual(data.search(np.flatnonzero(fold != number)), left)
    return residuals
