"""Calibrations by device: those measured on this machine, else published ones."""

from collections.abc import Sequence
from pathlib import Path

from roofcal.core.environments import version_key
from roofcal.core.jsonl import read_records
from roofcal.core.names import did_you_mean
from roofcal.core.records import Calibration
from roofcal.models.errors import PredictError
from roofcal.ops.constants import missing_constants, names_without_provider


def find_calibration(
    device: str, environment: str | None, published: Path, results: Path
) -> tuple[Path, Calibration]:
    """(run folder, calibration) of a device, measured here or else published.

    The latest environment where there are several: the highest driver, torch and triton versions
    in its name. Raises PredictError with what there is where nothing matches, and for a file that
    holds no calibration of the device.
    """
    paths = [
        path
        for root in (published, results / "replay", results)
        # later versions of driver, torch and triton last
        for path in sorted(
            root.glob("*/*/calibration.jsonl"), key=lambda path: version_key(path.parent.name)
        )
    ]
    matching = [
        path
        for path in paths
        if path.parent.parent.name == device and environment in (None, path.parent.name)
    ]
    if not matching:
        raise PredictError(_no_match(device, environment, paths))
    return matching[-1].parent, read_calibration(matching[-1], device)


def read_calibration(path: Path, device: str | None) -> Calibration:
    """The calibration in a file, of `device` where one is named.

    Raises PredictError where there is none, it is another device's, or it was fitted by a roofcal
    that did not tell providers of products apart or knew fewer constants of a model; RecordsError
    for a bad file.
    """
    calibrations = read_records(path, Calibration)
    if not calibrations:
        raise PredictError(f"{path}: holds no calibration; delete it and run `make study` again")
    calibration = calibrations[0]
    if device not in (None, calibration.device):
        raise PredictError(
            f"{path} was fitted on {calibration.device}, not on {device}; "
            "give the calibration of that device"
        )
    _check_constants(path, calibration)
    return calibration


def _check_constants(path: Path, calibration: Calibration) -> None:
    """Raises PredictError for the calibration of an older roofcal, with the way to fit it again."""
    nameless = names_without_provider(calibration.constants)
    missing = missing_constants(calibration.constants)
    if nameless:
        name = min(nameless)
        problem = (
            f"{name} does not say whose products it is of: an older roofcal fitted it. "
            f"Names are {name.split('.')[0]}.<provider>.<recipe>.<constant> now: run"
        )
    elif missing:
        problem = f"{missing[0]} is missing: an older roofcal fitted it. Run"
    else:
        return
    raise PredictError(
        f"{path}: {problem} `make study` again, which fits what is under results/ from its records,"
        f" or fit again: python -m roofcal calibrate --run {path.parent} --out FILE"
    )


def _no_match(device: str, environment: str | None, paths: Sequence[Path]) -> str:
    devices = sorted({path.parent.parent.name for path in paths})
    if not devices:
        return f"no calibration of {device} or any other device; run `make study` first"
    if device not in devices:
        hint = did_you_mean(device, devices)
        return (
            f"no calibration of device '{device}'{hint} There are: {', '.join(devices)}; other "
            "models of time need none: wave, torchao, datasheet (--model, of llm --by)"
        )
    names = sorted({path.parent.name for path in paths if path.parent.parent.name == device})
    return f"{device} has no environment '{environment}'; there are: {', '.join(names)}"
