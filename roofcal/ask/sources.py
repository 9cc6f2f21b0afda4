"""What a model of time reads of a device, looked up in config/ and in the calibrations at hand."""

import warnings
from pathlib import Path

from roofcal.core import paths
from roofcal.core.devices import DeviceSpec, load_device, load_devices
from roofcal.core.names import did_you_mean, with_short_names
from roofcal.models import calibrated
from roofcal.models.calibrations import find_calibration
from roofcal.models.errors import CalibrationWarning, PredictError
from roofcal.models.registry import model_named
from roofcal.models.wave import model as wave
from roofcal.ops.time_models import Sources


def datasheet(device: str) -> DeviceSpec | None:
    """The datasheet of a device id, or None where nobody wrote one."""
    path = paths.DEVICES / f"{device}.yaml"
    return load_device(path) if path.is_file() else None


def device_sources(device: str, environment: str | None, model: str) -> tuple[Sources, Path]:
    """(what a model of time reads of a device, the file or folder it comes from).

    A calibration comes with the device's datasheet where there is one. Warns where it was fitted on
    a disturbed machine. Raises PredictError for an unknown model, where no calibration matches, for
    the environment of a model that reads no calibration, and as described_device does.
    """
    model_named(model)
    if model == calibrated.MODEL:
        folder, calibration = find_calibration(device, environment, paths.PUBLISHED, paths.RESULTS)
        if reasons := calibration.disturbances:
            more = f" (and {len(reasons) - 1} more)" if reasons[1:] else ""
            warnings.warn(
                f"{folder} was calibrated on a disturbed machine, measure it again: "
                f"{reasons[0]}{more}",
                CalibrationWarning,
                stacklevel=2,
            )
        return Sources(calibration=calibration, spec=datasheet(device)), folder
    if environment is not None:
        raise PredictError(
            f"model '{model}' reads no calibration: leave out the environment '{environment}'"
        )
    return described_device(device, model), paths.DEVICES / f"{device}.yaml"


def described_device(device: str, model: str) -> Sources:
    """The file of a device for a model that reads no calibration.

    Raises PredictError for a device without a file, and where nobody described it for `wave`.
    """
    spec = datasheet(device)
    if model == wave.MODEL and (spec is None or spec.wave is None):
        raise PredictError(wave.missing_description(device, load_devices(paths.DEVICES)))
    if spec is None:
        names = [path.stem for path in paths.DEVICES.glob("*.yaml")]
        all_names = f"; allowed: {', '.join(sorted(names))}"
        hint = did_you_mean(device, with_short_names(names), otherwise=all_names)
        raise PredictError(f"there is no {paths.DEVICES}/{device}.yaml{hint}")
    return Sources(spec=spec)
