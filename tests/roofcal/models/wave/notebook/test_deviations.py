"""The table of docs/models.md is what running both variants of each formula gives."""

import re

import pytest

from roofcal.models.wave.notebook.device import load_notebook_device
from tests.paths import ROOT
from tests.roofcal.models.wave.notebook.deviations import Deviation, deviations

PAGE = (ROOT / "docs/models.md").read_text("utf-8")
DEVIATIONS = deviations(load_notebook_device())


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda d: d.name)
def test_the_page_lists_each_with_its_size_and_a_reason(deviation: Deviation) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {deviation.name} |")]
    assert row.startswith(deviation.table_row)
    assert len(row.removeprefix(deviation.table_row)) > 10
    assert deviation.notebook != deviation.corrected


def test_the_page_lists_no_other() -> None:
    section = PAGE.split("### Where it differs from the notebook")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!figure|---).*$", section, flags=re.MULTILINE)
    assert len(rows) == len(DEVIATIONS)
