"""The break-even map of a run: speed-ups of linears over bf16, by M and by square weights K = N.

One row per recipe, pass, casts, M and weight. Weights are cast beforehand in `forward` and in every
step in `forward_backward`, as in `breakeven`.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.predict.breakeven import LARGEST_M, MULTIPLE, Speedups, recipes, speedups
from roofcal.predict.find import read_calibration
from roofcal.predict.linear import (
    PASSES,
    Casts,
    Linear,
    cast_providers,
    has_casts,
    usual_weights,
)
from roofcal.predict.models import MODELS, Model
from roofcal.predict.sources import Sources

COLUMNS: Final = ("recipe", "pass", "casts", "m", "n", "k", "speedup", "low", "high", "class")
SIDES: Final = (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
# Powers of two and the middles between them that are multiples of 16.
TOKENS: Final = tuple(
    m
    for power in range(MULTIPLE.bit_length() - 1, LARGEST_M.bit_length())
    for m in (1 << power, 3 << (power - 1))
    if m % MULTIPLE == 0 and m <= LARGEST_M
)


def run_map(run: Path, calibration: Path) -> str:
    """The map of a run folder by the calibrated model, as CSV with the header COLUMNS.

    Nothing but the header for a calibration without products to compare. Raises PredictError for
    the calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name))
    return map_csv(MODELS["calibrated"], sources)


def map_csv(model: Model, sources: Sources) -> str:
    """The map of whatever a model can compare with bf16, as CSV with the header COLUMNS."""
    sides, tokens = (np.array(v, dtype=float) for v in zip(*product(SIDES, TOKENS), strict=True))
    lines = [",".join(COLUMNS)]
    for linear in linears(model, sources):
        found = speedups(model, sources, linear, tokens, sides, sides)
        labels = f"{linear.recipe},{linear.passes},{linear.casts}"
        lines += [f"{labels},{row}" for row in _rows(tokens, sides, found)]
    return "\n".join(lines) + "\n"


def linears(model: Model, sources: Sources) -> list[Linear]:
    """Recipes whose casts are known, in both passes: without casts, and with those of a provider.

    The provider is the first of CASTS that the model knows; without one, no linear has casts.
    """
    known = [recipe for recipe in recipes(model, sources) if has_casts(recipe)]
    casts: Sequence[Casts] = ("none", *cast_providers(model, sources)[:1])
    return [
        Linear(recipe=recipe, passes=passes, casts=provider, weights=usual_weights(passes))
        for recipe, passes, provider in product(known, PASSES, casts)
    ]


def _rows(
    tokens: NDArray[np.float64], sides: NDArray[np.float64], found: Speedups
) -> Iterator[str]:
    """m,n,k,speedup,low,high,class per point; no low and high from a model without intervals."""
    unknown = [""] * len(tokens)
    columns = (found.value, found.low, found.high)
    value, low, high = (unknown if c is None else [f"{x:.4g}" for x in c] for c in columns)
    sizes = zip(tokens.astype(int), sides.astype(int), strict=True)
    for (m, side), *rest in zip(sizes, value, low, high, found.classes(), strict=True):
        yield ",".join([str(m), str(side), str(side), *rest])
