"""Calibrations by device: those measured on this machine, else published ones."""

import difflib
from pathlib import Path

from roofcal.core.environments import version_key
from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration
from roofcal.models.errors import PredictError
from roofcal.ops.cast.model import CONSTANTS
from roofcal.ops.gemm.fitted import old_names
from roofcal.ops.mixed_gemm import fitted as narrow


def find_calibration(
    device: str, environment: str | None, published: Path, results: Path
) -> tuple[Path, Calibration]:
    """(run folder, calibration) of a device, measured here or else published.

    The latest environment where there are several: the highest driver, torch and triton versions
    in its name. Raises PredictError with what there is where nothing matches, and for a file that
    holds no calibration of the device.
    """
    roots = (published, results / "replay", results)
    found = [path for root in roots for path in _calibrations(root)]
    matching = [
        path
        for path in found
        if path.parent.parent.name == device and environment in (None, path.parent.name)
    ]
    if not matching:
        raise PredictError(_nothing(device, environment, found))
    path = matching[-1]
    return path.parent, read_calibration(path, device)


def read_calibration(path: Path, device: str | None) -> Calibration:
    """The calibration in a file, of `device` where one is named.

    Raises PredictError where there is none, it is another device's, or it was fitted by a roofcal
    that did not tell providers of products apart or knew fewer constants of a model; RecordsError
    for a bad file.
    """
    found = read_records(path, Calibration)
    if not found:
        raise PredictError(f"{path}: holds no calibration; delete it and run `make study` again")
    if device not in (None, found[0].device):
        raise PredictError(
            f"{path} was fitted on {found[0].device}, not on {device}; "
            "give the calibration of that device"
        )
    _check_names(path, found[0])
    _check_complete(path, found[0])
    return found[0]


def _calibrations(root: Path) -> list[Path]:
    """Those below a folder, later versions of driver, torch and triton last."""
    found = root.glob("*/*/calibration.jsonl")
    return sorted(found, key=lambda path: version_key(path.parent.name))


def _check_names(path: Path, calibration: Calibration) -> None:
    """Raises PredictError for constants of products without the provider they were fitted on."""
    old = old_names(calibration.constants)
    if old:
        raise PredictError(
            f"{path}: {min(old)} does not say whose products it is of: an older roofcal fitted it. "
            "Names are gemm.<provider>.<recipe>.<constant> now: run `make study` again, which fits "
            "what is under results/ from its records, or fit again: "
            f"python -m roofcal calibrate --run {path.parent} --out FILE"
        )


def _check_complete(path: Path, calibration: Calibration) -> None:
    """Raises PredictError for a pair without a constant that its equation has by now."""
    known = calibration.constants
    pairs = dict.fromkeys(".".join(name.split(".")[:3]) for name in known)
    wanted = {"cast": CONSTANTS, narrow.OP: (narrow.FAMILY,)}
    missing = [
        f"{pair}.{constant}"
        for pair in pairs
        for constant in wanted.get(pair.split(".")[0], ())
        if f"{pair}.{constant}" not in known
    ]
    if missing:
        raise PredictError(
            f"{path}: {missing[0]} is missing: an older roofcal fitted it. Run `make study` again, "
            "which fits what is under results/ from its records, or fit again: "
            f"python -m roofcal calibrate --run {path.parent} --out FILE"
        )


def _nothing(device: str, environment: str | None, found: list[Path]) -> str:
    devices = sorted({path.parent.parent.name for path in found})
    if not devices:
        return f"no calibration of {device} or any other device; run `make study` first"
    if device not in devices:
        close = difflib.get_close_matches(device, devices, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        return f"no calibration of device '{device}'{hint} There are: {', '.join(devices)}"
    names = sorted({path.parent.name for path in found if path.parent.parent.name == device})
    return f"{device} has no environment '{environment}'; there are: {', '.join(names)}"
