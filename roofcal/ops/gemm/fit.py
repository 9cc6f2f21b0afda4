"""Constants of the matrix-product model per provider and recipe, fitted on probe_math.

Robust least squares of log(predicted / measured), so that a point of 3 us counts as much as one of
3 ms; which family of tiles the library uses is chosen by cross-validation, as is the error that the
interval of a prediction comes from.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from roofcal.core.records import Ceiling
from roofcal.fitting.bootstrap import ceiling, interval
from roofcal.fitting.probes import CalibrationError, Probe
from roofcal.ops.gemm.model import (
    CONSTANTS,
    PLAIN_CONSTANTS,
    SLOW_PATHS,
    Shapes,
    describe,
    evaluate,
)

Array = NDArray[np.float64]
LEAST_POINTS: Final = 12
_LEAST_SLOW_POINTS: Final = 4
_FOLDS: Final = 6
_SOFT: Final = 0.05  # residuals beyond 5 % pull less than their square
_STARTS: Final = 3
_QUICK_FOLDS: Final = 2
_QUICK_STEPS: Final = 4
_JUDGED_STEPS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Constants of one provider's recipe and how wrong they are on probes left out of their fit."""

    family: str
    constants: Mapping[str, Ceiling]
    errors: Mapping[str, float]


def fit_recipe(
    recipe: str,
    probes: Sequence[Probe],
    compute_units: int,
    dram_bytes_per_s: float | None,
    generator: np.random.Generator,
    *,
    families: Sequence[str],
) -> Fit:
    """Fit one provider's probes of a recipe.

    dram_bytes_per_s: measured by streams; it bounds the recipe's memory bandwidth.
    families: of tiles, from which cross-validation chooses; ["plain"] for a CPU.
    Raises CalibrationError with fewer than 12 products.
    """
    data = _data(recipe, probes, compute_units, dram_bytes_per_s, families)
    family, residuals = _chosen(data, families)
    constants = dict(_with_intervals(data, family, generator))
    return Fit(family=family, constants=constants, errors=_errors(data, family, residuals))


def left_out(
    recipe: str,
    probes: Sequence[Probe],
    compute_units: int,
    dram_bytes_per_s: float | None,
    families: Sequence[str],
) -> tuple[str, Array]:
    """(family, log(predicted / measured) of every probe by a fit without it), see fit_recipe."""
    return _chosen(_data(recipe, probes, compute_units, dram_bytes_per_s, families), families)


def judged(
    recipe: str,
    probes: Sequence[Probe],
    others: Sequence[Probe],
    compute_units: int,
    dram_bytes_per_s: float | None,
    families: Sequence[str],
) -> Array:
    """log(predicted / measured) of `others` by a fit of `probes` alone, its family included.

    The family is chosen among `families` by a shorter cross-validation than that of fit_recipe: two
    folds, a few steps of each search. Raises as fit_recipe.
    """
    data = _data(recipe, probes, compute_units, dram_bytes_per_s, families)
    family = families[0]
    if len(families) > 1:
        family, _ = _chosen(data, families, _QUICK_FOLDS, _Begin(steps=_QUICK_STEPS))
    found = _fit(data, family, np.arange(len(probes)), _Begin(steps=_JUDGED_STEPS))
    unseen = _Data.of(recipe, others, compute_units, dram_bytes_per_s)
    return _residuals(unseen, family, found, np.arange(len(others)))


def _data(
    recipe: str,
    probes: Sequence[Probe],
    compute_units: int,
    dram_bytes_per_s: float | None,
    families: Sequence[str],
) -> "_Data":
    if len(probes) < LEAST_POINTS:
        who = " ".join([*sorted({probe.point.provider for probe in probes}), recipe])
        raise CalibrationError(
            f"{who}: {len(probes)} products in probe_math, needs {LEAST_POINTS}; "
            "measure more (config/sweeps/probe_math.yaml: count)"
        )
    data = _Data.of(recipe, probes, compute_units, dram_bytes_per_s)
    if "plain" in families:
        data.bounds["dram_bytes_per_s"] = _packed_memory(data, dram_bytes_per_s)
    return data


