"""The calibrated model of matrix products: constants and equations by provider and recipe.

Constants `gemm.<provider>.<recipe>.*` of a calibration, equations of roofcal.ops.gemm.model. A
product's interval is prediction * exp(+-e), where e is the 95th percentile of |log error| on probes
that were left out of the fit (shapes with rows off 16 bytes have an e of their own).

Who multiplies where nobody is named: a point is answered for the fastest provider that was
calibrated, as casts are. Vectors (`product_times` of the models) are answered for one provider
throughout, `fitted.default_provider`: recipes that are compared by them then run in one library.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Times
from roofcal.ops.gemm.fitted import FAMILY, OP, pairs, providers
from roofcal.ops.gemm.model import (
    ALIGNED_BYTES,
    BY_CODE,
    CONSTANTS,
    Parts,
    describe,
    evaluate,
    row_alignment,
)
from roofcal.ops.mixed_gemm import predict as calibrated_mixed

Array = NDArray[np.float64]
_OPS: Final = (OP, calibrated_mixed.OP)  # contenders of the latter are products too
_CHUNK: Final = 128  # shapes at once, 250 choices of tile and split each: fits a 256 KiB cache


def recipes(calibration: Calibration) -> list[str]:
    """Recipes of products a calibration has constants of, by any provider."""
    return list(dict.fromkeys(recipe for _, recipe in pairs(calibration.constants)))


def times(
    calibration: Calibration, provider: str, recipe: str, sizes: tuple[Array, Array, Array]
) -> Times:
    """Seconds of products of sizes (m, n, k) with intervals; KeyError for a pair not calibrated."""
    found = parts(calibration, provider, recipe, sizes)
    factors = interval_factors(calibration, provider, recipe, *sizes[1:])
    total = found.total
    return Times(total=total, low=total / factors, high=total * factors, bound_by=found.bound_by)


def parts(
    calibration: Calibration, provider: str, recipe: str, sizes: tuple[Array, Array, Array]
) -> Parts:
    """Parts of products of sizes (m, n, k); raises KeyError for a pair that was not calibrated."""
    prefix, known = f"{OP}.{provider}.{recipe}.", calibration.constants
    if prefix + FAMILY not in known:
        raise KeyError(f"{provider}.{recipe}")
    family = BY_CODE[int(known[prefix + FAMILY].value)]
    constants = {name: known[prefix + name].value for name in CONSTANTS if prefix + name in known}
    units = int(known["compute_units"].value)
    m, n, k = sizes
    chunks = [
        evaluate(constants, describe(recipe, m[s], n[s], k[s], family, units), family)
        for s in (slice(i, i + _CHUNK) for i in range(0, max(1, len(m)), _CHUNK))
    ]
    joined = {f: np.concatenate([getattr(c, f) for c in chunks]) for f in Parts.__slots__}
    return Parts(**joined)


def interval_factors(
    calibration: Calibration, provider: str, recipe: str, n: Array, k: Array
) -> Array:
    """exp(e) of every shape: a prediction times and divided by it is its 95 % interval."""
    errors = calibration.probe_errors[f"{OP}.{provider}.{recipe}"]
    fast = errors["log_p95"]
    slow = errors.get("log_p95_unaligned", fast)
    factors: Array = np.exp(np.where(row_alignment(recipe, n, k) == ALIGNED_BYTES, fast, slow))
    return factors


def predict(points: Sequence[PlanPoint], calibration: Calibration, model: str) -> list[Prediction]:
    """A prediction per product whose provider and recipe were calibrated."""
    found: list[Prediction] = []
    for recipe in recipes(calibration):
        known = providers(calibration.constants, recipe)
        some = [p for p in points if p.op in _OPS and p.recipe == recipe]
        for asked in sorted({point.provider for point in some}):
            own = [point for point in some if point.provider == asked]
            every = [
                _of_provider(own, provider, calibration, model)
                for provider in known
                if asked in ("", provider)
            ]
            found += [min(of_point, key=_seconds) for of_point in zip(*every, strict=True)]
    return found


def _seconds(prediction: Prediction) -> float:
    return prediction.total_s


def _of_provider(
    points: Sequence[PlanPoint], provider: str, calibration: Calibration, model: str
) -> list[Prediction]:
    """Predictions of points of one recipe by the constants of a provider."""
    recipe = points[0].recipe
    m, n, k = (np.array([float(p.shape[axis]) for p in points]) for axis in "mnk")
    found = parts(calibration, provider, recipe, (m, n, k))
    factors = interval_factors(calibration, provider, recipe, n, k)
    return [
        Prediction(
            point_id=point.point_id,
            model=model,
            math_s=float(max(found.tiles[i], found.power[i])),
            dram_s=float(found.dram[i]),
            link_s=None,
            launch_s=float(found.launch[i]),
            total_s=float(found.total[i]),
            low_s=float(found.total[i] / factors[i]),
            high_s=float(found.total[i] * factors[i]),
            bound_by=bound,
        )
        for i, (point, bound) in enumerate(zip(points, found.bound_by, strict=True))
    ]
