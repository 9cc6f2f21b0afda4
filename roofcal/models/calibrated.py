"""The calibrated model: constants fitted on probes, equations of the model of each op.

Products are those of roofcal.ops.gemm.predict and calibrated_mixed. Casts are those of a
provider: equations of roofcal.ops.cast.model; an interval is prediction * exp(+-e), where e is
the 95th percentile of |log error| on probes that were left out of the fit. A point without a
provider is answered for the fastest that was calibrated.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Times
from roofcal.models.sources import Sources
from roofcal.ops.cast import model as cast_model
from roofcal.ops.gemm import predict as calibrated_products
from roofcal.ops.gemm.fitted import default_provider
from roofcal.ops.mixed_gemm import predict as calibrated_mixed

MODEL = "calibrated"
Array = NDArray[np.float64]


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes of op gemm that were calibrated."""
    return tuple(calibrated_products.recipes(sources.calibration)) if sources.calibration else ()


def product_times(
    sources: Sources, recipe: str, m: Array, n: Array, k: Array, *, provider: str = ""
) -> Times:
    """Seconds with intervals, of the default provider (ops.gemm.fitted) where none is named.

    Raises KeyError for a recipe, or one of a provider, that was not calibrated.
    """
    calibration = sources.calibration
    if calibration is None:
        raise KeyError(recipe)
    whose = provider or default_provider(calibration.constants, recipe)
    return calibrated_products.times(calibration, whose, recipe, (m, n, k))


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the calibration has constants for, in the order of the points."""
    if sources.calibration is None:
        return []
    calibration = sources.calibration
    products = calibrated_products.predict(points, calibration, MODEL)
    found = {p.point_id: p for p in products}
    casts = [p for p in points if p.op == "cast"]
    found |= {p.point_id: p for p in _casts(casts, calibration)}
    found |= {p.point_id: p for p in calibrated_mixed.predict(points, calibration, MODEL)}
    return [found[p.point_id] for p in points if p.point_id in found]


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
