"""Constants of matrix products, fitted on probe_math by provider and recipe.

Equations: the model beside. Two libraries have different tiles, so each provider is fitted apart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.fitting.bootstrap import Index, ceiling, interval
from roofcal.fitting.cross_validation import (
    Fit,
    Method,
    Problem,
    SearchSpace,
    Stage,
    error_summary,
    fit_problem,
    p95_of_logs,
)
from roofcal.fitting.probes import (
    Device,
    Fitted,
    Probe,
    by_provider_and_recipe,
)
from roofcal.ops.constants import encode_family
from roofcal.ops.gemm.model import (
    CEILING,
    CONSTANTS,
    FAMILIES,
    FAMILY,
    PLAIN_CONSTANTS,
    SLOW_PATHS,
    Shapes,
    describe,
    evaluate,
)
from roofcal.ops.gemm.spec import PROBE

_LEAST_SLOW_POINTS: Final = 4
_RESTARTS: Final = 2
_JUMP: Final = 0.3  # standard deviation of the restarts' logarithms
_LONG_S: Final = 1e-4  # products from which clock and power are read
_LEAST_READINGS: Final = 3
_SENSORS: Final = {
    "sm_clock_hz": ("sustained_sm_clock_hz", "Hz"),
    "power_w": ("sustained_power_w", "W"),
}


class Products(Problem):
    """Products of one provider and recipe."""

    @cached_property
    def _sizes(self) -> Array:
        """m, n and k, [3, probes]."""
        return np.array([[float(p.shape[axis]) for p in self.probes] for axis in "mnk"])

    def shapes(self, family: str, index: Index) -> Shapes:
        """What the model needs of the probes of `index`."""
        m, n, k = self._sizes[:, index]
        return describe(self.recipe, m, n, k, family, self.device.compute_units)

    @cached_property
    def path(self) -> NDArray[np.str_]:
        """Which kernels each probe can take, as Shapes.path; a CPU has one path."""
        if self.device.is_cpu:
            return np.full(len(self.probes), "aligned")
        return self.shapes("any_tile", self.every_index).path

    @property
    def families(self) -> Sequence[str]:
        """Of tiles; none on a CPU, where every core works on any part of a product."""
        return [
            name for name, family in FAMILIES.items() if bool(family.tiles) != self.device.is_cpu
        ]

    @cached_property
    def bounds(self) -> Mapping[str, tuple[float, float, float]]:
        """Constant -> (start, least, most), from the fastest product and the shortest time."""
        m, n, k = self._sizes
        units = self.device.compute_units
        rate = float((2 * m * n * k / self.seconds).max())
        moved = float(((m + n) * k / self.seconds).max())
        stream = self.device.stream_bytes_per_s or 2 * moved
        shortest = float(self.seconds.min())
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
            "dram_bytes_per_s": self._packed_memory()
            if self.device.is_cpu
            # The bandwidth is the device's, and the streams have measured it.
            else (0.97 * stream, 0.93 * stream, 1.02 * stream),
            "sustained_flops_per_s": (rate, 0.65 * rate, 1.7 * rate),
            "tile_flops_8_byte_per_s": (0.3 * rate / units, 0.02 * rate / units, rate / units),
            "k_latency_8_byte_s_per_byte": (4e-9, 1e-10, 4e-8),
            "tile_flops_odd_per_s": (0.15 * rate / units, 0.02 * rate / units, rate / units),
            "k_latency_odd_s_per_byte": (7e-9, 1e-10, 4e-8),
        }

    def _packed_memory(self) -> tuple[float, float, float]:
        """The range of a CPU's memory bandwidth: its libraries pack operands first."""
        moved = self.shapes("plain", self.every_index).dram_bytes
        rate = self.device.stream_bytes_per_s or 2 * float((moved / self.seconds).max())
        return 0.3 * rate, 0.002 * rate, 3 * rate

    def space(self, family: str) -> SearchSpace:
        """All constants; those that are in no stage of the family stay unknown."""
        start, low, high = np.log([self.bounds[name] for name in CONSTANTS]).T
        return SearchSpace(names=tuple(CONSTANTS), low=low, high=high, starts=start[None])

    def restarts(self, generator: np.random.Generator) -> Sequence[Array]:
        """Two more starts, all constants multiplied alike: the minimum over tiles has kinks."""
        starts = np.array([self.bounds[name][0] for name in CONSTANTS])
        jumps = generator.normal(0, _JUMP, size=_RESTARTS)
        return [np.log(starts * float(np.exp(jump))) for jump in jumps]

    def stages(self, family: str) -> Sequence[Stage]:
        """The aligned path, then each slow path: other kernels, whose scatter would pull at it."""
        aligned = self.path == "aligned"
        if self.device.is_cpu:
            return [Stage(names=PLAIN_CONSTANTS, probes=aligned)]
        slow = (
            Stage(names=names, probes=self.path == path, least_probes=_LEAST_SLOW_POINTS)
            for path, names in SLOW_PATHS.items()
        )
        return [Stage(names=self._aligned_names(family), probes=aligned), *slow]

    def _aligned_names(self, family: str) -> tuple[str, ...]:
        """Constants of the aligned path, without those that no probe depends on."""
        shapes = self.shapes(family, self.every_index)
        slow = {name for names in SLOW_PATHS.values() for name in names}
        depends = {
            "split_k_s": shapes.split.any(),
            "misaligned": shapes.misaligned.any(),
            "uneven": shapes.uneven.any(),
            "crowd_s_per_byte": shapes.crowd.any(),
        }
        return tuple(name for name in CONSTANTS if name not in slow and depends.get(name, True))

    def predictor(self, family: str, index: Index) -> Callable[[Array], Array]:
        """Seconds by the equation of the model."""
        shapes = self.shapes(family, index)

        def predict(constants: Array) -> Array:
            pairs = zip(CONSTANTS, constants.tolist(), strict=True)
            return evaluate({n: c for n, c in pairs if not np.isnan(c)}, shapes, family).total

        return predict

    def matters(self, result: Fit, name: str) -> bool:
        """Whether a tenth more of a constant moves the prediction of any probe by a thousandth."""
        shapes = self.shapes(result.family, self.every_index)
        more = {**result.constants, name: 1.1 * result.constants[name]}
        before, after = (evaluate(c, shapes, result.family).total for c in (result.constants, more))
        return bool(np.abs(after / before - 1).max() > 1e-3)


