"""Roofs of products with narrow weights, fitted on probe_mixed_gemm by provider.

Equations: roofcal.ops.mixed_gemm.model. The fit minimises soft-clipped logarithms of
predicted / measured, as those of products and casts do. All recipes of a provider are fitted at
once: they start alike and share the memory, and what differs is what a weight and a token cost. How
a provider cuts a product is the family with the smallest error on shapes left out in turn. A roof
that no probe touches has no upper end: its interval then reaches to the bound of the search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from roofcal.core.records import Ceiling, Environment
from roofcal.fitting.bootstrap import ceiling, interval
from roofcal.fitting.probes import Probe
from roofcal.ops.cast.fit import by_pair, errors_of
from roofcal.ops.mixed_gemm.model import CONSTANTS, FAMILIES, constants_of, evaluate

Array = NDArray[np.float64]
LEAST_POINTS: Final = 8
_OF_A_RECIPE: Final = ("weights_per_s", "flops_per_s")  # the other constants are shared
_OURS: Final = ("triton", "triton_chained")
_FOLDS: Final = 7
_QUICK_FOLDS: Final = 3
_SOFT: Final = 0.1
_INSIDE: Final = 1e-6  # a search starts this far, in logarithms, from its bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedFit:
    """Result for one provider and recipe; errors are fractions of the measured time."""

    family: str
    constants: Mapping[str, Ceiling]
    errors: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a fit knows of the device: bytes/s that streams measured (None: none did)."""

    compute_units: int
    dram_bytes_per_s: float | None
    tiled: bool

    @classmethod
    def of(cls, environment: Environment, dram_bytes_per_s: float | None) -> "Machine":
        """Of an environment; tiles are for GPUs alone, whose multiprocessors take one at a time."""
        return cls(
            compute_units=environment.compute_units,
            dram_bytes_per_s=dram_bytes_per_s,
            tiled=environment.vendor != "cpu",
        )

    def families(self, provider: str) -> list[str]:
        """Families to choose from: our kernels are known to have tiles, others may."""
        known = [name for name, family in FAMILIES.items() if self.tiled or not family.splits]
        ours = self.tiled and provider in _OURS
        return [name for name in known if FAMILIES[name].splits or not ours]


def fit_mixed(
    probes: Sequence[Probe], machine: Machine, generator: np.random.Generator
) -> Iterator[tuple[str, MixedFit]]:
    """("<provider>.<recipe>", fit) of every pair with eight probes and more, by provider."""
    pairs = [pair for pair in by_pair(probes) if len(pair[2]) >= LEAST_POINTS]
    for provider, own in groupby(pairs, key=lambda pair: pair[0]):
        data = _Data.of([probe for _, _, some in own for probe in some], machine)
        for recipe, fit in _fit_one(data, generator):
            yield f"{provider}.{recipe}", fit


