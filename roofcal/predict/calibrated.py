"""The calibrated model: constants fitted on probes, equations of roofcal.ops.gemm.time_model.

A product's interval is prediction * exp(+-e), where e is the 95th percentile of |log error| on
probes that were left out of the fit (shapes with rows off 16 bytes have an e of their own). Casts
are those of a provider: equations of roofcal.ops.cast.time_model, intervals in the same way. A
point without a provider is answered for the fastest that was calibrated.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.ops.cast import time_model as cast_model
from roofcal.ops.gemm.time_model import (
    ALIGNED_BYTES,
    BY_CODE,
    CONSTANTS,
    Parts,
    describe,
    evaluate,
    row_alignment,
)
from roofcal.predict import calibrated_mixed
from roofcal.predict.sources import Sources
from roofcal.predict.times import Times
from roofcal.records import Calibration, PlanPoint, Prediction

MODEL = "calibrated"
Array = NDArray[np.float64]
_PRODUCTS: Final = ("gemm", calibrated_mixed.OP)  # contenders of the latter are products too
_CHUNK: Final = 128  # shapes at once, 250 choices of tile and split each: fits a 256 KiB cache


def recipes(calibration: Calibration) -> list[str]:
    """Recipes of products a calibration has constants of."""
    ends = ".tile_family"
    names = [name for name in calibration.constants if name.endswith(ends)]
    return [name.removeprefix("gemm.").removesuffix(ends) for name in names]


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes of op gemm that were calibrated."""
    return tuple(recipes(sources.calibration)) if sources.calibration else ()


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds with intervals; raises KeyError for a recipe that was not calibrated."""
    if sources.calibration is None:
        raise KeyError(recipe)
    parts = product_parts(sources.calibration, recipe, m, n, k)
    factors = interval_factors(sources.calibration, recipe, n, k)
    return Times(
        total=parts.total,
        low=parts.total / factors,
        high=parts.total * factors,
        bound_by=parts.bound_by,
    )


def product_parts(calibration: Calibration, recipe: str, m: Array, n: Array, k: Array) -> Parts:
    """Parts of products of one recipe; raises KeyError for a recipe that was not calibrated."""
    value = {name: constant.value for name, constant in calibration.constants.items()}
    prefix = f"gemm.{recipe}."
    family = BY_CODE[int(value[f"{prefix}tile_family"])]
    constants = {name: value[prefix + name] for name in CONSTANTS if prefix + name in value}
    units = int(value["compute_units"])
    chunks = [
        evaluate(constants, describe(recipe, m[s], n[s], k[s], family, units), family)
        for s in (slice(i, i + _CHUNK) for i in range(0, max(1, len(m)), _CHUNK))
    ]
    joined = {f: np.concatenate([getattr(c, f) for c in chunks]) for f in Parts.__slots__}
    return Parts(**joined)


def interval_factors(calibration: Calibration, recipe: str, n: Array, k: Array) -> Array:
    """exp(e) of every shape: a prediction times and divided by it is its 95 % interval."""
    errors = calibration.probe_errors[recipe]
    fast = errors["log_p95"]
    slow = errors.get("log_p95_unaligned", fast)
    factors: Array = np.exp(np.where(row_alignment(recipe, n, k) == ALIGNED_BYTES, fast, slow))
    return factors


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the calibration has constants for, in the order of the points."""
    if sources.calibration is None:
        return []
    calibration = sources.calibration
    found: dict[str, Prediction] = {}
    for recipe in recipes(calibration):
        some = [p for p in points if p.op in _PRODUCTS and p.recipe == recipe]
        found |= {p.point_id: p for p in _products(some, recipe, calibration)}
    casts = [p for p in points if p.op == "cast"]
    found |= {p.point_id: p for p in _casts(casts, calibration)}
    found |= {p.point_id: p for p in calibrated_mixed.predict(points, calibration, MODEL)}
    return [found[p.point_id] for p in points if p.point_id in found]


def _products(
    points: Sequence[PlanPoint], recipe: str, calibration: Calibration
) -> list[Prediction]:
    if not points:
        return []
    m, n, k = (np.array([float(p.shape[axis]) for p in points]) for axis in "mnk")
    parts = product_parts(calibration, recipe, m, n, k)
    factors = interval_factors(calibration, recipe, n, k)
    return [
        Prediction(
            point_id=point.point_id,
            model=MODEL,
            math_s=float(max(parts.tiles[i], parts.power[i])),
            dram_s=float(parts.dram[i]),
            link_s=None,
            launch_s=float(parts.launch[i]),
            total_s=float(parts.total[i]),
            low_s=float(parts.total[i] / factors[i]),
            high_s=float(parts.total[i] * factors[i]),
            bound_by=bound,
        )
        for i, (point, bound) in enumerate(zip(points, parts.bound_by, strict=True))
    ]


def cast_providers(calibration: Calibration, recipe: str) -> list[str]:
    """Providers whose casts of a recipe were calibrated."""
    names = [name.split(".") for name in calibration.constants if name.endswith(".cast_family")]
    return [provider for _, provider, found, _ in names if found == recipe]


def cast_times(sources: Sources, provider: str, recipe: str, rows: Array, cols: Array) -> Times:
    """Seconds of casts with intervals; raises KeyError for a pair that was not calibrated."""
    calibration = sources.calibration
    if calibration is None or provider not in cast_providers(calibration, recipe):
        raise KeyError(f"{provider}.{recipe}")
    parts = _cast_parts(calibration, provider, recipe, rows, cols)
    factor = np.exp(calibration.probe_errors[f"cast.{provider}.{recipe}"]["log_p95"])
    total = parts.total
    return Times(total=total, low=total / factor, high=total * factor, bound_by=parts.bound_by)


def _cast_parts(
    calibration: Calibration, provider: str, recipe: str, rows: Array, cols: Array
) -> cast_model.Parts:
    value = {name: constant.value for name, constant in calibration.constants.items()}
    prefix = f"cast.{provider}.{recipe}."
    family = cast_model.BY_CODE[int(value[f"{prefix}cast_family"])]
    constants = {name: value[prefix + name] for name in cast_model.CONSTANTS}
    cache = value.get("cache_bytes", 0.0)
    return cast_model.evaluate(constants, recipe, rows, cols, family, cache)


def _casts(points: Sequence[PlanPoint], calibration: Calibration) -> list[Prediction]:
    found = (_cast(point, calibration) for point in points)
    return [prediction for prediction in found if prediction is not None]


def _cast(point: PlanPoint, calibration: Calibration) -> Prediction | None:
    """The provider's time; of the fastest provider where the point names none."""
    known = cast_providers(calibration, point.recipe)
    asked = [name for name in known if point.provider in ("", name)]
    rows, cols = (np.array([float(point.shape[axis])]) for axis in ("rows", "cols"))
    every = [
        (cast_times(Sources(calibration=calibration), name, point.recipe, rows, cols), name)
        for name in asked
    ]
    if not every:
        return None
    times, name = min(every, key=lambda pair: float(pair[0].total[0]))
    parts = _cast_parts(calibration, name, point.recipe, rows, cols)
    return Prediction(
        point_id=point.point_id,
        model=MODEL,
        math_s=None,
        dram_s=float(parts.moving[0]),
        link_s=None,
        launch_s=float(parts.fixed[0]),
        total_s=float(times.total[0]),
        low_s=float(times.low[0]) if times.low is not None else None,
        high_s=float(times.high[0]) if times.high is not None else None,
        bound_by=times.bound_by[0],
    )
