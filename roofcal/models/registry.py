"""The models of time by name, and every model on the points that are asked of it.

Models are modules of this package, each a roofcal.ops.time_models.Model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import origin_environment, transferred_model
from roofcal.core.jsonl import read_plan
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.models import calibrated, datasheet, torchao
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.models.wave import model as wave
from roofcal.ops import BY_NAME, STUDY_OPS, point_problem
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
    for op in STUDY_OPS:
        predict_composed = getattr(load_part(op, "model"), "predict_composed", None)
        if predict_composed is not None:
            own = [p for p in points if p.op == op.name and p.point_id not in answers]
            predictions = predict_composed(model, own, sources)
            answers |= {prediction.point_id: prediction for prediction in predictions}
    return [answers[point.point_id] for point in points if point.point_id in answers]


def predict_run(
    run: Path,
    calibration: Path,
    op: str,
    spec: DeviceSpec | None,
    *,
    also: Sequence[Path] = (),
) -> list[Prediction]:
    """Predictions of the timed points of one op of a run folder, by each model that can.

    spec: the device's file in config/devices, where it has one.
    also: calibrations of the device in other environments, each a model of its own, named by
    roofcal.core.environments.transferred_model; their predictions come last. Raises PredictError
    where there is no plan, a calibration is another device's, or two are of one environment;
    RecordsError for bad files.
    """
    files = RunFolder.at(run)
    if not files.plan_file(op).is_file():
        raise PredictError(f"{files.plan_file(op)}: no such plan; the run has not planned op {op}")
    planned = read_plan(files, op, point_problem)
    points = [point for point in planned if point.protocol.method != "accuracy"]
    own = read_calibration(calibration, points[0].device if points else None)
    sources = Sources(calibration=own, spec=spec)
    predictions = [p for model in MODELS.values() for p in predict_points(model, points, sources)]
    for other in _other_calibrations(also, own):
        name = transferred_model(other.environment_id)
        transferred = predict_points(calibrated, points, Sources(calibration=other))
        predictions += (replace(prediction, model=name) for prediction in transferred)
    return predictions


def _other_calibrations(paths: Iterable[Path], own: Calibration) -> Iterator[Calibration]:
    """The calibrations in files: of the device of `own`, each of another environment."""
    environments = {own.environment_id}
    for path in paths:
        calibration = read_calibration(path, own.device)
        if calibration.environment_id in environments:
            raise PredictError(
                f"--also {path}: environment {calibration.environment_id} predicts this run "
                "already; give calibrations of other environments, one of each"
            )
        environments.add(calibration.environment_id)
        yield calibration
