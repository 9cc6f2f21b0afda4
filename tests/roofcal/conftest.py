"""A small checkout to run commands in."""

from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from tests.paths import ROOT
from tests.roofcal.models.runs import calibration


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout with the project's configuration, and a published made-up device."""
    (tmp_path / "config").symlink_to(ROOT / "config")
    folder = tmp_path / "reports/published/made-up/e1"
    write_records(folder / "calibration.jsonl", [calibration()])
    monkeypatch.chdir(tmp_path)
    return tmp_path
