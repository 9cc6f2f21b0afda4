"""One made-up run, its analysis and its page, made once for all tests of the report."""

from pathlib import Path

import pytest

from roofcal.core.devices import DeviceSpec, load_devices
from roofcal.points.run import Run, load_run
from roofcal.report.chapter import Chapter
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.write import write_report
from tests.made_once import make_once
from tests.paths import ROOT
from tests.roofcal.report.chapters import ANCHOR
from tests.roofcal.report.gathers import gathered_run
from tests.roofcal.report.linears import linear_run
from tests.roofcal.report.narrow import narrow_run
from tests.roofcal.report.synthetic import CPU, bare_run, whole_run
from tests.roofcal.report.transferred import transferred_run

DEVICES = ROOT / "config" / "devices"


@pytest.fixture(scope="session")
def h200() -> DeviceSpec:
    """The datasheet of the device that the made-up run says it is."""
    return load_devices(DEVICES)["nvidia-h200"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole made-up run."""
    made_up = whole_run()
    results = make_once(tmp_path_factory, "whole-run", made_up.write)
    return results / made_up.environment.device / made_up.environment.environment_id


@pytest.fixture(scope="session")
def run(folder: Path) -> Run:
    """The whole made-up run."""
    return load_run(folder)


@pytest.fixture(scope="session")
def analysis(run: Run, h200: DeviceSpec) -> Analysis:
    """Its tables."""
    return analyse(run, h200)


@pytest.fixture(scope="session")
def chapter(analysis: Analysis) -> Chapter:
    """Its chapter."""
    return Chapter(analysis, ANCHOR)


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CPU run with next to nothing: no calibration, no prediction, no datasheet, an empty op."""
    results = make_once(tmp_path_factory, "bare-run", bare_run().write)
    return results / CPU.device / CPU.environment_id


@pytest.fixture(scope="session")
def bare_analysis(bare: Path) -> Analysis:
    """Its tables."""
    return analyse(load_run(bare), None)


@pytest.fixture(scope="session")
def gathers(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    """The made-up run of gathers."""
    return gathered_run().analysed(tmp_path_factory.mktemp("gathers"), h200)


@pytest.fixture(scope="session")
def linears(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    """The made-up run of linears."""
    return linear_run().analysed(tmp_path_factory.mktemp("linears"), h200)


@pytest.fixture(scope="session")
def narrowed(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    """The made-up run with narrow weights."""
    return narrow_run().analysed(tmp_path_factory.mktemp("narrow"), h200)


@pytest.fixture(scope="session")
def transferred(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    """The made-up run that calibrations of other environments predict, too."""
    return transferred_run().analysed(tmp_path_factory.mktemp("transferred"), h200)


@pytest.fixture(scope="session")
def report(folder: Path, bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of both runs, which tests read and leave as it is."""

    def draw(out: Path) -> None:
        write_report([(bare, None), (folder, folder)], out / "report.html", DEVICES)

    return make_once(tmp_path_factory, "report", draw) / "report.html"