METHOD: Final = Method(
    problem=Products,
    noun="products",
    least_probes=12,
    folds=6,
    soft=0.05,
    # A whole search per resample takes minutes and moves little.
    resample_from_best=True,
    resample_steps=4,
    quick_folds=2,
    quick_steps=4,
    judged_steps=20,
    subtract_logs=True,
)


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """The constants of every provider and recipe, with the rate, clock and power it reached.

    Raises CalibrationError for a pair of fewer than twelve products.
    """
    fitted = Fitted()
    for provider, recipe, members in by_provider_and_recipe(probes):
        problem = Products(probes=members, device=device)
        result = fit_problem(problem, METHOD, generator)
        prefix = f"gemm.{provider}.{recipe}"
        named = {
            FAMILY: encode_family(FAMILIES, result.family),
            **dict(_ceilings(problem, result)),
            CEILING: _fastest_rate(members, generator),
            **dict(sustained_constants(members, generator)),
        }
        fitted.constants.update({f"{prefix}.{name}": value for name, value in named.items()})
        fitted.errors[prefix] = _errors(problem, result.log_errors)
    return fitted


def _ceilings(problem: Products, result: Fit) -> Iterator[tuple[str, Ceiling]]:
    evidence = f"{PROBE.name}, {problem.recipe}, {len(problem.probes)} products"
    evidence = f"{evidence}, tiles {result.family}"
    for name, value in result.constants.items():
        ends, said = result.intervals[name], evidence
        if not problem.matters(result, name):
            ends = problem.bounds[name][1:]
            said = f"{evidence}; without effect on them: the interval is where it was looked for"
        yield name, ceiling(value, *ends, CONSTANTS[name], said)


def _errors(problem: Products, log_errors: Array) -> dict[str, float]:
    """Errors of predictions of probes left out, fractions of the measured time.

    log_p95 and log_p95_unaligned: 95th percentile of |log(predicted / measured)| of shapes on the
    aligned path and on the others, from which the intervals of predictions are made.
    """
    aligned = problem.path == "aligned"
    # Not expm1: published errors are exact to the last bit.
    errors = error_summary(np.abs(np.exp(log_errors) - 1))
    for name, members in (("log_p95", aligned), ("log_p95_unaligned", ~aligned)):
        if members.any():
            errors[name] = p95_of_logs(log_errors[members])
    return errors


def _fastest_rate(probes: Sequence[Probe], generator: np.random.Generator) -> Ceiling:
    """Highest settled rate over the probes.

    Its interval comes from resampling them: what the value could have been with other shapes.
    """
    flops = np.array([2.0 * p.shape["m"] * p.shape["n"] * p.shape["k"] for p in probes])
    rate = flops / np.array([p.latency.median for p in probes])
    best = probes[int(rate.argmax())]
    spread = flops[rate.argmax()] / np.array([best.latency.ci95_high, best.latency.ci95_low])
    low, _ = interval(len(rate), lambda index: np.asarray(rate[index].max()), generator)
    evidence = f"{PROBE.name}, fastest of {len(rate)}: {dict(best.shape)}"
    return ceiling(rate.max(), min(float(low), spread[0]), spread[1], "flop/s", evidence)


def sustained_constants(
    probes: Sequence[Probe], generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    """What the limits of the device leave: median SM clock and power over products of 100 us on.

    Nothing where no sensor spoke.
    """
    long = [p for p in probes if p.latency.median >= _LONG_S]
    for sensor, (constant, unit) in _SENSORS.items():
        medians = [_settled_median(probe, sensor) for probe in long]
        values = np.array([value for value in medians if value is not None])
        if len(values) < _LEAST_READINGS:
            continue

        def resampled_median(index: Index, values: Array = values) -> Array:
            return np.asarray(np.median(values[index]))

        low, high = interval(len(values), resampled_median, generator)
        evidence = f"{PROBE.name}, {len(values)} products of 100 us and more"
        yield constant, ceiling(float(np.median(values)), float(low), float(high), unit, evidence)


def _settled_median(probe: Probe, sensor: str) -> float | None:
    """Median reading since the clock settled, None without one."""
    telemetry = probe.measurement.telemetry
    readings = [
        value
        for index, value in zip(telemetry.sample_index, getattr(telemetry, sensor), strict=True)
        if index >= probe.measurement.warmup_samples
    ]
    return float(np.median(readings)) if readings else None
