"""Constants of matrix products, fitted on probe_math by provider and recipe.

Equations: the model beside. Two libraries have different tiles, so each provider is fitted apart.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofcal.core.portable_math import log
from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.fitting.cross_validation import Predictor, Problem, Stage, fit_each_recipe
from roofcal.fitting.intervals import Index, ceiling, interval
from roofcal.fitting.probes import Device, Probe
from roofcal.ops.gemm import model
from roofcal.ops.gemm.spec import PROBE
from roofcal.ops.gemm.tiles import (
    FAMILIES,
    PackedFamily,
    Shapes,
    TileChoices,
    describe,
    least_work,
)

_OUR_FAMILIES: Final = {  # recipe -> the family of our kernels
    "fp8_tensorwise": "ours_fast",
    "fp8_axiswise": "ours_fast",
    "fp8_tensorwise_slow_accum": "ours_slow",
    "fp8_axiswise_slow_accum": "ours_slow",
    "fp8_blockwise_128x128": "ours_blocks",
}
# nvjet_sm90_qqtst_192x128_128x5_2x1_v_bz_TNT: tiles of 192 x 128
_TILE_IN_NAME: Final = re.compile(r"nvjet_\w+?_(\d+)x(\d+)_\d+x\d+_")
_LEAST_SLOW_POINTS: Final = 4
_RESTARTS: Final = 6
_JUMP: Final = 0.3  # standard deviation of the restarts' logarithms
_LONG_S: Final = 1e-4  # products from which clock and power are read
_LEAST_READINGS: Final = 3
_SENSORS: Final = {
    "sm_clock_hz": ("sustained_sm_clock_hz", "Hz"),
    "power_w": ("sustained_power_w", "W"),
}
# Logarithms added to the starts of all that moves bytes: whether the search takes copying or
# multiplying for what binds at first.
_SHIFTS: Final = (-1.0, 0.0, 1.0)
# A fit evaluates every probe thousands of times, on up to 400 choices of tile and split. A choice
# that needs no less of anything than another one of the same shape is never the fastest, whatever
# the constants are: the time grows with each term of choice_seconds. Most of them go. Of the rest,
# what the constants of so many fits leave possible is evaluated: five times as fast.
_FITS_AT_ONCE: Final = 32
# Of all terms that differ between the choices of a shape, less is faster; more busy units share the
# second-level cache.
_TERMS: Final = (
    *("store_bytes", "flops", "k_bytes", "load_bytes", "waves", "busy_units"),
    *("is_split", "sum_bytes"),
)


class Candidates(NamedTuple):
    """The candidates of all shapes in one row: [candidates], ordered by shape.

    shape  number of the shape of each candidate
    first  number of the first candidate of each shape
    """

    choices: TileChoices
    shape: Index
    first: Index

    def best(self, constants: Mapping[str, Array]) -> Index:
        """Number of the best candidate of each shape, [fits, shapes]; constants: [fits, 1] each."""
        fits, best = len(next(iter(constants.values()))), []
        for start in range(0, fits, _FITS_AT_ONCE):
            block = {n: values[start : start + _FITS_AT_ONCE] for n, values in constants.items()}
            places = self._possible(block)
            choices = TileChoices(*(array[places] for array in self.choices))
            shape = self.shape[places]
            first = np.flatnonzero(np.diff(shape, prepend=-1))
            _, _, seconds = model.choice_seconds(block, choices)
            least = np.minimum.reduceat(seconds, first, axis=1)
            # The first candidate of a shape that is as fast as the fastest.
            numbers_of_best = np.where(seconds == least[:, shape], places, len(self.shape))
            best.append(np.minimum.reduceat(numbers_of_best, first, axis=1))
        return np.concatenate(best)

    def _possible(self, constants: Mapping[str, Array]) -> Index:
        """Candidates that may be the best one by some of these fits: 2 to 5 of 100.

        Each operation of choice_seconds is monotonic, rounded or not. So no fit of a block is
        faster than its most favourable constants together, and none slower than its least
        favourable ones: a candidate that is slower by the former than another by the latter never
        is the best.
        """
        resolved = dict(constants)
        for name in model.SLOW_LATENCIES.values():  # an unknown one is that of the aligned path
            is_unknown = np.isnan(constants[name])
            aligned = constants[model.ALIGNED_LATENCY]
            resolved[name] = np.where(is_unknown, aligned, constants[name])
        ends = {name: (v.min(axis=0), v.max(axis=0)) for name, v in resolved.items()}
        fastest = {name: ends[name][name.endswith("_per_s")] for name in ends}
        slowest = {name: ends[name][not name.endswith("_per_s")] for name in ends}
        _, _, most = model.choice_seconds(slowest, self.choices)
        _, _, least = model.choice_seconds(fastest, self.choices)
        return np.flatnonzero(~(least > np.minimum.reduceat(most, self.first)[self.shape]))


def candidates_of(choices: TileChoices) -> Candidates:
    """The choices [shapes, choices] that no other choice of their shape is at least as good as."""
    full = TileChoices(*(np.broadcast_to(array, choices.flops.shape) for array in choices))
    costs = np.stack([getattr(full, name).astype(float) for name in _TERMS])
    kept = [_undominated_columns(costs[:, row]) for row in range(costs.shape[1])]
    shape = np.repeat(np.arange(len(kept)), [len(columns) for columns in kept])
    column = np.concatenate(kept)
    rows = TileChoices(*(array[shape, column] for array in full))
    first = np.flatnonzero(np.diff(shape, prepend=-1))
    return Candidates(choices=rows, shape=shape, first=first)


def _undominated_columns(costs: Array) -> Index:
    """Columns of costs [terms, choices] that cost less than each other one in some term."""
    is_no_worse = (costs[:, :, None] <= costs[:, None, :]).all(axis=0)
    is_equal = is_no_worse & is_no_worse.T
    # Of equal columns the first is kept.
    is_dominated = (is_no_worse & ~is_equal).any(axis=0) | np.triu(is_equal, 1).any(axis=0)
    return np.flatnonzero(~is_dominated)


class _AnyProducts(Problem):
    """Products of one provider and recipe."""

    equation: ClassVar = model
    noun = "products"
    least_probes = 12
    needs_all = True
    folds = 6
    soft = 0.05
    quick_folds = 2
    quick_steps = 4
    judged_steps = 20

    @classmethod
    def of(cls, probes: Sequence[Probe], device: Device) -> Problem:
        """On a GPU or a processor."""
        return (ProcessorProducts if device.is_cpu else Products)(probes=probes, device=device)

    @cached_property
    def quantities(self) -> Mapping[str, tuple[float, float]]:
        """From the fastest product and the shortest time, and the bandwidth of streams.

        Where no stream was measured, twice that of a product; on a GPU by the elements of its
        operands, of which each takes a byte at least.
        """
        m, n, k = self.sizes
        moved = least_work(self.recipe, m, n, k)[1] if self.device.is_cpu else (m + n) * k
        rate = float((2 * m * n * k / self.seconds).max())
        stream = self.device.stream_bytes_per_s or 2 * float((moved / self.seconds).max())
        return {
            "rate": (rate, 1.0),
            "unit_rate": (rate, float(self.device.compute_units)),
            "stream": (stream, 1.0),
            "time": (float(self.seconds.min()), 1.0),
        }

    def more(self, generator: np.random.Generator) -> dict[str, Ceiling]:
        """The rate, clock and power that the products of a pair reached."""
        return {
            model.CEILING: _fastest_rate(self.probes, generator),
            **dict(sustained_constants(self.probes, generator)),
        }


class Products(_AnyProducts):
    """Products of one provider and recipe on a GPU."""

    @cached_property
    def _shapes(self) -> dict[str, Shapes]:
        """Family -> what the model needs of the probes."""
        m, n, k = self.sizes
        units, tiled = self.device.compute_units, [f for f in FAMILIES if not FAMILIES[f].is_plain]
        return {family: describe(self.recipe, m, n, k, family, units) for family in tiled}

    @cached_property
    def _candidates(self) -> dict[str, Candidates]:
        return {family: candidates_of(self._shapes[family].choices) for family in self.families}

    @cached_property
    def path(self) -> NDArray[np.str_]:
        """Which kernels each probe can take, as Shapes.path."""
        return self._shapes["any_tile"].path

    @property
    def families(self) -> Sequence[str]:
        """Of tiles.

        Our kernels may also have the tiles of their rule. Where the names of a library's kernels
        show their tiles, families that contradict them are left out: another tile where all are
        alike, or a split of K where none or some have one.
        """
        pairs = {(probe.point.provider, probe.point.recipe) for probe in self.probes}
        tiled = {name: family for name, family in FAMILIES.items() if family.tiles}
        names = [" ".join(probe.measurement.kernel_names) for probe in self.probes]
        own = [one for recipe, one in _OUR_FAMILIES.items() if ("triton", recipe) in pairs]
        tiles = {(int(m[1]), int(m[2])) for name in names if (m := _TILE_IN_NAME.search(name))}
        if tiles:
            splits = any("splitK" in name for name in names)
            tiled = {
                name: family
                for name, family in tiled.items()
                if (len(family.tiles) > 1 if len(tiles) > 1 else set(family.tiles) == tiles)
                and splits == (len(family.splits) > 1)
            }
        return [*own, *tiled]

    def constants(self, family: str) -> Sequence[str]:
        """All of tiles; those that are in no stage of the family stay unknown."""
        return model.TILED_CONSTANTS

    def restarts(self, generator: np.random.Generator) -> Sequence[Array]:
        """Two more starts, all constants multiplied alike: the minimum over tiles has kinks."""
        starts = log(np.array([self.ranges("")[name][0] for name in model.TILED_CONSTANTS]))
        jumps = generator.normal(0, _JUMP, size=_RESTARTS)
        return [starts + jump for jump in jumps]

    def stages(self, family: str) -> Sequence[Stage]:
        """The aligned path, then each slow path: other kernels, whose scatter would pull at it."""
        aligned = self.path == "aligned"
        slow = (
            Stage((name,), self.path == path, _LEAST_SLOW_POINTS)
            for path, name in model.SLOW_LATENCIES.items()
        )
        return [Stage(self._aligned_names(family), aligned), *slow]

    def _aligned_names(self, family: str) -> tuple[str, ...]:
        """Constants of the aligned path, without those that no probe depends on."""
        shapes, aligned = self._shapes[family], self.path == "aligned"
        misaligned = shapes.choices.is_misaligned[:, 0] & aligned
        slow = model.SLOW_LATENCIES.values()
        depends = {
            "store_bytes_per_s": not shapes.choices.is_one_size,
            "wave_s": shapes.choices.is_one_size,
            "split_k_s": shapes.choices.is_split.any(),
            "piece_bytes_per_s": shapes.choices.sum_bytes.any(),
            "misaligned": misaligned.sum() >= _LEAST_SLOW_POINTS,
        }
        return tuple(
            name for name in model.TILED_CONSTANTS if name not in slow and depends.get(name, True)
        )

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the model."""
        return self.linearised(family, constants)[0]

    def linearised(self, family: str, constants: Array) -> tuple[Array, Predictor]:
        """As for every problem, but close by, the best tile stays the best."""
        shapes, candidates = self._shapes[family], self._candidates[family]
        best = candidates.best(self.columns(family, constants))
        chosen = TileChoices(*(array[best] for array in candidates.choices))

        def seconds_close_by(constants: Array) -> Array:
            columns = self.columns(family, constants)
            tiles, sums, _ = model.choice_seconds(columns, chosen)
            return model.tiled_parts(columns, shapes, tiles, sums).total

        return seconds_close_by(constants), seconds_close_by


