"""Calibrations by device: those measured on this machine, else published ones.

config/priors/<architecture>.jsonl says what measured cards of an architecture say of others. It
holds the published cards, each calibrated without any prior and stated as fractions
(roofcal.ops.priors), and one record of the architecture itself, of the environment BETWEEN: how far
cards lie from what the others say of them. `python -m tools.write_priors` makes it from
publications.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from roofcal.core import paths
from roofcal.core.devices import DeviceSpec, load_device
from roofcal.core.environments import version_key
from roofcal.core.jsonl import read_records
from roofcal.core.manifest import NAME as MANIFEST
from roofcal.core.names import did_you_mean, with_short_names
from roofcal.core.paths import DEVICES, RunFolder
from roofcal.core.records import Calibration, PlanPoint
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops import OPS
from roofcal.ops.constants import calibrated_pairs, other_equations
from roofcal.ops.priors import calibration_of_nobody
from roofcal.ops.time_models import Sources

BETWEEN: Final = "between-cards"
_SIDE = 512  # of a matrix that every op takes


def find_calibration(
    device: str, environment: str | None, published: Path, results: Path
) -> tuple[Path, Calibration]:
    """(run folder, calibration) of a device, measured here or else published.

    The latest environment where there are several: the highest driver, torch and triton versions
    in its name. A device that nobody measured and that has a datasheet is answered by cards of its
    architecture, from the file that holds them. Raises PredictError with what there is where
    nothing matches, and for a file that holds no calibration of the device.
    """
    runs = calibrated_runs(published, results)
    for run in runs:
        if run.device == device and environment in (None, run.environment_id):
            return run.folder, read_calibration(run.calibration_file, device)
    datasheet = DEVICES / f"{device}.yaml"
    if datasheet.is_file() and all(run.device != device for run in runs):
        spec = load_device(datasheet)
        by_priors = calibration_of_nobody(cards_like(spec), spec)
        if by_priors is not None and environment in (None, by_priors.environment_id):
            return priors_file(spec), by_priors
    raise PredictError(_no_match(device, environment, runs))


def calibrated_runs(published: Path, results: Path) -> list[RunFolder]:
    """Runs with a calibration, in the order in which they answer.

    Those measured here, then those that were derived again here, then published ones; of each the
    latest versions of driver, torch and triton first.
    """
    files = [
        file
        for root in (results, results / "replay", published)
        for file in sorted(
            root.glob("*/*/calibration.jsonl"),
            key=lambda file: version_key(file.parent.name),
            reverse=True,
        )
    ]
    return [RunFolder.at(file.parent) for file in files]


def read_calibration(path: Path, device: str | None) -> Calibration:
    """The calibration in a file, of `device` where one is named.

    Raises PredictError where there is none, it is another device's, a roofcal with another equation
    fitted it, or it has no time for a pair of provider and recipe that it names; RecordsError for a
    bad file.
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
    _check_equations(path, calibration)
    _check_answers(path, calibration)
    return calibration


def _check_equations(path: Path, calibration: Calibration) -> None:
    """Raises PredictError for the calibration of another roofcal, with the way to fit it again."""
    others = other_equations(calibration)
    if not others:
        return
    parts = [
        f"equation {stated or 'without a number'} of {op}, and this roofcal has equation {here}"
        for op, (stated, here) in others.items()
    ]
    whose = "a newer" if any(stated > here for stated, here in others.values()) else "an older"
    again = f"roofcal calibrate --run {path.parent} --out {path}"
    if (path.parent / MANIFEST).is_file():
        again = f"roofcal publish --again {path.parent}"
    raise PredictError(
        f"{path}: {whose} roofcal fitted it, with {'; '.join(parts)}. Run `make study` again, "
        f"which fits what is under results/ from its records, or fit this one again: {again}"
    )


def _check_answers(path: Path, calibration: Calibration) -> None:
    """Raises PredictError where a pair that the calibration names has no time: 10 ms for 46 pairs.

    Which constants an equation reads depends on the family that one of them names, so the check
    evaluates it. Recipes that this roofcal does not know are left out, as everywhere.
    """
    for op in OPS:
        for provider, recipe in calibrated_pairs(calibration.constants, op.name):
            if op.role != "study" or recipe not in op.recipes:
                continue
            point = PlanPoint(
                op=op.name,
                provider=provider,
                recipe=recipe,
                shape=dict.fromkeys(op.axes, _SIDE),
                device=calibration.device,
            )
            name = f"{path}: {op.name}.{provider}.{recipe}"
            try:
                with np.errstate(all="ignore"):
                    predictions = calibrated.predict([point], Sources(calibration=calibration))
            except (KeyError, IndexError, OverflowError) as error:
                raise PredictError(
                    f"{name} cannot be predicted: {error.args[0]} is missing or unknown; fit it "
                    f"again: roofcal calibrate --run {path.parent} --out FILE"
                ) from None
            ends = [end for p in predictions for end in (p.total_s, p.low_s, p.high_s) if end]
            if not all(map(math.isfinite, ends)):
                raise PredictError(f"{name}: its constants give a time that is no number")


def _no_match(device: str, environment: str | None, runs: Sequence[RunFolder]) -> str:
    devices = sorted({run.device for run in runs})
    if not devices:
        return f"no calibration of {device} or any other device; run `make study` first"
    if device not in devices:
        is_described = (DEVICES / f"{device}.yaml").is_file()
        hint = (
            ", and no card of its architecture was published."
            if is_described
            else did_you_mean(device, with_short_names(devices), otherwise=".")
        )
        return (
            f"no calibration of device '{device}'{hint} There are: {', '.join(devices)}; other "
            "models of time need none: --by wave, torchao or datasheet; `roofcal devices` lists "
            "what they know"
        )
    names = sorted({run.environment_id for run in runs if run.device == device})
    return f"{device} has no environment '{environment}'; there are: {', '.join(names)}"


def cards_like(spec: DeviceSpec | None) -> list[Calibration]:
    """The records of a device's architecture, `cards` of roofcal.ops.priors.

    None without a datasheet, or for an architecture of which no card is published. Raises
    RecordsError for a bad file.
    """
    file = priors_file(spec) if spec else None
    return read_records(file, Calibration) if file and file.is_file() else []


def priors_file(spec: DeviceSpec) -> Path:
    """The file of a device's architecture, whether it exists or not."""
    return paths.PRIORS / f"{spec.architecture}.jsonl"
