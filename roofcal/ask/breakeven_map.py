"""The break-even map of a run: speed-ups of linears over bf16, by M and by square weights K = N.

One row per recipe, pass, casts, M and weight. Weights are cast beforehand in `forward` and in every
step in `forward_backward`, as in `breakeven`, whose answer for the weight ends the row: it is found
on all M of GRID, not on those of the map alone. It is empty for never.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.ask.breakeven import GRID, MULTIPLE, Speedups, lasting, recipes, speedups
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.models import linear as linears_of
from roofcal.models.calibrations import read_calibration
from roofcal.models.linear import (
    BF16_GRAD_WEIGHT,
    PASSES,
    Linear,
    cast_providers,
    has_casts,
    usual_weights,
)
from roofcal.models.registry import MODELS, Model
from roofcal.models.sources import Sources

COLUMNS: Final = (
    *("recipe", "pass", "casts", "m", "n", "k", "speedup", "low", "high", "class"),
    *("breakeven_m", "breakeven_m_low", "breakeven_m_high"),
)
SIDES: Final = (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
# Powers of two and the middles between them that are multiples of 16.
TOKENS: Final = tuple(
    m
    for power in range(MULTIPLE.bit_length() - 1, int(GRID[-1]).bit_length())
    for m in (1 << power, 3 << (power - 1))
    if m % MULTIPLE == 0 and m <= GRID[-1]
)
_IN_BLOCKS: Final = "fp8_blockwise_128x128"
_SHOWN: Final[NDArray[np.int64]] = np.searchsorted(GRID, TOKENS)


def run_map(run: Path, calibration: Path) -> str:
    """The map of a run folder by the calibrated model, as CSV with the header COLUMNS.

    Nothing but the header for a calibration without products to compare. Raises PredictError for
    the calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name))
    return map_csv(MODELS["calibrated"], sources)


def map_csv(model: Model, sources: Sources) -> str:
    """The map of whatever a model can compare with bf16, as CSV with the header COLUMNS."""
    remembering = _Remembering(model)
    lines = [",".join(COLUMNS)]
    for linear in linears(model, sources):
        labels = f"{linear.recipe},{linear.passes},{linear.casts}"
        for side in SIDES:
            sides = np.full_like(GRID, float(side))
            found = speedups(remembering, sources, linear, GRID, sides, sides)
            lines += [f"{labels},{row}" for row in _rows(side, found)]
    return "\n".join(lines) + "\n"


def linears(model: Model, sources: Sources) -> list[Linear]:
    """Recipes whose casts are known, in both passes: without casts, and with those of a provider.

    The provider is the first of CASTS that the model knows for the linear. BF16_GRAD_WEIGHT is
    fp8_axiswise in the forward pass and stands in the other alone. Blocks are left out where no
    casts of them are known, as in calibrations from before these were measured.
    """
    return [
        replace(linear, casts=casts)
        for recipe, passes in product(recipes(model, sources), PASSES)
        if has_casts(recipe) and (recipe, passes) != (BF16_GRAD_WEIGHT, "forward")
        for linear in [Linear(recipe=recipe, passes=passes, weights=usual_weights(passes))]
        for known in [cast_providers(model, sources, linear)[:1]]
        if known or recipe != _IN_BLOCKS
        for casts in ("none", *known)
    ]


def _rows(side: int, found: Speedups) -> Iterator[str]:
    """The row of a weight at each of TOKENS, without its labels.

    No low and high from a model without intervals.
    """
    ratios = (found.value, found.low, found.high)
    ends = ["" if (m := lasting(ratio)) is None else str(m) for ratio in ratios]
    unknown = [""] * len(TOKENS)
    shown = (unknown if r is None else [f"{x:.4g}" for x in r[_SHOWN]] for r in ratios)
    classes = found.classes()
    m_best, m_high, m_low = ends  # the low end of the speed-up is the last to pass 1
    for m, at, *values in zip(TOKENS, _SHOWN, *shown, strict=True):
        sizes = [str(m), str(side), str(side)]
        yield ",".join([*sizes, *values, classes[at], m_best, m_low, m_high])


class _Remembering:
    """A model that answers the same products and casts once: linears of a map share most."""

    def __init__(self, model: Model) -> None:
        self._model, self.MODEL = model, model.MODEL
        self._known: dict[tuple[object, ...], Times] = {}

    def product_recipes(self, sources: Sources, /) -> tuple[str, ...]:
        return self._model.product_recipes(sources)

    def predict(self, points: Sequence[PlanPoint], sources: Sources, /) -> list[Prediction]:
        return self._model.predict(points, sources)

    def product_times(
        self, sources: Sources, recipe: str, m: Array, n: Array, k: Array, /
    ) -> Times:
        key = (recipe, m.tobytes(), n.tobytes(), k.tobytes())
        return self._once(key, lambda: self._model.product_times(sources, recipe, m, n, k))

    def cast_times(
        self, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array, /
    ) -> Times:
        def ask() -> Times:
            return linears_of.cast_times(self._model, sources, provider, recipe, rows, cols)

        return self._once((provider, recipe, rows.tobytes(), cols.tobytes()), ask)

    def _once(self, key: tuple[object, ...], ask: Callable[[], Times]) -> Times:
        if key not in self._known:
            self._known[key] = ask()
        return self._known[key]
