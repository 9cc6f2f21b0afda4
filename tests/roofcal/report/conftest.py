"""One made-up run, its analysis and its page, made once for all tests of the report."""

from pathlib import Path

import pytest

from roofcal.core.devices import DeviceSpec, load_devices
from roofcal.core.records import Telemetry
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.loading import Run, load_run
from roofcal.report.write import write_report
from tests.paths import ROOT
from tests.roofcal.report.synthetic import (
    CPU,
    MadeUpRun,
    product,
    samples_around,
    true_seconds,
    whole_run,
)

DEVICES = ROOT / "config" / "devices"


@pytest.fixture(scope="session")
def h200() -> DeviceSpec:
    """The datasheet of the device that the made-up run says it is."""
    return load_devices(DEVICES)["nvidia-h200"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole made-up run."""
    return whole_run().write(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def run(folder: Path) -> Run:
    """The whole made-up run."""
    return load_run(folder)


@pytest.fixture(scope="session")
def analysis(run: Run, h200: DeviceSpec) -> Analysis:
    """Its tables."""
    return analyse(run, h200)


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CPU run with next to nothing: no calibration, no prediction, no datasheet, an empty op."""
    made_up = MadeUpRun(CPU)
    for recipe in ("bf16", "int8"):
        point = product(64, 64, 64, recipe, provider="torch_cpu", device=CPU.device)
        made_up.measure(
            point,
            latency_samples_s=samples_around(true_seconds(point)),
            telemetry=Telemetry(),
            warmup_samples=0,
            slice_starts=(0,),
        )
    made_up.points["cast"] = []
    return made_up.write(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def report(folder: Path, bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of both runs."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    write_report([(bare, None), (folder, folder)], out, DEVICES)
    return out
