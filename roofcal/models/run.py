"""Every model on every timed study point of a run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.models import calibrated, composed
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS
from roofcal.models.sources import Sources


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
    planned = read_records(plan_file(run, op), PlanPoint)
    points = [point for point in planned if point.protocol.method != "accuracy"]
    devices = sorted({point.device for point in points})
    if len(devices) > 1:
        raise PredictError(f"{run}/plan: is for several devices: {', '.join(devices)}")
    fitted = read_calibration(calibration, devices[0] if devices else None)
    sources = Sources(calibration=fitted, spec=spec)
    found = [p for model in MODELS.values() for p in composed.predict(model, points, sources)]
    others = _of_other_environments(also, fitted)
    return [*found, *(p for other in others for p in _transferred(points, other))]


def _of_other_environments(paths: Iterable[Path], own: Calibration) -> Iterator[Calibration]:
    """The calibrations in files: of the device of `own`, each of another environment."""
    known = {own.environment_id}
    for path in paths:
        found = read_calibration(path, own.device)
        if found.environment_id in known:
            raise PredictError(
                f"--also {path}: environment {found.environment_id} predicts this run already; "
                "give calibrations of other environments, one of each"
            )
        known.add(found.environment_id)
        yield found


def _transferred(points: Sequence[PlanPoint], calibration: Calibration) -> list[Prediction]:
    name = transferred_model(calibration.environment_id)
    made = composed.predict(calibrated, points, Sources(calibration=calibration))
    return [replace(prediction, model=name) for prediction in made]


def plan_file(run: Path, op: str) -> Path:
    """The plan of an op in a run folder, compressed or not; raises PredictError without one."""
    for suffix in (".jsonl", ".jsonl.gz"):
        path = run / "plan" / f"{op}{suffix}"
        if path.is_file():
            return path
    raise PredictError(f"{run}/plan/{op}.jsonl: no such plan; the run has not planned op {op}")
