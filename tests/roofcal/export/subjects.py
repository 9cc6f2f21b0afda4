"""The published calibration of the H200, and a made-up one that lacks things."""

from dataclasses import replace
from functools import cache

from roofcal.core.devices import load_device
from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration, Ceiling, Environment
from roofcal.export.subject import Subject
from tests.paths import ROOT
from tests.roofcal.made_up_records import exactly


@cache
def h200() -> Subject:
    (folder,) = (ROOT / "reports/published/nvidia-h200").glob("driver580.159.04-torch2.11.0*")
    return Subject(
        calibration=read_records(folder / "calibration.jsonl", Calibration)[0],
        spec=load_device(ROOT / "config/devices/nvidia-h200.yaml"),
        environment=read_records(folder / "environment.jsonl", Environment)[0],
    )


def rounded() -> Subject:
    """The H200 with two constants of known digits."""
    return with_constants(
        dram_copy_bytes_per_s=exactly(4.2801e12, "B/s", half=0.0141e12),
        launch_eager_s=exactly(15.009e-6, "s", half=0.045e-6),
    )


def with_constants(**constants: Ceiling) -> Subject:
    """The H200 with some constants added or replaced."""
    calibration = h200().calibration
    every = {**calibration.constants, **constants}
    return replace(h200(), calibration=replace(calibration, constants=every))


def without(*names: str) -> Subject:
    """The H200 without the constants whose names hold one of `names`."""
    calibration = h200().calibration
    every = calibration.constants
    kept = {key: every[key] for key in every if not any(name in key for name in names)}
    assert len(kept) < len(every)
    return replace(h200(), calibration=replace(calibration, constants=kept))


def without_fp8() -> Subject:
    return without("gemm.cublaslt.fp8", "gemm.triton.fp8")


def without_sheet() -> Subject:
    return replace(h200(), spec=None)


def without_link() -> Subject:
    sheet = h200().spec
    assert sheet is not None
    return replace(h200(), spec=replace(sheet, link_bytes_per_s=None))


def measured(name: str) -> float:
    return h200().calibration.constants[name].value
