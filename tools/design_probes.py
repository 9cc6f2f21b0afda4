"""Choose the probes of `STUDY=minute`: the shapes that tell most about layers of language models.

Run: python -m tools.design_probes [--calibrations FILE ...]; it prints the shapes of config/sweeps/
and behind each the error that is then expected. The calibrations, by default all published ones,
stand for what is known beforehand: each is a prior of its constants, with a deviation of 10 % and
what the interval of a constant adds. A design is good in the mean over them.

A greedy design by expected variance (Chaloner and Verdinelli, Statistical Science 10, 1995): close
to the constants the logarithm of a time is linear in their logarithms, so the variance of a
prediction after a probe does not depend on what the probe measures. Each step adds the candidate
that leaves the least mean variance over the layers of config/models, in all recipes of a sweep at
once. A layer outside of what the probes span counts more, as its interval does
(roofcal.ops.predictions).
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofcal.core.paths import CONFIG, PUBLISHED, run_folders
from roofcal.core.records import CODE, Calibration
from roofcal.core.times import Array
from roofcal.models.calibrations import read_calibration
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_pairs, load_part
from roofcal.ops.predictions import GROWTH, MOST_DOUBLINGS, answer_of, extents
from roofcal.ops.spec import Shape
from roofcal.study.config import Study, load_study
from roofcal.study.plan import sweep_shapes
from roofcal.study.schema import Layers, Sweep

_TENSOR_PARALLEL: Final = (1, 2, 4, 8)
_LEAST_SIDE: Final = 512
_MOST_ROWS: Final = 65536  # of weights, and of a matrix that is cast
_MOST_COLUMNS: Final = 32768
# What a candidate and a layer have at most: gate and up of Llama-3 70B on one device with 16,384
# tokens, 25 ms in bf16. Llama-3 405B on one device is beyond.
_MOST_FLOPS: Final = 1.8e13
_NOISE: Final = 0.04  # deviation of a logarithm: what a short visit and the form of a model leave
_CARDS: Final = 0.1  # deviation of the logarithm of a constant from card to card
_HALF_OF_95: Final = 1.96
_NUDGE: Final = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A sweep whose shapes are designed.

    count        of its shapes
    most_tokens  of products, and rows of activations
    most_bytes   to read and write: candidates and layers that need more are left out
    """

    op: str
    sweep: str
    count: int
    provider: str
    recipes: tuple[str, ...]
    most_tokens: int = 16384
    most_bytes: int = 2**32


_INT4: Final = Design(
    op="mixed_gemm",
    sweep="design_minute",
    count=8,
    provider="triton",
    recipes=("int4_groupwise_g128",),
    most_tokens=256,
    # As gate and up of Llama-3 70B on one device with 256 tokens. Two weights three times as large
    # took 8 s of a minute on an H100, and most of that was making them.
    most_bytes=310_000_000,
)
DESIGNS: Final = (
    Design(
        op="gemm",
        sweep="design_minute",
        count=12,
        provider="cublaslt",
        recipes=("bf16", "fp8_tensorwise", "fp8_axiswise"),
    ),
    Design(
        op="cast",
        sweep="design_minute",
        count=8,
        provider="triton",
        recipes=("fp8_tensorwise", "fp8_rowwise_dim0", "fp8_rowwise_dim1", "fp8_rowwise_both"),
    ),
    _INT4,
    replace(_INT4, sweep="design_minute_specialised", provider="triton_specialised"),
)


