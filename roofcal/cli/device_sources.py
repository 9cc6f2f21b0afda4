"""What a model of time reads of a device, found by name below the current folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli import places

if TYPE_CHECKING:
    from roofcal.models.sources import Sources


def device_sources(device: str, environment: str | None, model: str) -> "tuple[Sources, Path]":
    """(what the model reads of the device, where it lies).

    A datasheet costs a tenth of a second to read, and a calibration is not to be had for every
    device: each model gets what it needs. Raises PredictError where no calibration matches and
    where nobody described the device for the wave model.
    """
    from roofcal.models.calibrations import find_calibration
    from roofcal.models.sources import Sources

    if model == "wave":
        return _wave_sources(device)
    if model != "calibrated":
        return Sources(spec=places.datasheet(device)), places.DEVICES / f"{device}.yaml"
    folder, calibration = find_calibration(device, environment, places.PUBLISHED, places.RESULTS)
    return Sources(calibration=calibration), folder


def _wave_sources(device: str) -> "tuple[Sources, Path]":
    from roofcal.core.devices import load_devices
    from roofcal.models.errors import PredictError
    from roofcal.models.sources import Sources
    from roofcal.models.wave.model import missing_description

    specs = load_devices(places.DEVICES)
    spec = specs.get(device)
    if spec is None or spec.wave is None:
        raise PredictError(missing_description(device, specs))
    return Sources(spec=spec), places.DEVICES / f"{device}.yaml"
