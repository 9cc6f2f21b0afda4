"""The calibrated model: constants fitted on probes, equations of the ops.

Every op with a `predict_calibrated` in its model.py answers for its own points.
"""

from collections.abc import Sequence

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops import STUDY_OPS
from roofcal.ops.cast import model as casts
from roofcal.ops.constants import calibrated_providers, load_part
from roofcal.ops.gemm import model as products
from roofcal.ops.mixed_gemm import model as narrow_products
from roofcal.ops.probe_link.model import Fabrics, calibrated_fabrics
from roofcal.ops.time_models import Sources

MODEL = "calibrated"


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes of op gemm that were calibrated."""
    return tuple(products.calibrated_recipes(sources.calibration)) if sources.calibration else ()


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds with intervals, of the default provider (ops.gemm.model).

    Raises KeyError for a recipe that was not calibrated.
    """
    constants = _calibration(sources, recipe).constants
    provider = products.default_provider(constants, recipe)
    return products_by(sources, provider, recipe, m, n, k)


def products_by(
    sources: Sources, provider: str, recipe: str, m: Array, n: Array, k: Array
) -> Times:
    """Seconds with intervals; raises KeyError for a pair that was not calibrated."""
    calibration = _calibration(sources, f"{provider}.{recipe}")
    return products.product_times(calibration, provider, recipe, (m, n, k))


def narrow_times(
    sources: Sources, provider: str, recipe: str, m: Array, n: Array, k: Array
) -> Times:
    """Seconds of products with narrow weights; raises KeyError for a pair not calibrated."""
    calibration = _calibration(sources, f"{provider}.{recipe}")
    return narrow_products.product_times(calibration, provider, recipe, (m, n, k))


def cast_providers(calibration: Calibration, recipe: str) -> list[str]:
    """Providers whose casts of a recipe were calibrated."""
    return calibrated_providers(calibration.constants, "cast", recipe)


def cast_times(sources: Sources, provider: str, recipe: str, rows: Array, cols: Array) -> Times:
    """Seconds of casts with intervals; raises KeyError for a pair that was not calibrated."""
    calibration = _calibration(sources, f"{provider}.{recipe}")
    return casts.cast_times(calibration, provider, recipe, rows, cols)


def moving_times(sources: Sources, provider: str, recipe: str, rows: Array, cols: Array) -> Times:
    """Seconds that casts take to move their bytes; raises KeyError as cast_times does."""
    calibration = _calibration(sources, f"{provider}.{recipe}")
    return casts.moving_times(calibration, provider, recipe, rows, cols)


def fabrics(sources: Sources, world_size: int) -> Fabrics | None:
    """The link among so many devices; None where its all-gather was not calibrated."""
    calibration = sources.calibration
    return None if calibration is None else calibrated_fabrics(calibration, world_size)


def _calibration(sources: Sources, constants: str) -> Calibration:
    """That of the sources; raises KeyError with the constants that lack one."""
    if sources.calibration is None:
        raise KeyError(constants)
    return sources.calibration


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the calibration has constants for, in the order of the points."""
    if sources.calibration is None:
        return []
    answers: dict[str, Prediction] = {}
    for op in STUDY_OPS:
        predict_calibrated = getattr(load_part(op, "model"), "predict_calibrated", None)
        if predict_calibrated is not None:
            own = [point for point in points if point.op == op.name]
            predictions = predict_calibrated(own, sources.calibration, MODEL)
            answers |= {prediction.point_id: prediction for prediction in predictions}
    return [answers[point.point_id] for point in points if point.point_id in answers]