def main() -> None:
    """Print the shapes of every design, and the error that is expected after each of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calibrations", type=Path, nargs="+")
    parser.add_argument("--random", type=int, default=0, help="compare with so many random designs")
    options = parser.parse_args()
    files = options.calibrations or [run.calibration_file for run in run_folders(PUBLISHED)]
    published = [read_calibration(file, None) for file in files]
    study = load_study(CONFIG)
    for design in DESIGNS:
        candidates = candidate_shapes(design, study)
        layers = layer_shapes(design, study)
        recipes = [
            Knowledge.of(design, recipe, known, candidates, layers)
            for known, recipe in product(published, design.recipes)
            if (design.provider, recipe) in calibrated_pairs(known.constants, design.op)
        ]
        chosen = greedy_design(recipes, design.count)
        print(f"probe of {design.op}, {design.sweep}:")
        for number, place in enumerate(chosen):
            error = expected_error(recipes, chosen[: number + 1])
            print(f"      - {list(candidates[place].values())}  # {error:.1%}")
        if options.random:
            source = np.random.default_rng(0)
            draws = [
                source.choice(len(candidates), design.count, replace=False).tolist()
                for _ in range(options.random)
            ]
            for count in range(2, design.count + 1, 2):
                mean = np.mean([expected_error(recipes, draw[:count]) for draw in draws])
                print(f"{count} candidates drawn at random: {mean:.1%}")


def greedy_design(recipes: Sequence["Knowledge"], count: int) -> list[int]:
    """The numbers of so many candidates, best first.

    A layer beyond the probes has a wider interval and is called extrapolated. So once as few steps
    are left as there are ends of the layers' span to reach, each step reaches what it can.
    """
    chosen: list[int] = []
    for left in range(count, 0, -1):
        others = [i for i in range(len(recipes[0].of_candidates)) if i not in chosen]
        variances = np.sum([recipe.variances(chosen, others) for recipe in recipes], axis=0)
        still_open = np.max([recipe.open_ends(chosen, others) for recipe in recipes], axis=0)
        if still_open.max() >= left:
            variances = np.where(still_open == still_open.min(), variances, np.inf)
        chosen.append(others[int(variances.argmin())])
    return chosen


def expected_error(recipes: Sequence["Knowledge"], chosen: Sequence[int]) -> float:
    """Root of the mean variance over layers, recipes and cards after one candidate or more."""
    variances = [recipe.variances(chosen[:-1], chosen[-1:]) for recipe in recipes]
    return float(np.sqrt(np.mean(variances)))


def layer_shapes(design: Design, study: Study) -> list[Shape]:
    """The layers of every described model on one to eight devices; op cast: their weights, too."""
    op = BY_NAME[design.op]
    tokens = [1 << power for power in range(design.most_tokens.bit_length())]
    layers = Layers(
        models=list(study.models), tensor_parallel=list(_TENSOR_PARALLEL), tokens=tokens
    )
    shapes = list(sweep_shapes(op, Sweep(layers=layers), study.models, None))
    if design.op == "cast":
        gemms = sweep_shapes(BY_NAME["gemm"], Sweep(layers=layers), study.models, None)
        shapes += [{"rows": layer["n"], "cols": layer["k"]} for layer in gemms]
    return _taken(design, {tuple(shape.values()): shape for shape in shapes}.values())


def candidate_shapes(design: Design, study: Study) -> list[Shape]:
    """A grid of shapes that no study has and that every recipe of a design takes."""
    op = BY_NAME[design.op]
    columns = _sizes(_LEAST_SIDE, _MOST_COLUMNS)
    if design.op == "cast":
        axes = [_sizes(1, _MOST_ROWS), columns]
    else:
        axes = [_sizes(1, design.most_tokens), _sizes(_LEAST_SIDE, _MOST_ROWS), columns]
    grid = (dict(zip(op.axes, sizes, strict=True)) for sizes in product(*axes))
    studied = {
        tuple(shape.values())
        for sweep in study.sweep_files[design.op].sweeps.values()
        for shape in sweep_shapes(op, sweep, study.models, None)
    }
    return _taken(design, (shape for shape in grid if tuple(shape.values()) not in studied))


def _sizes(least: int, most: int) -> list[int]:
    """Powers of two and three times such, as tokens and sides of layers are, in order."""
    powers = [1 << power for power in range(most.bit_length())]
    sizes = {*powers, *(3 * power for power in powers)}
    return sorted(size for size in sizes if least <= size <= most)


def _taken(design: Design, shapes: Iterable[Shape]) -> list[Shape]:
    """The shapes that every recipe takes and that are not too large."""
    op = BY_NAME[design.op]

    def is_taken(shape: Shape) -> bool:
        work = op.work(design.recipes[0], shape)
        return (
            work.flops <= _MOST_FLOPS
            and work.dram_bytes <= design.most_bytes
            and max(shape.values()) <= _MOST_ROWS
            and shape[op.axes[-1]] <= _MOST_COLUMNS
            and all(op.takes(design.provider, recipe, shape) for recipe in design.recipes)
        )

    return list(filter(is_taken, shapes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What probes of one recipe tell of its layers.

    covariance      of the logarithms of the constants beforehand, [constants, constants]
    of_candidates, of_layers
                    derivatives of log seconds by log constants, [shapes, constants]
    extents_of_candidates, extents_of_layers
                    log2 of what a span has of a shape, [shapes, extents]
    """

    covariance: Array
    of_candidates: Array
    of_layers: Array
    extents_of_candidates: Array
    extents_of_layers: Array

    @classmethod
    def of(
        cls,
        design: Design,
        recipe: str,
        known: Calibration,
        candidates: Sequence[Shape],
        layers: Sequence[Shape],
    ) -> "Knowledge":
        """Near the constants that a calibration has."""
        prefix = f"{design.op}.{design.provider}.{recipe}."
        own = {n: c for n, c in known.constants.items() if n.startswith(prefix) and c.unit != CODE}
        deviations = [
            np.hypot(_CARDS, np.log(c.ci95_high / c.ci95_low) / 2 / _HALF_OF_95)
            for c in own.values()
        ]
        shapes, op = [*candidates, *layers], BY_NAME[design.op]
        sizes = [np.array([float(shape[axis]) for shape in shapes]) for axis in op.axes]
        model: Any = load_part(op, "model")

        def log_seconds(calibration: Calibration) -> Array:
            times = answer_of(model, calibration, design.provider, recipe, sizes).times
            return np.asarray(np.log(times.total))

        def nudged(name: str) -> Calibration:
            constant = known.constants[name]
            more = replace(constant, value=constant.value * np.exp(_NUDGE))
            return replace(known, constants={**known.constants, name: more})

        before = log_seconds(known)
        jacobian = np.array([(log_seconds(nudged(name)) - before) / _NUDGE for name in own]).T
        span = extents(op, recipe, dict(zip(op.axes, sizes, strict=True)))
        logs = np.log2(np.array(list(span.values()))).T
        count = len(candidates)
        return cls(
            covariance=np.diag(np.square(deviations)),
            of_candidates=jacobian[:count],
            of_layers=jacobian[count:],
            extents_of_candidates=logs[:count],
            extents_of_layers=logs[count:],
        )

    def after(self, chosen: Sequence[int]) -> Array:
        """The covariance of the constants once candidates were measured."""
        covariance = self.covariance
        for row in self.of_candidates[list(chosen)]:
            gain = covariance @ row
            covariance = covariance - np.outer(gain, gain) / (row @ gain + _NOISE**2)
        return covariance

    def variances(self, chosen: Sequence[int], more: Sequence[int]) -> Array:
        """Mean variance over the layers after `chosen` and each of `more` candidates."""
        covariance = self.after(chosen)
        rows, layers = self.of_candidates[list(more)], self.of_layers
        gains = layers @ covariance @ rows.T
        own = np.einsum("ij,jk,ik->i", rows, covariance, rows) + _NOISE**2
        before = np.einsum("ij,jk,ik->i", layers, covariance, layers)
        after = before[:, None] - gains**2 / own + _NOISE**2
        low, high = self._spans(chosen, more)
        outside = np.zeros_like(after)
        for axis, sizes in enumerate(self.extents_of_layers.T):
            beyond = np.maximum(sizes[:, None] - high[:, axis], low[:, axis] - sizes[:, None])
            outside = np.maximum(outside, beyond)
        wider = 1 + GROWTH * np.minimum(outside, MOST_DOUBLINGS)
        return np.asarray((after * wider**2).mean(axis=0))

    def open_ends(self, chosen: Sequence[int], more: Sequence[int]) -> Array:
        """How many ends of the layers' span `chosen` and each of `more` do not reach, [more].

        An end that no candidate reaches does not count.
        """
        low, high = self._spans(chosen, more)
        candidates, layers = self.extents_of_candidates, self.extents_of_layers
        least = np.maximum(layers.min(axis=0), candidates.min(axis=0))
        most = np.minimum(layers.max(axis=0), candidates.max(axis=0))
        return np.asarray((low > least).sum(axis=1) + (high < most).sum(axis=1))

    def _spans(self, chosen: Sequence[int], more: Sequence[int]) -> tuple[Array, Array]:
        """(least, most) of each extent of `chosen` and each of `more`, [more, extents]."""
        spanned = self.extents_of_candidates[list(chosen)]
        added = self.extents_of_candidates[list(more)]
        return (
            np.minimum(added, spanned.min(axis=0, initial=np.inf)),
            np.maximum(added, spanned.max(axis=0, initial=-np.inf)),
        )


if __name__ == "__main__":
    main()
