"""The calibrated model for op mixed_gemm: three roofs per provider and recipe.

Constants `mixed_gemm.<provider>.<recipe>.*` of a calibration, equations of
roofcal.ops.mixed_gemm.model. bf16 and fp8 contenders are products of op gemm and predicted as
those are. A point without a provider is answered for the fastest that was calibrated.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.ops.mixed_gemm import fitted

OP: Final = fitted.OP


def providers(calibration: Calibration, recipe: str) -> list[str]:
    """Providers whose products of a recipe of narrow weights were calibrated."""
    return [provider for provider, found in fitted.pairs(calibration.constants) if found == recipe]


def predict(points: Sequence[PlanPoint], calibration: Calibration, model: str) -> list[Prediction]:
    """A prediction per point of op mixed_gemm whose provider and recipe were calibrated."""
    found = (_one(point, calibration, model) for point in points if point.op == OP)
    return [prediction for prediction in found if prediction is not None]


def _one(point: PlanPoint, calibration: Calibration, model: str) -> Prediction | None:
    known = providers(calibration, point.recipe)
    m, n, k = (np.array([float(point.shape[axis])]) for axis in "mnk")
    every = [
        (fitted.parts(calibration.constants, provider, point.recipe, (m, n, k)), provider)
        for provider in known
        if point.provider in ("", provider)
    ]
    if not every:
        return None
    best, provider = min(every, key=lambda pair: float(pair[0].total[0]))
    errors = calibration.probe_errors[f"{OP}.{provider}.{point.recipe}"]
    factor = float(np.exp(errors["log_p95"]))
    total = float(best.total[0])
    return Prediction(
        point_id=point.point_id,
        model=model,
        math_s=float(best.math[0] + best.slots[0]),
        dram_s=float(best.dram[0]),
        link_s=None,
        launch_s=float(best.fixed[0]),
        total_s=total,
        low_s=total / factor,
        high_s=total * factor,
        bound_by=best.bound_by[0],
    )
