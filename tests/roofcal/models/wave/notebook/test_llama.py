"""The figures that the notebook prints of llama-65B, to the printed digit."""

import pytest

from roofcal.models.wave.notebook.device import load_notebook_device
from roofcal.models.wave.notebook.llama import layer_seconds, model_seconds
from tests.roofcal.models.wave.notebook.printed import PRINTED_MS

NOTEBOOK = load_notebook_device()


@pytest.mark.parametrize("rows", PRINTED_MS)
def test_a_layer_prints_what_the_notebook_prints(rows: int) -> None:
    layer = layer_seconds(NOTEBOOK, rows)
    for name, printed in PRINTED_MS[rows].items():
        assert f"{layer[name] * 1e3:.4f}" == printed, name


def test_the_totals_are_the_notebooks() -> None:
    totals = {name: f"{seconds * 1e3:.3f}" for name, seconds in model_seconds(NOTEBOOK).items()}
    assert totals == {"prefill": "41.746", "decode": "1.542", "total": "43.288"}
