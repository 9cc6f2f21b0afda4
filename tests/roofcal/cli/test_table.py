"""`table`: the published points of a device in three formats."""

import csv
import io
import json
from pathlib import Path

import pytest

from roofcal.cli.main import main
from tests.paths import ROOT


@pytest.fixture
def published(checkout: Path) -> None:
    device = checkout / "reports/published/nvidia-h200"
    device.symlink_to(ROOT / "reports/published/nvidia-h200")


def printed(capsys: pytest.CaptureFixture[str], style: str) -> str:
    assert main(["table", "--device", "nvidia-h200", "--op", "cast", "--format", style]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("published")
def test_every_format_has_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "csv"))))
    assert {row["provider"] for row in rows} == {"torch_compile", "triton"}
    assert all(float(row["median_s"]) > 0 for row in rows if row["status"] == "ok")
    assert len(json.loads(printed(capsys, "json"))) == len(rows)
    lines = [line for line in printed(capsys, "markdown").splitlines() if line.startswith("|")]
    assert len(lines) == len(rows) + 2  # its header and the rule below it
