"""Every model on every study point of a run."""

from pathlib import Path

from roofcal.devices import DeviceSpec
from roofcal.predict.errors import PredictError
from roofcal.predict.find import read_calibration
from roofcal.predict.models import MODELS
from roofcal.predict.sources import Sources
from roofcal.predict.wave.device import WaveDevice
from roofcal.records import PlanPoint, Prediction, read_records


def predict_run(
    run: Path,
    calibration: Path,
    op: str,
    spec: DeviceSpec | None,
    wave: WaveDevice | None = None,
) -> list[Prediction]:
    """Predictions of the points of one op of a run folder, by each model that can.

    spec, wave: the device's datasheet and its description for the wave model, where it has them.
    Raises PredictError where there is no plan or the calibration is another device's, RecordsError
    for bad files.
    """
    points = read_records(plan_file(run, op), PlanPoint)
    devices = sorted({point.device for point in points})
    if len(devices) > 1:
        raise PredictError(f"{run}/plan: is for several devices: {', '.join(devices)}")
    fitted = read_calibration(calibration, devices[0] if devices else None)
    sources = Sources(calibration=fitted, spec=spec, wave=wave)
    return [found for model in MODELS.values() for found in model.predict(points, sources)]


def plan_file(run: Path, op: str) -> Path:
    """The plan of an op in a run folder, compressed or not; raises PredictError without one."""
    for suffix in (".jsonl", ".jsonl.gz"):
        path = run / "plan" / f"{op}{suffix}"
        if path.is_file():
            return path
    raise PredictError(f"{run}/plan/{op}.jsonl: no such plan; the run has not planned op {op}")
