"""The list in the package's docstring is what running both variants gives."""

import pytest

import roofcal.models.wave
from roofcal.models.wave.deviations import Deviation, deviations
from roofcal.models.wave.notebook.device import load_notebook_device

FOUND = deviations(load_notebook_device())


@pytest.mark.parametrize("deviation", FOUND, ids=lambda d: d.name)
def test_the_docstring_lists_each_with_its_size(deviation: Deviation) -> None:
    lines = [line.strip() for line in (roofcal.models.wave.__doc__ or "").splitlines()]
    assert deviation.line in lines
    assert deviation.notebook != deviation.corrected


def test_the_docstring_lists_no_other() -> None:
    doc = roofcal.models.wave.__doc__ or ""
    listed = [line for line in doc.splitlines() if line[:4].isspace() and line[4:5].strip()]
    assert len(listed) == len(FOUND)