def _chosen(
    data: "_Data", families: Sequence[str], folds: int = _FOLDS, begin: "_Begin | None" = None
) -> tuple[str, Array]:
    """The family with the smallest errors on probes left out, and their logarithms."""
    residuals = {family: _left_out(data, family, folds, begin) for family in families}
    family = min(residuals, key=lambda name: float(np.abs(residuals[name]).mean()))
    return family, residuals[family]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """The probes of one recipe as vectors, and where the search starts and may go."""

    recipe: str
    m: Array
    n: Array
    k: Array
    seconds: Array
    compute_units: int
    bounds: dict[str, tuple[float, float, float]]

    @classmethod
    def of(cls, recipe: str, probes: Sequence[Probe], units: int, dram: float | None) -> "_Data":
        m, n, k = (np.array([float(p.shape[axis]) for p in probes]) for axis in "mnk")
        seconds = np.array([p.latency.median for p in probes])
        return cls(
            recipe=recipe,
            m=m,
            n=n,
            k=k,
            seconds=seconds,
            compute_units=units,
            bounds=_bounds(m, n, k, seconds, units, dram),
        )

    def shapes(self, family: str, index: NDArray[Any]) -> Shapes:
        m, n, k = self.m[index], self.n[index], self.k[index]
        return describe(self.recipe, m, n, k, family, self.compute_units)


def _bounds(
    m: Array, n: Array, k: Array, seconds: Array, units: int, dram: float | None
) -> dict[str, tuple[float, float, float]]:
    """name -> (start, least, most), from the data: its fastest product and its shortest time."""
    rate = float((2 * m * n * k / seconds).max())
    moved = float(((m + n) * k / seconds).max())
    stream = dram or 2 * moved
    shortest = float(seconds.min())
    return {
        "launch_s": (0.9 * shortest, 0.02 * shortest, 2 * shortest),
        "tile_flops_per_s": (1.5 * rate / units, 0.7 * rate / units, 2.1 * rate / units),
        "load_bytes_per_s": (1.2e11, 1.5e10, 1e12),
        "l2_bytes_per_s": (2 * stream, 0.5 * stream, 12 * stream),
        "k_latency_s_per_byte": (7e-10, 7e-12, 3e-9),
        "crowd_s_per_byte": (1e-11, 1e-13, 2e-10),
        "wave_s": (5e-7, 2e-8, 3e-6),
        "split_k_s": (1.5e-6, 1.5e-7, 1.5e-5),
        "misaligned": (1.3, 1.0, 2.5),
        "uneven": (1.02, 0.97, 1.15),
        # The bandwidth is the device's, and the streams have measured it.
        "dram_bytes_per_s": (0.97 * stream, 0.93 * stream, 1.02 * stream),
        "sustained_flops_per_s": (rate, 0.65 * rate, 1.7 * rate),
        "tile_flops_8_byte_per_s": (0.3 * rate / units, 0.02 * rate / units, rate / units),
        "k_latency_8_byte_s_per_byte": (4e-9, 1e-10, 4e-8),
        "tile_flops_odd_per_s": (0.15 * rate / units, 0.02 * rate / units, rate / units),
        "k_latency_odd_s_per_byte": (7e-9, 1e-10, 4e-8),
    }


def _packed_memory(data: _Data, stream: float | None) -> tuple[float, float, float]:
    """The range of a CPU's memory bandwidth: its libraries pack operands first.

    A GPU's products read at the bandwidth of its streams.
    """
    shapes = data.shapes("plain", np.arange(len(data.seconds)))
    known = stream or 2 * float((shapes.dram_bytes / data.seconds).max())
    return 0.3 * known, 0.002 * known, 3 * known


def _fast_names(data: _Data, family: str) -> Sequence[str]:
    """Constants of the aligned path to look for: not those that no probe depends on."""
    if family == "plain":
        return PLAIN_CONSTANTS
    shapes = data.shapes(family, np.arange(len(data.seconds)))
    slow = {name for names in SLOW_PATHS.values() for name in names}
    depends = {
        "split_k_s": shapes.split.any(),
        "misaligned": shapes.misaligned.any(),
        "uneven": shapes.uneven.any(),
        "crowd_s_per_byte": shapes.crowd.any(),
    }
    return tuple(name for name in CONSTANTS if name not in slow and depends.get(name, True))


