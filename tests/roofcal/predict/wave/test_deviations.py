"""The list in the package's docstring is what running both variants gives."""

from pathlib import Path

import pytest

import roofcal.predict.wave
from roofcal.predict.errors import PredictError
from roofcal.predict.wave.deviations import Deviation, deviations
from roofcal.predict.wave.load import load_wave_device
from tests.roofcal.predict.runs import WAVE

NOTEBOOK = Path(__file__).resolve().parents[4] / "config" / "wave" / "amd-mi300x-notebook.yaml"
FOUND = deviations(load_wave_device(NOTEBOOK))


@pytest.mark.parametrize("deviation", FOUND, ids=lambda d: d.name)
def test_the_docstring_lists_each_with_its_size(deviation: Deviation) -> None:
    lines = [line.strip() for line in (roofcal.predict.wave.__doc__ or "").splitlines()]
    assert deviation.line in lines
    assert deviation.notebook != deviation.corrected


def test_the_docstring_lists_no_other() -> None:
    doc = roofcal.predict.wave.__doc__ or ""
    listed = [line for line in doc.splitlines() if line[:4].isspace() and line[4:5].strip()]
    assert len(listed) == len(FOUND)


def test_a_device_without_the_notebooks_terms_is_refused() -> None:
    with pytest.raises(PredictError, match=r"amd-mi300x-notebook\.yaml"):
        deviations(WAVE)
