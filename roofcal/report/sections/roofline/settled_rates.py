"""What a device reaches once its clock has settled, and why short benchmarks print more."""

from collections.abc import Iterator
from typing import Final

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.points.roofs import COPY
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import FastestProduct
from roofcal.report.kit.numbers import is_missing, percent, scaled

BURST_RECIPE: Final = "bf16"
_CLEARLY_FASTER: Final = 1.02


def settled_sentences(analysis: Analysis) -> Iterator[str]:
    """The fastest product of any recipe and of bf16, beside the datasheet and a burst; copies."""
    products = list(analysis.fastest.values())
    shown = [p for n, p in enumerate(products) if n == 0 or p.recipe == BURST_RECIPE]
    parts = [_product_text(product, analysis.spec) for product in shown]
    if parts:
        yield f"Its fastest products, settled: {'; '.join(parts)}.{_burst_text(analysis)}"
    if analysis.run.calibration is None:
        yield "Nothing is calibrated: the run has no calibration.jsonl, so no model is judged here."
        return
    constants = analysis.constants
    for row in constants[constants["name"] == COPY].to_dict("records"):
        yield f"Memory copies at {scaled(row['value'], 'B/s')}{_datasheet_text(row['fraction'])}."


def first_turn(product: FastestProduct | None) -> float | None:
    """The fastest first turn of a recipe, FLOP/s; None where its clock did not come down.

    An H200 needs two seconds at its power limit to come down from 1965 to about 1400 MHz.
    """
    if product is None or product.burst is None:
        return None
    return product.burst if product.burst >= _CLEARLY_FASTER * product.rate.value else None


def _burst_text(analysis: Analysis) -> str:
    product = analysis.fastest.get(BURST_RECIPE)
    burst = first_turn(product)
    if product is None or burst is None:
        return ""
    return (
        f" A benchmark of a few milliseconds prints more: {BURST_RECIPE} began with "
        f"{scaled(burst, 'flop/s')} at {product.burst_shape}."
    )


def _product_text(product: FastestProduct, spec: DeviceSpec | None) -> str:
    rate = product.rate
    ends = " to ".join(scaled(end, "flop/s") for end in (rate.ci95_low, rate.ci95_high))
    dtype = GEMM_RECIPES[product.recipe].math_dtype
    peak = spec.peak_flops_per_s.get(dtype) if spec else None
    return (
        f"{scaled(rate.value, 'flop/s')} ({ends}) in {product.recipe} by {product.provider} at "
        f"{product.shape}{_datasheet_text(rate.value / peak if peak else None)}"
    )


def _datasheet_text(share: float | None) -> str:
    if share is None or is_missing(share):
        return ""
    return f" ({percent(share, 0)} of the datasheet)"