def judged(probes: Sequence[Probe], others: Sequence[Probe], machine: Machine) -> Array:
    """log(predicted / measured) of `others` by a fit of `probes` alone, its family included.

    All are of one provider and recipe. The family is chosen by three folds.
    """
    data = _Data.of(probes, machine)
    family, _ = _chosen(data, _QUICK_FOLDS)
    found = data.search(family, np.arange(len(probes)))
    return _Data.of(others, machine).residual(found, family, np.arange(len(others)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """The probes of one provider; `recipe` counts in `recipes`.

    A vector of constants holds those that recipes share, then each recipe's own.
    """

    provider: str
    recipes: tuple[str, ...]
    recipe: NDArray[np.int64]
    sizes: Array
    seconds: Array
    machine: Machine

    @classmethod
    def of(cls, probes: Sequence[Probe], machine: Machine) -> "_Data":
        recipes = tuple(dict.fromkeys(p.point.recipe for p in probes))
        return cls(
            provider=probes[0].point.provider,
            recipes=recipes,
            recipe=np.array([recipes.index(p.point.recipe) for p in probes]),
            sizes=np.array([[float(p.shape[axis]) for axis in "mnk"] for p in probes]),
            seconds=np.array([p.latency.median for p in probes]),
            machine=machine,
        )

    def places(self, family: str, recipe: int) -> dict[str, int]:
        """Where in a vector of constants those of a recipe stand."""
        shared = [name for name in constants_of(family) if name not in _OF_A_RECIPE]
        first = len(shared) + recipe * len(_OF_A_RECIPE)
        own = {name: first + i for i, name in enumerate(_OF_A_RECIPE)}
        return {name: i for i, name in enumerate(shared)} | own

    def residual(self, constants: Array, family: str, index: NDArray[Any]) -> Array:
        """log(predicted / measured) of the probes of `index`."""
        total = np.empty(len(index))
        for number, recipe in enumerate(self.recipes):
            some = self.recipe[index] == number
            named = {n: float(constants[i]) for n, i in self.places(family, number).items()}
            m, n, k = self.sizes[index[some]].T
            units = self.machine.compute_units
            total[some] = evaluate(named, family, units, recipe, (m, n, k)).total
        logarithms: Array = np.log(total / self.seconds[index])
        return logarithms

    def bounds(self, family: str) -> Array:
        """Logarithms of (start, least, most) of every constant, from the fastest probes."""
        m, n, k = self.sizes.T
        shortest, weights = float(self.seconds.min()), float((n * k / self.seconds).max())
        flops = float((2 * m * n * k / self.seconds).max())
        stream = self.machine.dram_bytes_per_s
        every = {
            "fixed_s": (0.5 * shortest, 0.01 * shortest, shortest),
            # streams measure what memory can give; products may fall short of it
            "bytes_per_s": (0.95 * stream, 0.4 * stream, 1.02 * stream)
            if stream
            else (weights, 0.05 * weights, 20 * weights),
            "weights_per_s": (weights, 0.025 * weights, 100 * weights),
            "flops_per_s": (flops, 0.025 * flops, 100 * flops),
            "block_columns": (512.0, 5.0, 15000.0),
        }
        shared = [every[name] for name in constants_of(family) if name not in _OF_A_RECIPE]
        own = [every[name] for name in _OF_A_RECIPE]
        return np.log([*shared, *own * len(self.recipes)]).T

    def search(self, family: str, index: NDArray[Any], begin: Array | None = None) -> Array:
        """Constants of the best fit to the probes of `index`.

        begin: constants to search from; without them the best of several starts.
        """
        _, low, high = self.bounds(family)

        def residual(x: Array) -> Array:
            return self.residual(np.exp(x), family, index)

        starts = self._starts(family) if begin is None else [np.log(begin)]
        found = [
            least_squares(
                residual,
                np.clip(start, low + _INSIDE, high - _INSIDE),
                bounds=(low, high),
                loss="soft_l1",
                f_scale=_SOFT,
            )
            for start in starts
        ]
        return np.exp(min(found, key=lambda fit: float(fit.cost)).x)

    def _starts(self, family: str) -> list[Array]:
        start, _, _ = self.bounds(family)
        shared = np.zeros(len(start) - len(_OF_A_RECIPE) * len(self.recipes))
        every = [np.tile(shifts, len(self.recipes)) for shifts in _STARTS]
        return [start + np.concatenate([shared, shifts]) for shifts in every]


# logarithms added to a recipe's own constants: whether the search takes memory, weights or tokens
# for what binds at first
_STARTS: Final = ((2.0, 2.0), (0.0, 2.0), (2.0, 0.0))


def _fit_one(data: _Data, generator: np.random.Generator) -> Iterator[tuple[str, MixedFit]]:
    family, residuals = _chosen(data)
    count = len(data.seconds)
    best = data.search(family, np.arange(count))
    low, high = interval(count, lambda index: data.search(family, index, best), generator)
    # the interval of a prediction: a recipe alone has too few probes for a 95th percentile
    together = {"log_p95": float(np.percentile(np.abs(residuals), 95))}
    for number, recipe in enumerate(data.recipes):
        own = residuals[data.recipe == number]
        evidence = f"probe_mixed_gemm, {len(own)} products of {count}, {family}"
        constants = {
            name: ceiling(best[i], low[i], high[i], CONSTANTS[name], evidence)
            for name, i in data.places(family, number).items()
        }
        yield recipe, MixedFit(family=family, constants=constants, errors=errors_of(own) | together)


def _chosen(data: _Data, folds: int = _FOLDS) -> tuple[str, Array]:
    """The family with the smallest errors on probes left out, and their logarithms."""
    families = data.machine.families(data.provider)
    residuals = {family: _left_out(data, family, folds) for family in families}
    family = min(residuals, key=lambda name: float(np.abs(residuals[name]).mean()))
    return family, residuals[family]


def _left_out(data: _Data, family: str, folds: int) -> Array:
    """log(predicted / measured) of every probe, fitted on the other folds.

    A shape is left out in all recipes at once: else one recipe would tell of another.
    """
    _, shape = np.unique(data.sizes, axis=0, return_inverse=True)
    fold = shape.ravel() % folds
    residuals = np.empty(len(fold))
    for number in np.unique(fold):
        left = np.flatnonzero(fold == number)
        found = data.search(family, np.flatnonzero(fold != number))
        residuals[left] = data.residual(found, family, left)
    return residuals
