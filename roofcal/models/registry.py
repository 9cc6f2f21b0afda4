"""The models of time by name: modules of this package, each a roofcal.ops.time_models.Model."""

from collections.abc import Sequence
from typing import Final

from roofcal.core.environments import origin_environment
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models import calibrated, datasheet
from roofcal.models.errors import PredictError
from roofcal.models.torchao import model as torchao
from roofcal.models.wave import model as wave
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.constants import load_part
from roofcal.ops.time_models import Model, Sources

_ALL: Final[tuple[Model, ...]] = (datasheet, torchao, wave, calibrated)
MODELS: Final[dict[str, Model]] = {model.MODEL: model for model in _ALL}


def model_named(name: str) -> Model:
    """The model of a name; raises PredictError with the names there are.

    The name of a transferred model (roofcal.core.environments) is none of them: it says how a run
    was predicted.
    """
    origin = origin_environment(name)
    if origin is not None:
        raise PredictError(
            f"'{name}' is model calibrated of an environment: --environment {origin}"
        )
    if name not in MODELS:
        raise PredictError(f"unknown model '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name]


def predict_points(model: Model, points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that a model can answer, of any op, in the order of the points.

    A point whose provider refuses its shape has no time, and so no prediction. Points that name no
    provider are not checked. Points that a model does not answer by itself are put together from
    its answers to parts of them, by the ops with a `predict_composed` in their model.py.
    """
    points = [
        point
        for point in points
        if not point.provider or BY_NAME[point.op].takes(point.provider, point.recipe, point.shape)
    ]
    answers = {prediction.point_id: prediction for prediction in model.predict(points, sources)}
    for op in OPS:
        part = load_part(op, "model") if op.role == "study" else None
        predict_composed = getattr(part, "predict_composed", None)
        if predict_composed is not None:
            own = [p for p in points if p.op == op.name and p.point_id not in answers]
            predictions = predict_composed(model, own, sources)
            answers |= {prediction.point_id: prediction for prediction in predictions}
    return [answers[point.point_id] for point in points if point.point_id in answers]
