"""The calibrated model: constants fitted on probes, equations of the ops.

Every op whose model.py has an equation (roofcal.ops.constants) answers, for points and for vectors
of sizes.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops import BY_NAME, STUDY_OPS
from roofcal.ops.constants import calibrated_providers, load_part
from roofcal.ops.gemm import model as products
from roofcal.ops.predictions import TimesAndParts, answer_of, predict_fastest
from roofcal.ops.probe_link.model import Fabrics, calibrated_fabrics
from roofcal.ops.time_models import Sources, scaled_times

MODEL = "calibrated"
PARTS_ALONE: Final = True


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes of op gemm that were calibrated."""
    return tuple(products.calibrated_recipes(sources.calibration)) if sources.calibration else ()


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds with intervals, of the default provider (ops.gemm.model).

    Raises KeyError for a recipe that was not calibrated.
    """
    constants = sources.calibration.constants if sources.calibration else {}
    return products_by(sources, products.default_provider(constants, recipe), recipe, m, n, k)


def _answer(
    op: str, sources: Sources, provider: str, recipe: str, sizes: Sequence[Array]
) -> TimesAndParts:
    if sources.calibration is None:
        raise KeyError(f"{provider}.{recipe}")
    equation = load_part(BY_NAME[op], "model")
    return answer_of(equation, sources.calibration, provider, recipe, sizes)


def times_of(op: str, sources: Sources, provider: str, recipe: str, *sizes: Array) -> Times:
    """Seconds with intervals, of sizes along the axes of an op.

    Raises KeyError for a pair of provider and recipe that was not calibrated.
    """
    return _answer(op, sources, provider, recipe, sizes).times


products_by: Final = partial(times_of, "gemm")
narrow_times: Final = partial(times_of, "mixed_gemm")
cast_times: Final = partial(times_of, "cast")


def moving_times(sources: Sources, provider: str, recipe: str, rows: Array, cols: Array) -> Times:
    """Seconds that casts take to move their bytes, without starts; intervals as wide as theirs."""
    times, parts = _answer("cast", sources, provider, recipe, (rows, cols))
    moving = scaled_times(times, parts["dram_s"] / times.total)
    return replace(moving, bound_by=["dram"] * len(rows))


def cast_providers(calibration: Calibration, recipe: str) -> list[str]:
    """Providers whose casts of a recipe were calibrated."""
    return calibrated_providers(calibration.constants, "cast", recipe)


def fabrics(sources: Sources, world_size: int) -> Fabrics | None:
    """The link among so many devices; None where its all-gather was not calibrated."""
    calibration = sources.calibration
    return None if calibration is None else calibrated_fabrics(calibration, world_size)


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the calibration has constants for, in the order of the points."""
    if sources.calibration is None:
        return []
    answers: dict[str, Prediction] = {}
    for op in STUDY_OPS:
        equation = load_part(op, "model")
        if hasattr(equation, "FAMILY"):
            own = [point for point in points if point.op == op.name]
            predict_own = partial(predict_fastest, equation)
            predict_own = getattr(equation, "predict_calibrated", predict_own)
            predictions = predict_own(own, sources.calibration, MODEL)
            answers |= {prediction.point_id: prediction for prediction in predictions}
    return [answers[point.point_id] for point in points if point.point_id in answers]