class ProcessorProducts(_AnyProducts):
    """Products of one provider and recipe on a CPU."""

    @property
    def families(self) -> Sequence[str]:
        """Those without tiles: every core works on any part of a product."""
        return [name for name, family in FAMILIES.items() if family.is_plain]

    def constants(self, family: str) -> Sequence[str]:
        """Those of the equation of the family."""
        how = FAMILIES[family]
        return how.constants if isinstance(how, PackedFamily) else model.PLAIN_CONSTANTS

    def shifts(self, family: str) -> Sequence[Mapping[str, float]]:
        """Starts where copying costs less or more than what is declared."""
        copies = [name for name in self.constants(family) if name.startswith("pack_")]
        return [dict.fromkeys(copies, shift) for shift in (_SHIFTS if copies else (0.0,))]


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
        readings = (
            [getattr(row.telemetry, sensor)[place] for place in row.settled_readings]
            for row in (probe.measurement for probe in long)
        )
        values = np.array([float(np.median(own)) for own in readings if own])
        if len(values) < _LEAST_READINGS:
            continue

        def resampled_median(index: Index, values: Array = values) -> Array:
            return np.asarray(np.median(values[index]))

        low, high = interval(len(values), resampled_median, generator)
        evidence = f"{PROBE.name}, {len(values)} products of 100 us and more"
        yield constant, ceiling(float(np.median(values)), float(low), float(high), unit, evidence)


# The constants of every provider and recipe; CalibrationError for a pair of fewer than twelve.
PROBLEM: Final = Products
fit = partial(fit_each_recipe, PROBLEM)
