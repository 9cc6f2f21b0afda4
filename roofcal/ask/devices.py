"""Devices: what people call them, what a model of time reads of them, and which there are.

`h200` is nvidia-h200. A model of time reads a file of config/devices, or a calibration at hand.
"""

import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from roofcal.ask.answers import Answer, Part, filled
from roofcal.core import paths
from roofcal.core.devices import DeviceSpec, load_device, load_devices
from roofcal.core.names import did_you_mean, is_part, with_short_names
from roofcal.models import calibrated, torchao
from roofcal.models import datasheet as datasheets
from roofcal.models.calibrations import calibrated_runs, find_calibration
from roofcal.models.errors import CalibrationWarning, PredictError
from roofcal.models.registry import model_named
from roofcal.models.wave import model as wave
from roofcal.ops import BY_NAME
from roofcal.ops.priors import PRIOR_OF
from roofcal.ops.time_models import Sources


def device_ids() -> list[str]:
    """Ids of all devices that have a datasheet, a publication or results here, sorted."""
    return sorted({file.stem for file in paths.DEVICES.glob("*.yaml")} | _calibrated_ids())


def _calibrated_ids() -> set[str]:
    """Ids of the devices that have a publication or results here."""
    return {run.device for run in calibrated_runs(paths.PUBLISHED, paths.RESULTS)}


def device_choice(text: str) -> tuple[str, str]:
    """(the id of the device that a person means by all or a part of it, what to say of that).

    `h200` is nvidia-h200, although nvidia-h200-nvl has that part too: a whole id behind the
    vendor comes first. Of several devices the only one that was measured is meant, and the remark
    names the others, because they differ: an H100 of PCIe has half the power of an SXM. The remark
    is "" where there was no choice. A text that fits no device is returned as it is.

    Raises:
        PredictError: the text fits several devices, of which none or several were measured.
    """
    ids, name = device_ids(), text.strip().lower().replace(" ", "-").replace("_", "-")
    if text in ids or not name:
        return text, ""
    fitting = [[i for i in ids if name in (i, i.partition("-")[2])]]
    fitting.append([i for i in ids if is_part(name, i)])
    matches = next((matches for matches in fitting if matches), [text])
    if len(matches) == 1:
        return matches[0], ""
    measured = sorted(_calibrated_ids().intersection(matches))
    if len(measured) == 1:
        others = ", ".join(device for device in matches if device not in measured)
        return measured[0], f"'{text}' is taken as {measured[0]}, which was measured; not {others}"
    which_measured = f"; measured: {', '.join(measured)}" if measured else ""
    raise PredictError(f"'{text}' may be any of: {', '.join(matches)}{which_measured}")


def datasheet(device: str) -> DeviceSpec | None:
    """The datasheet of a device id, or None where nobody wrote one."""
    path = paths.DEVICES / f"{device}.yaml"
    return load_device(path) if path.is_file() else None


def device_sources(device: str, environment: str | None, model: str) -> tuple[Sources, Path]:
    """(what a model of time reads of a device, the file or folder it comes from).

    A calibration comes with the device's datasheet where there is one. Warns where it was fitted on
    a disturbed machine. Raises PredictError for an unknown model, where no calibration matches, for
    the environment of a model that reads no calibration, for a device without a file, and where
    nobody described it for `wave`.
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
        if calibration.environment_id.startswith(PRIOR_OF):
            warnings.warn(
                f"nobody measured {device}: its constants are those of published cards of its "
                f"architecture ({folder.name}), by the datasheets; `make study STUDY=quick` there "
                "measures it",
                CalibrationWarning,
                stacklevel=2,
            )
        return Sources(calibration=calibration, spec=datasheet(device)), folder
    if environment is not None:
        raise PredictError(
            f"model '{model}' reads no calibration: leave out the environment '{environment}'"
        )
    spec = datasheet(device)
    if model == wave.MODEL and (spec is None or spec.wave is None):
        raise PredictError(wave.missing_description(device, load_devices(paths.DEVICES)))
    if spec is None:
        names = [path.stem for path in paths.DEVICES.glob("*.yaml")]
        all_names = f"; allowed: {', '.join(sorted(names))}"
        hint = did_you_mean(device, with_short_names(names), otherwise=all_names)
        raise PredictError(f"there is no {paths.DEVICES}/{device}.yaml{hint}")
    return Sources(spec=spec), paths.DEVICES / f"{device}.yaml"


class Devices(Answer):
    """The devices that can be asked about."""

    @cached_property
    def answer(self) -> list[dict[str, Any]]:
        """Devices by their ids, as JSON values.

        memory_bytes: None without a datasheet. models: the models of time that answer.
        environments: the calibrated ones with the ops of the study that were measured there, the
        default first. published: whether its records are, derived again here or not.
        """
        specs, runs = load_devices(paths.DEVICES), calibrated_runs(paths.PUBLISHED, paths.RESULTS)
        rows, published = [], (paths.PUBLISHED, paths.REPLAY)
        studied = [op.name for op in BY_NAME.values() if op.role == "study"]
        for device in device_ids():
            spec, environments = specs.get(device), []
            for run in runs:
                if run.device != device:
                    continue
                # A wheel has the plans of publications alone, what is derived again predictions.
                ops = run.measured_ops() or run.planned_ops() or run.predicted_ops()
                environments.append(
                    {
                        "environment": run.environment_id,
                        "folder": run.folder.as_posix(),
                        "published": any(map(run.folder.is_relative_to, published)),
                        "ops": [name for name in studied if name in ops],
                    }
                )
            answering = {
                calibrated.MODEL: environments,
                wave.MODEL: spec and spec.wave,
                torchao.MODEL: spec,
                datasheets.MODEL: spec,
            }
            rows.append(
                {
                    "device": device,
                    "memory_bytes": spec.dram_bytes if spec else None,
                    "models": [model for model, known in answering.items() if known],
                    "environments": environments,
                }
            )
        return rows

    def parts(self) -> Iterator[Part]:
        """Measured devices with their environments first."""
        width = max((len(row["device"]) for row in self.answer), default=0)
        measured, described = ["measured:"], ["described by a datasheet alone:"]
        for row in self.answer:
            memory = filled("{memory_bytes:GB.0f} GB", row)
            line = f"  {row['device']:{width}}  {memory:>6}  --by {', '.join(row['models'])}"
            (measured if row["environments"] else described).append(line)
            for run in row["environments"]:
                place = "published" if run["published"] else "measured here"
                measured.append(f"    {run['environment']} ({place}): {', '.join(run['ops'])}")
        yield from (lines for lines in (measured, described) if lines[1:])
