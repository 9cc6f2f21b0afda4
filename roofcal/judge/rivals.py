"""Plainer models of time, fitted on the same probes: what the calibrated model has to beat.

docs/models.md has them. They answer points of a judge alone: nobody asks them. What a point needs
is fitted when it is asked for, by the soft-L1 loss that fits of the calibrated model minimise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.portable_math import exp, fourth_norm, log
from roofcal.core.recipes import BITS, GEMM_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.core.visits.rows import is_sentinel
from roofcal.fitting.batched_least_squares import Index, minimise
from roofcal.models import torchao
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.gemm.tiles import ALIGNED_BYTES, least_work, row_alignment_bytes
from roofcal.ops.predictions import TimesAndParts, predict_groups, sizes_of
from roofcal.ops.time_models import Model, Sources, product_times
from roofcal.points.columns import POINT, declared
from roofcal.points.reader import read_points, with_intervals, with_made
from roofcal.points.run import Run

Pair = tuple[str, str, str]  # op, provider and recipe
Probes = tuple[list[PlanPoint], Array]  # of a pair, and their seconds
Predictor = Callable[[Sequence[PlanPoint]], Array]  # seconds of points of a pair
Fit = Callable[[Probes], Predictor | None]  # None for pairs that a rival does not model

# (rows, columns, parts of K) that a product may be cut in: sides of tiles that libraries have, but
# for small steps between them.
_SIDES: Final = [(a, b) for a in (64, 128) for b in (16, 32, 64, 128, 256)]
_TILES: Final = sorted({*_SIDES, *((b, a) for a, b in _SIDES)})
_CHOICES: Final = np.array([(*tile, split) for tile in _TILES for split in (1.0, 2.0, 4.0, 8.0)])
_K_BYTES: Final = 128  # of a tile's step along K
_REACH: Final = 4.6  # of a search, as a logarithm: from a hundredth of its start to a hundredfold
_SCALE: Final = 0.1  # logarithm of an error beyond which a probe pulls less than its square
_STEP: Final = 1e-4  # of a logarithm, for derivatives


@dataclass(kw_only=True)
class Rival:
    """A roofcal.ops.time_models.Model that is fitted on the probes of each pair.

    probes      of a run
    fit         how
    predictors  of pairs that points were asked of
    """

    MODEL: str
    probes: Mapping[Pair, Probes]
    fit: Fit
    predictors: dict[Pair, Predictor | None] = field(default_factory=dict)

    def product_recipes(self, _: Sources, /) -> tuple[str, ...]:
        """Recipes of op gemm with probes."""
        return tuple(dict.fromkeys(recipe for op, _, recipe in self.probes if op == "gemm"))

    def product_times(
        self, sources: Sources, recipe: str, m: Array, n: Array, k: Array, /
    ) -> Times:
        """Seconds of products by the first provider with probes; KeyError where none has any."""
        for op, provider, of_recipe in self.probes:
            if (op, of_recipe) == ("gemm", recipe):
                return product_times(self, sources, provider, recipe, (m, n, k))
        raise KeyError(recipe)

    def predict(self, points: Sequence[PlanPoint], _: Sources, /) -> list[Prediction]:
        """A prediction per point of a pair that has probes and is modelled."""

        def answer(provider: str, members: Sequence[PlanPoint]) -> TimesAndParts | None:
            pair = (members[0].op, provider, members[0].recipe)
            if pair not in self.predictors:
                self.predictors[pair] = self.fit(self.probes[pair]) if pair in self.probes else None
            predictor = self.predictors[pair]
            if predictor is None:
                return None
            names = [self.MODEL] * len(members)
            return TimesAndParts(Times(total=predictor(members), bound_by=names))

        return predict_groups(points, self.MODEL, lambda point: (point.provider,), answer)


def rivals_of(run: Run, spec: DeviceSpec | None) -> tuple[Model, ...]:
    """The rivals on the probes of a run; torchao's needs a datasheet.

    Raises RecordsError for a bad file.
    """
    probes, units = _probes_of(run), float(run.environment.compute_units)
    fits: dict[str, Fit] = {"ten_constants": lambda own: fitted_waves(own, units)}
    if spec is not None:
        constants = torchao.from_datasheet(spec)
        fits = {"torchao_fitted": lambda own: fitted_torchao(own, constants)} | fits
    return tuple(Rival(MODEL=name, probes=probes, fit=fit) for name, fit in fits.items())


def _probes_of(run: Run) -> dict[Pair, Probes]:
    """The probes of a run that were timed; sentinels have shapes of study points."""
    by_pair: dict[Pair, list[tuple[PlanPoint, float]]] = {}
    for op in OPS:
        if op.calibrates is None or op.name not in run.ops:
            continue
        columns = declared("status", "median_s")
        table, sessions = read_points(run.files, op.name, columns)
        timed = with_made(with_intervals(table, sessions, of_sentinels=True), columns)
        timed = timed[timed["median_s"].notna()]
        for point, seconds in zip(timed[POINT], timed["median_s"], strict=True):
            if not is_sentinel(point):
                own = replace(point, op=op.calibrates)
                pair = (own.op, own.provider, own.recipe)
                by_pair.setdefault(pair, []).append((own, float(seconds)))
    return {
        pair: ([point for point, _ in own], np.array([seconds for _, seconds in own]))
        for pair, own in by_pair.items()
    }


def fitted_torchao(probes: Probes, constants: torchao.Constants) -> Predictor | None:
    """torchao's formula with the fractions of the peak and of the bandwidth that fit probes best.

    constants: of the device, as torchao has them. Without products, the first fraction is unused.
    """

    def seconds(fractions: Array, points: Sequence[PlanPoint]) -> Array:
        math, dram = map(float, fractions)
        own = constants._replace(math_fraction=math, dram_fraction=dram)
        answer = torchao.times_of_points(own, points)
        assert answer is not None  # a recipe is modelled or not, whatever the fractions are
        return answer.times.total

    points, measured_s = probes
    if torchao.times_of_points(constants, points) is None:
        return None
    start = np.array([constants.math_fraction, constants.dram_fraction])
    best = fitted(lambda fractions: seconds(fractions, points), start, measured_s)
    return lambda asked: seconds(best, asked)


def fitted_waves(probes: Probes, units: float) -> Predictor | None:
    """`waves` with the ten constants that fit probes best; None for what is no product of op gemm.

    units: multiprocessors of the device.
    """
    points, seconds = probes
    if points[0].op != "gemm":
        return None
    recipe, axes = points[0].recipe, BY_NAME["gemm"].axes
    sizes = sizes_of(points, axes)
    flops, moved = least_work(recipe, *sizes)
    peak, bandwidth = (flops / seconds).max(), (moved / seconds).max()
    start = np.array(
        [
            *(0.5 * seconds.min(), 1.5 * peak / units, 1e11, 2 * bandwidth, 1e-9, 1e-6),
            *(bandwidth, peak, 2.0, 5.0),
        ]
    )
    best = fitted(lambda constants: waves(constants, recipe, sizes, units), start, seconds)
    return lambda asked: waves(best, recipe, sizes_of(asked, axes), units)


def waves(constants: Array, recipe: str, sizes: Sequence[Array], units: float) -> Array:
    """Seconds of products of sizes (m, n, k), on the best choice of tile and split of K.

        t     = ((launch + (tiles^4 + dram^4)^(1/4))^4 + power^4)^(1/4)
        tiles = slow * waves * (math^4 + load^4 + latency^4)^(1/4) + [split > 1] * split_s
        load  = operands' bytes of a tile / min(load rate, cache rate / busy units)
        dram  = least bytes / memory rate         power = flops / rate under the power limit

    math and latency go with the flops and the bytes along K of a tile; slow is 1, but for rows that
    start on 8 bytes or on fewer.

    constants: launch, s; of one unit the rate of tiles, flop/s, and of loads, B/s; rate of the
    cache, B/s; latency, s/B along K; split_s, s; memory rate, B/s; flop/s under the power limit;
    slow for rows on 8 bytes; slow for others.
    """
    launch, rate, load, cache, latency, split, memory, power, eight, odd = constants
    m, n, k = (size[:, None] for size in sizes)
    rows, columns, splits = _CHOICES.T
    width = BITS[GEMM_RECIPES[recipe].a.dtype] / 8
    flops, moved = least_work(recipe, *sizes)
    alignment = row_alignment_bytes(recipe, *sizes[1:])
    slow = np.where(alignment < ALIGNED_BYTES, np.where(alignment == 8, eight, odd), 1.0)
    k_bytes = np.ceil(k * width / splits / _K_BYTES) * _K_BYTES
    count = np.ceil(m / rows) * np.ceil(n / columns) * splits
    math = 2 * rows * columns * k_bytes / width / rate
    loaded = (np.minimum(rows, m) + np.minimum(columns, n)) * k_bytes
    loads = loaded / np.minimum(load, cache / np.minimum(count, units))
    step = fourth_norm(fourth_norm(math, loads), k_bytes * latency)
    tiles = slow[:, None] * np.ceil(count / units) * step + (splits > 1) * split
    work = launch + fourth_norm(tiles.min(axis=1), moved / memory)
    return fourth_norm(work, flops / power)


def fitted(equation: Callable[[Array], Array], start: Array, seconds: Array) -> Array:
    """The constants, all above zero, with which an equation gives measured seconds best."""
    steps = _STEP * np.concatenate([np.zeros((1, len(start))), np.eye(len(start))])

    def residuals(parameters: Array, _: Index) -> tuple[Array, Array]:
        of_fits = [np.array([log(equation(exp(row))) for row in p + steps]) for p in parameters]
        logs = np.array(of_fits)
        return logs[:, 0] - log(seconds), (logs[:, 1:] - logs[:, :1]) / _STEP

    first = log(start)[None]
    weights = np.ones((1, len(seconds)))
    bounds = first - _REACH, first + _REACH
    found, _ = minimise(residuals, first, bounds, weights, _SCALE, steps=40)
    return exp(found[0])
