"""The break-even map of a run: speed-ups of linears over bf16, by M and by square weights K = N.

One row per recipe, pass, casts, M and weight: with the casts of the fastest provider, and without
any. Weights are cast beforehand in `forward` and in every step in `forward_backward`, and products
are those of the fastest provider, as in `breakeven`. An M that no provider runs has no row. The row
ends with the break-even M of its weight, which is found on all M of GRID; it is empty for never.
Rows of linears outside of the probes say how many doublings; 0 is within, and empty is a
calibration that states no probes. All of it is predicted: measured linears are in no row.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofcal.ask.answers import csv_text
from roofcal.ask.breakeven import GRID, STEP, comparable_recipes, linear_speedups
from roofcal.ask.linear_options import LinearTimes
from roofcal.models.calibrations import read_calibration
from roofcal.models.registry import MODELS
from roofcal.ops.linear.model import (
    BF16_GRAD_WEIGHT,
    FASTEST,
    PASSES,
    Linear,
    cast_providers,
    has_casts,
    usual_weights,
)
from roofcal.ops.time_models import Model, Sources

COLUMNS: Final = (
    *("recipe", "pass", "casts", "m", "n", "k", "speedup", "low", "high", "class"),
    *("breakeven_m", "breakeven_m_low", "breakeven_m_high", "extrapolated_doublings"),
)
SIDES: Final = (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
# Powers of two and the middles between them that are multiples of 16.
TOKENS: Final = tuple(
    m
    for power in range(STEP.bit_length() - 1, int(GRID[-1]).bit_length())
    for m in (1 << power, 3 << (power - 1))
    if m % STEP == 0 and m <= GRID[-1]
)
_BLOCK_RECIPE: Final = "fp8_blockwise_128x128"
_AT_TOKENS: Final[NDArray[np.int64]] = np.searchsorted(GRID, TOKENS)


def run_map(run: Path, calibration: Path) -> str:
    """The map of a run folder by the calibrated model, as CSV with the header COLUMNS.

    The header alone for a calibration without products to compare. Raises PredictError for the
    calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name))
    return map_csv(MODELS["calibrated"], sources)


def map_csv(model: Model, sources: Sources) -> str:
    """The map of all linears that a model can compare with bf16, as CSV with the header COLUMNS."""
    times = LinearTimes(model, sources)  # linears share most of their products and casts
    linears = product(mapped_linears(model, sources), SIDES)
    return csv_text(
        COLUMNS, (row for linear, side in linears for row in _rows(times, linear, side))
    )


def mapped_linears(model: Model, sources: Sources) -> list[Linear]:
    """Recipes whose casts are measured, in both passes: without casts, and with the fastest.

    BF16_GRAD_WEIGHT has the backward pass alone: forward it is fp8_axiswise. Blocks need casts that
    the model knows, which calibrations from before those were measured lack.
    """
    linears = []
    for recipe, passes in product(comparable_recipes(model, sources), PASSES):
        if not has_casts(recipe) or (recipe, passes) == (BF16_GRAD_WEIGHT, "forward"):
            continue
        weights = usual_weights(passes)
        linear = Linear(recipe=recipe, passes=passes, casts=FASTEST, weights=weights)
        has_providers = bool(cast_providers(model, sources, linear))
        if has_providers or recipe != _BLOCK_RECIPE:
            linears += [replace(linear, casts="none"), *([linear] if has_providers else [])]
    return linears


def _rows(times: LinearTimes, linear: Linear, side: int) -> Iterator[dict[str, Any]]:
    """The row of a weight at each of TOKENS that runs."""
    speedups = linear_speedups(times, linear, side, side)
    m, m_low, m_high = speedups.breakeven
    of_weight = {
        "recipe": linear.recipe, "pass": linear.passes, "casts": linear.casts, "n": side, "k": side,
        "breakeven_m": m, "breakeven_m_low": m_low, "breakeven_m_high": m_high,
    }  # fmt: skip
    ratios = {"speedup": speedups.value, "low": speedups.low, "high": speedups.high}
    classes, doublings = speedups.classes(), speedups.doublings
    for tokens, place in zip(TOKENS, _AT_TOKENS, strict=True):
        if np.isnan(speedups.value[place]):
            continue
        yield {
            **of_weight,
            "m": tokens,
            **{name: f"{ratio[place]:.4g}" for name, ratio in ratios.items() if ratio is not None},
            "class": classes[place],
            "extrapolated_doublings": None if doublings is None else f"{doublings[place]:.3g}",
        }