def _paths(data: _Data, family: str, index: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Path -> the probes of `index` on it. A family without tiles knows one path."""
    if family == "plain":
        return {"aligned": index}
    path = data.shapes(family, index).path
    return {name: index[path == name] for name in ("aligned", *SLOW_PATHS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begin:
    """Where a search begins (None: where the data suggest) and how many steps it may take."""

    at: Mapping[str, float] | None = None
    steps: int | None = None


def _search(
    data: _Data,
    family: str,
    index: NDArray[Any],
    names: Sequence[str],
    held: Mapping[str, float],
    begin: "_Begin",
) -> dict[str, float]:
    """Constants `names` of the best fit to the probes of `index`; `held` stay as they are."""
    first, low, high = np.log([data.bounds[name] for name in names]).T
    first = np.log([begin.at[name] for name in names]) if begin.at else first
    shapes, target = data.shapes(family, index), np.log(data.seconds[index])

    def residual(x: Array) -> Array:
        constants = {**held, **dict(zip(names, np.exp(x), strict=True))}
        return np.asarray(np.log(evaluate(constants, shapes, family).total) - target)

    found = least_squares(
        residual,
        np.clip(first, low + 1e-9, high - 1e-9),
        bounds=(low, high),
        loss="soft_l1",
        f_scale=_SOFT,
        max_nfev=begin.steps,
    )
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def _fit(
    data: _Data,
    family: str,
    index: NDArray[Any],
    begin: "_Begin | None" = None,
) -> dict[str, float]:
    """All constants from the probes of `index`: the aligned path first, then each slow path.

    The slow paths are other kernels, and their scatter would pull the constants of the fast one.
    """
    paths = _paths(data, family, index)
    names = _fast_names(data, family)
    begin = begin or _Begin()
    constants = _search(data, family, paths["aligned"], names, {}, begin)
    for path, own in SLOW_PATHS.items():
        if len(paths.get(path, ())) >= _LEAST_SLOW_POINTS:
            constants |= _search(data, family, paths[path], own, constants, begin)
    return constants


def _best(data: _Data, family: str, generator: np.random.Generator) -> dict[str, float]:
    """The best of several starts: the minimum over tiles has kinks."""
    every = np.arange(len(data.seconds))
    fits = []
    for jump in (0.0, *generator.normal(0, 0.3, size=_STARTS - 1)):
        start = {name: bound[0] * float(np.exp(jump)) for name, bound in data.bounds.items()}
        constants = _fit(data, family, every, _Begin(at=start))
        total = evaluate(constants, data.shapes(family, every), family).total
        fits.append((float(np.abs(np.log(total / data.seconds)).mean()), constants))
    return min(fits, key=lambda fit: fit[0])[1]


def _left_out(data: _Data, family: str, folds: int, begin: "_Begin | None") -> Array:
    """log(predicted / measured) of every probe, fitted on the other folds."""
    count = len(data.seconds)
    fold = np.arange(count) % folds
    residuals = np.empty(count)
    for number in range(folds):
        kept, left = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        residuals[left] = _residuals(data, family, _fit(data, family, kept, begin), left)
    return residuals


def _residuals(
    data: _Data, family: str, constants: Mapping[str, float], index: NDArray[Any]
) -> Array:
    """log(predicted / measured) of the probes of `index`."""
    total = evaluate(constants, data.shapes(family, index), family).total
    logarithms: Array = np.log(total / data.seconds[index])
    return logarithms


def _with_intervals(
    data: _Data, family: str, generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    count = len(data.seconds)
    constants = _best(data, family, generator)
    names = list(constants)

    def refit(index: NDArray[np.int64]) -> Array:
        # From the optimum, a few steps: a whole search per resample costs minutes and moves little.
        found = constants | _fit(data, family, index, _Begin(at=constants, steps=4))
        return np.array([found[name] for name in names])

    low, high = interval(count, refit, generator)
    evidence = f"probe_math, {data.recipe}, {count} products, tiles {family}"
    for i, name in enumerate(names):
        ends, said = (low[i], high[i]), evidence
        if not _matters(data, family, constants, name):
            ends = data.bounds[name][1:]
            said = f"{evidence}; without effect on them: the interval is where it was looked for"
        yield name, ceiling(constants[name], *ends, CONSTANTS[name], said)


def _matters(data: _Data, family: str, constants: Mapping[str, float], name: str) -> bool:
    """Whether a tenth more of a constant moves the prediction of any probe by a thousandth."""
    shapes = data.shapes(family, np.arange(len(data.seconds)))
    moved = {**constants, name: 1.1 * constants[name]}
    before, after = (evaluate(x, shapes, family).total for x in (constants, moved))
    return bool(np.abs(after / before - 1).max() > 1e-3)


def _errors(data: _Data, family: str, residuals: Array) -> dict[str, float]:
    """Errors of predictions of probes left out, fractions of the measured time.

    log_p95 and log_p95_unaligned: 95th percentile of |log(predicted / measured)| of shapes on the
    aligned path and on the others, from which the intervals of predictions are made.
    """
    error = np.abs(np.exp(residuals) - 1)
    found = {
        "mape": float(error.mean()),
        "median": float(np.median(error)),
        "p95": float(np.percentile(error, 95)),
        "count": float(len(error)),
    }
    aligned = _paths(data, family, np.arange(len(residuals)))["aligned"]
    others = np.setdiff1d(np.arange(len(residuals)), aligned)
    for name, some in (("log_p95", aligned), ("log_p95_unaligned", others)):
        if len(some):
            found[name] = float(np.percentile(np.abs(residuals[some]), 95))
    return found
