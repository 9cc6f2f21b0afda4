"""The devices that can be asked about: measured ones, and those with a datasheet alone."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from roofcal.ask.answers import Answer, filled
from roofcal.ask.names import device_ids
from roofcal.core import paths
from roofcal.core.devices import load_devices
from roofcal.core.paths import RunFolder
from roofcal.models import calibrated, datasheet, torchao
from roofcal.models.calibrations import calibrated_runs
from roofcal.models.wave import model as wave
from roofcal.ops import BY_NAME


def device_rows() -> list[dict[str, Any]]:
    """Devices by their ids, as JSON values.

    memory_bytes: None without a datasheet. models: the models of time that answer. environments:
    the calibrated ones with the ops of the study that were measured there, the default first.
    published: whether its records are, derived again here or not.
    """
    specs, runs = load_devices(paths.DEVICES), calibrated_runs(paths.PUBLISHED, paths.RESULTS)
    rows, published = [], (paths.PUBLISHED, paths.REPLAY)
    for device in device_ids():
        spec = specs.get(device)
        own = [run for run in runs if run.device == device]
        models = {
            calibrated.MODEL: own,
            wave.MODEL: spec and spec.wave,
            torchao.MODEL: spec,
            datasheet.MODEL: spec,
        }
        rows.append(
            {
                "device": device,
                "memory_bytes": spec.dram_bytes if spec else None,
                "models": [model for model, known in models.items() if known],
                "environments": [
                    {
                        "environment": run.environment_id,
                        "folder": run.folder.as_posix(),
                        "published": any(map(run.folder.is_relative_to, published)),
                        "ops": _studied_ops(run),
                    }
                    for run in own
                ],
            }
        )
    return rows


def _studied_ops(run: RunFolder) -> list[str]:
    """Ops of the study that were measured.

    A wheel has the plans of publications alone, and what is derived again predictions alone.
    """
    names = run.measured_ops() or run.planned_ops() or run.predicted_ops()
    return [name for name, op in BY_NAME.items() if op.role == "study" and name in names]


class Devices(Answer):
    """The devices that can be asked about."""

    @cached_property
    def answer(self) -> list[dict[str, Any]]:
        """The rows of `device_rows`."""
        return device_rows()

    def rows(self) -> list[dict[str, Any]]:
        """A row per device."""
        return self.answer

    def parts(self) -> Iterator[str | list[str]]:
        """Measured devices with their environments first."""
        width = max((len(row["device"]) for row in self.answer), default=0)
        measured, described = ["measured:"], ["described by a datasheet alone:"]
        for row in self.answer:
            memory = filled("{memory_bytes:GB.0f} GB", row)
            line = f"  {row['device']:{width}}  {memory:>6}  --model {', '.join(row['models'])}"
            (measured if row["environments"] else described).append(line)
            for run in row["environments"]:
                place = "published" if run["published"] else "measured here"
                measured.append(f"    {run['environment']} ({place}): {', '.join(run['ops'])}")
        yield from (lines for lines in (measured, described) if lines[1:])
