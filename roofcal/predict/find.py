"""Calibrations by device: those measured on this machine, else published ones."""

import difflib
from pathlib import Path

from roofcal.predict.errors import PredictError
from roofcal.records import Calibration, read_records


def find_calibration(
    device: str, environment: str | None, published: Path, results: Path
) -> tuple[Path, Calibration]:
    """(run folder, calibration) of a device, measured here or else published.

    The last environment by name where there are several. Raises PredictError with what there is
    where nothing matches.
    """
    roots = (published, results / "replay", results)
    found = [p for root in roots for p in sorted(root.glob("*/*/calibration.jsonl"))]
    matching = [
        path
        for path in found
        if path.parent.parent.name == device and environment in (None, path.parent.name)
    ]
    if not matching:
        raise PredictError(_nothing(device, environment, found))
    path = matching[-1]
    return path.parent, read_records(path, Calibration)[0]


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
