"""A small checkout to run commands in, and the browser that looks at pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.fitting import parallel
from tests.browser import CHROMIUM, Browser, browser
from tests.paths import ROOT
from tests.roofcal.models.runs import calibration
from tests.roofcal.published import write_tables_alone
from tests.roofcal.resamples import draw_few_resamples


@pytest.fixture(autouse=True, scope="session")
def _no_fork_per_fit() -> Iterator[None]:
    """Fits of made-up runs are small, and forking a process that holds torch takes 10 ms and more.

    The other cores have tests of their own. Tests that take `two_cores` fork, and so do commands
    that tests start as processes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "usable_cores", lambda: 1)
        yield


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits and sections of a report in two processes, as on most machines."""
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout with the project's configuration, and a published made-up device."""
    (tmp_path / "config").symlink_to(ROOT / "config")
    folder = tmp_path / "reports/published/made-up/e1"
    write_records(folder / "calibration.jsonl", [calibration()])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def published_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publications of this project, and nothing that was measured on this machine."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("no-results-of-this-machine"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications without the drawing of their page."""
    monkeypatch.setattr("roofcal.publish.freeze.write_report", write_tables_alone)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits whose intervals do not matter, in half the time."""
    draw_few_resamples(monkeypatch)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of pages, which are left out where there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on the PATH")
    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which a package of the dev extra carries."""
    try:
        import axe_core_python
    except ImportError:
        pytest.skip("axe-core-python is not installed: `make test` installs it")
    file = Path(str(axe_core_python.__file__)).with_name("axe.min.js")
    return file.read_text(encoding="utf-8")
