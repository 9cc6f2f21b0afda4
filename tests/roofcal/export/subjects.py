"""The published calibration of the H200, and a made-up one that lacks things."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from roofcal.devices import load_device
from roofcal.export.subject import Subject
from roofcal.records import Calibration, Environment, read_records

ROOT = Path(__file__).resolve().parents[3]


@cache
def h200() -> Subject:
    (folder,) = (ROOT / "reports/published/nvidia-h200").glob("driver580.159.04-torch2.11.0*")
    return Subject(
        calibration=read_records(folder / "calibration.jsonl", Calibration)[0],
        spec=load_device(ROOT / "config/devices/nvidia-h200.yaml"),
        environment=read_records(folder / "environment.jsonl", Environment)[0],
    )


def without(*names: str) -> Subject:
    """The H200 without the constants whose names hold one of `names`."""
    found = h200().calibration
    kept = {k: v for k, v in found.constants.items() if not any(name in k for name in names)}
    assert len(kept) < len(found.constants)
    return replace(h200(), calibration=replace(found, constants=kept))


def without_sheet() -> Subject:
    return replace(h200(), spec=None)


def without_link() -> Subject:
    sheet = h200().spec
    assert sheet is not None
    return replace(h200(), spec=replace(sheet, link_bytes_per_s=None))


def measured(name: str) -> float:
    return h200().calibration.constants[name].value
