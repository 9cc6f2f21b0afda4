"""Every model on every timed study point of a run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import read_plan
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, Prediction
from roofcal.models import calibrated
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS, predict_points
from roofcal.ops import point_problem
from roofcal.ops.time_models import Sources


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
