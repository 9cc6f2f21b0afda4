"""Roofs of products with narrow weights, fitted on probe_mixed_gemm by provider and recipe.

Equations: roofcal.ops.mixed_gemm.time_model. The fit minimises soft-clipped logarithms of
predicted / measured, as those of products and casts do. How a provider cuts a product is the family
with the smallest error on probes left out in turn. A roof that no probe touches has no upper end:
its interval then reaches to the bound of the search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from roofcal.calibrate.bootstrap import ceiling, interval
from roofcal.calibrate.casts import by_pair, errors_of
from roofcal.calibrate.probes import Probe
from roofcal.ops.mixed_gemm.time_model import CONSTANTS, FAMILIES, constants_of, evaluate
from roofcal.records import Ceiling, Environment

Array = NDArray[np.float64]
LEAST_POINTS: Final = 8
_FOLDS: Final = 7
_QUICK_FOLDS: Final = 3
_SOFT: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedFit:
    """Result for one provider and recipe; errors are fractions of the measured time."""

    family: str
    constants: Mapping[str, Ceiling]
    errors: Mapping[str, float]


def families_of(environment: Environment) -> list[str]:
    """Families to try: those with tiles on GPUs alone, whose multiprocessors take a tile each."""
    tiled = environment.vendor != "cpu"
    return [name for name, family in FAMILIES.items() if tiled or not family.splits]


def fit_mixed(
    probes: Sequence[Probe],
    compute_units: int,
    families: Sequence[str],
    generator: np.random.Generator,
) -> Iterator[tuple[str, MixedFit]]:
    """("<provider>.<recipe>", fit) of every pair with eight probes and more, by provider.

    The family is that of a provider's kernels: one for all of its recipes.

    compute_units: of the device. families: to choose from, see families_of.
    """
    pairs = [pair for pair in by_pair(probes) if len(pair[2]) >= LEAST_POINTS]
    for provider, own in groupby(pairs, key=lambda pair: pair[0]):
        known = {recipe: _Data.of(recipe, some, compute_units) for _, recipe, some in own}
        family, residuals = _chosen(list(known.values()), families)
        for (recipe, data), errors in zip(known.items(), residuals, strict=True):
            yield f"{provider}.{recipe}", _fit_one(data, family, errors, generator)


def judged(
    probes: Sequence[Probe], others: Sequence[Probe], compute_units: int, families: Sequence[str]
) -> Array:
    """log(predicted / measured) of `others` by a fit of `probes` alone, its family included.

    All are of one provider and recipe. The family is chosen by three folds.
    """
    recipe = probes[0].point.recipe
    data = _Data.of(recipe, probes, compute_units)
    family, _ = _chosen([data], families, _QUICK_FOLDS)
    found = data.search(family, np.arange(len(probes)))
    unseen = _Data.of(recipe, others, compute_units)
    return unseen.residual(found, family, np.arange(len(others)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    recipe: str
    sizes: Array
    seconds: Array
    compute_units: int

    @classmethod
    def of(cls, recipe: str, probes: Sequence[Probe], compute_units: int) -> "_Data":
        return cls(
            recipe=recipe,
            sizes=np.array([[float(p.shape[axis]) for axis in "mnk"] for p in probes]),
            seconds=np.array([p.latency.median for p in probes]),
            compute_units=compute_units,
        )

    def residual(self, constants: Array, family: str, index: NDArray[Any]) -> Array:
        """log(predicted / measured) of the probes of `index`; constants in their order."""
        named = dict(zip(constants_of(family), constants.tolist(), strict=True))
        m, n, k = self.sizes[index].T
        parts = evaluate(named, family, self.compute_units, self.recipe, (m, n, k))
        logarithms: Array = np.log(parts.total / self.seconds[index])
        return logarithms

    def bounds(self, family: str) -> Array:
        """Logarithms of (start, least, most) of every constant, from the fastest probes."""
        m, n, k = self.sizes.T
        shortest = float(self.seconds.min())
        weights = float((n * k / self.seconds).max())
        flops = float((2 * m * n * k / self.seconds).max())
        every = {
            "fixed_s": (0.5 * shortest, 0.01 * shortest, shortest),
            "bytes_per_s": (weights, 0.05 * weights, 20 * weights),
            "weights_per_s": (weights, 0.025 * weights, 100 * weights),
            "flops_per_s": (flops, 0.025 * flops, 100 * flops),
            "block_columns": (512.0, 5.0, 15000.0),
        }
        return np.log([every[name] for name in constants_of(family)]).T

    def search(self, family: str, index: NDArray[Any]) -> Array:
        """Constants of the best fit to the probes of `index`, the best of several starts."""
        start, low, high = self.bounds(family)

        def residual(x: Array) -> Array:
            return self.residual(np.exp(x), family, index)

        found = []
        for shift in _STARTS:
            begin = start.copy()
            begin[: len(shift)] += shift
            fit = least_squares(residual, begin, bounds=(low, high), loss="soft_l1", f_scale=_SOFT)
            found.append(fit)
        return np.exp(min(found, key=lambda fit: float(fit.cost)).x)


# which roof the search takes for the binding one at first: memory, issue slots, the matrix unit
_STARTS: Final = (
    np.array([0.0, 0.0, 2.0, 2.0]),
    np.array([0.0, 1.0, 0.0, 2.0]),
    np.array([0.0, 1.0, 2.0, 0.0]),
)


def _fit_one(
    data: _Data, family: str, residuals: Array, generator: np.random.Generator
) -> MixedFit:
    count = len(data.seconds)
    best = data.search(family, np.arange(count))
    low, high = interval(count, lambda index: data.search(family, index), generator)
    evidence = f"probe_mixed_gemm, {count} products, {family}"
    constants = {
        name: ceiling(best[i], low[i], high[i], CONSTANTS[name], evidence)
        for i, name in enumerate(constants_of(family))
    }
    return MixedFit(family=family, constants=constants, errors=errors_of(residuals))


def _chosen(
    every: Sequence[_Data], families: Sequence[str], folds: int = _FOLDS
) -> tuple[str, list[Array]]:
    """The family with the smallest errors on probes left out, and their logarithms of each data."""
    residuals = {family: [_left_out(data, family, folds) for data in every] for family in families}
    family = min(residuals, key=lambda name: float(np.abs(np.concatenate(residuals[name])).mean()))
    return family, residuals[family]


def _left_out(data: _Data, family: str, folds: int) -> Array:
    """log(predicted / measured) of every probe, fitted on the other folds."""
    fold = np.arange(len(data.seconds)) % folds
    residuals = np.empty(len(fold))
    for number in range(folds):
        left = np.flatnonzero(fold == number)
        found = data.search(family, np.flatnonzero(fold != number))
        residuals[left] = data.residual(found, family, left)
    return residuals
