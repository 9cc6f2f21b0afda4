"""Constants of casts, fitted on probe_cast: by provider and recipe, see ops/cast/model.py.

The fit minimises soft-clipped logarithms of predicted / measured, as that of products does. The
family is the one with the smaller error on probes left out in turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from roofcal.core.records import Ceiling
from roofcal.fitting.bootstrap import ceiling, interval
from roofcal.fitting.probes import Probe
from roofcal.ops.cast.model import CONSTANTS, FAMILIES, evaluate

Array = NDArray[np.float64]
LEAST_POINTS: Final = 8
_FOLDS: Final = 7
_QUICK_FOLDS: Final = 3
_SOFT: Final = 0.1
_STARTS: Final = ((1.2, 10.0), (2.0, 1000.0))  # misaligned, extra_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class CastFit:
    """Result for one provider and recipe; errors are fractions of the measured time."""

    family: str
    constants: Mapping[str, Ceiling]
    errors: Mapping[str, float]


def fit_casts(
    probes: Sequence[Probe], cache_bytes: float, generator: np.random.Generator
) -> Iterator[tuple[str, CastFit]]:
    """("<provider>.<recipe>", fit) of every pair with eight probes and more."""
    for provider, recipe, some in by_pair(probes):
        if len(some) >= LEAST_POINTS:
            yield f"{provider}.{recipe}", _fit_one(_Data.of(recipe, some, cache_bytes), generator)


def by_pair(probes: Sequence[Probe]) -> Iterator[tuple[str, str, list[Probe]]]:
    """(provider, recipe, its probes) in the order of their names."""
    pairs = sorted({(p.point.provider, p.point.recipe) for p in probes})
    for provider, recipe in pairs:
        some = [p for p in probes if (p.point.provider, p.point.recipe) == (provider, recipe)]
        yield provider, recipe, some


def judged(probes: Sequence[Probe], others: Sequence[Probe], cache_bytes: float) -> Array:
    """log(predicted / measured) of `others` by a fit of `probes` alone, its family included.

    All are of one provider and recipe. The family is chosen by three folds.
    """
    recipe = probes[0].point.recipe
    data = _Data.of(recipe, probes, cache_bytes)
    family, _ = _chosen(data, _QUICK_FOLDS)
    found = data.search(family, np.arange(len(probes)))
    unseen = _Data.of(recipe, others, cache_bytes)
    return unseen.residual(found, family, np.arange(len(others)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    recipe: str
    rows: Array
    cols: Array
    seconds: Array
    cache_bytes: float

    @classmethod
    def of(cls, recipe: str, probes: Sequence[Probe], cache_bytes: float) -> "_Data":
        return cls(
            recipe=recipe,
            rows=np.array([float(p.shape["rows"]) for p in probes]),
            cols=np.array([float(p.shape["cols"]) for p in probes]),
            seconds=np.array([p.latency.median for p in probes]),
            cache_bytes=cache_bytes,
        )

    def residual(self, constants: Array, family: str, index: NDArray[Any]) -> Array:
        """log(predicted / measured) of the probes of `index`; constants as CONSTANTS has them."""
        named = dict(zip(CONSTANTS, constants.tolist(), strict=True))
        rows, cols = self.rows[index], self.cols[index]
        parts = evaluate(named, self.recipe, rows, cols, family, self.cache_bytes)
        logarithms: Array = np.log(parts.total / self.seconds[index])
        return logarithms

    def search(self, family: str, index: NDArray[Any]) -> Array:
        """Constants of the best fit to the probes of `index`: two starts, as there are two minima.

        Slow large casts are told by narrow matrices, or by misaligned rows.
        """
        rate = float((self.rows * self.cols / self.seconds).max())
        shortest = float(self.seconds.min())
        low = np.log([0.02 * shortest, 0.05 * rate, 0.05 * rate, 1.0, 0.1])
        high = np.log([5 * shortest, 50 * rate, 50 * rate, 6.0, 8000.0])

        def residual(x: Array) -> Array:
            return self.residual(np.exp(x), family, index)

        found = [
            least_squares(
                residual,
                np.clip(np.log([shortest, 3 * rate, 3 * rate, *start]), low + 1e-9, high - 1e-9),
                bounds=(low, high),
                loss="soft_l1",
                f_scale=_SOFT,
            )
            for start in _STARTS
        ]
        return np.exp(min(found, key=lambda one: float(one.cost)).x)


def _fit_one(data: _Data, generator: np.random.Generator) -> CastFit:
    family, residuals = _chosen(data)
    count = len(data.seconds)
    best = data.search(family, np.arange(count))
    low, high = interval(count, lambda index: data.search(family, index), generator)
    evidence = f"probe_cast, {count} casts, {family}"
    constants = {
        name: ceiling(best[i], low[i], high[i], unit, evidence)
        for i, (name, unit) in enumerate(CONSTANTS.items())
    }
    return CastFit(family=family, constants=constants, errors=errors_of(residuals))


def _chosen(data: _Data, folds: int = _FOLDS) -> tuple[str, Array]:
    """The family with the smaller errors on probes left out, and their logarithms."""
    residuals = {family: _left_out(data, family, folds) for family in FAMILIES}
    family = min(residuals, key=lambda name: float(np.abs(residuals[name]).mean()))
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


def errors_of(residuals: Array) -> dict[str, float]:
    """What a calibration says of logarithms of predicted / measured on probes left out."""
    error = np.abs(np.expm1(residuals))
    return {
        "mape": float(error.mean()),
        "median": float(np.median(error)),
        "p95": float(np.percentile(error, 95)),
        "count": float(len(error)),
        "log_p95": float(np.percentile(np.abs(residuals), 95)),
    }
