"""The figures that the notebook prints of llama-65B, to the printed digit."""

import pytest

from roofcal.models.wave.notebook.device import load_notebook_device
from roofcal.models.wave.notebook.llama import DECODED, PROMPT, layer_seconds, model_seconds

NOTEBOOK = load_notebook_device()
PREFILL = {
    "qkv": "0.4905",
    "attention": "0.1276",
    "out": "0.1907",
    "normalisation": "0.0315",
    "mlp": "0.4695",
    "gelu": "0.0193",
    "reduce_scatter": "0.2876",
    "reduce_scatter_reduction": "0.7142",
    "total": "2.0873",
}


@pytest.mark.parametrize("name", PREFILL)
def test_prefill_prints_what_the_notebook_prints(name: str) -> None:
    assert f"{layer_seconds(NOTEBOOK, PROMPT)[name] * 1e3:.4f}" == PREFILL[name]


def test_a_decode_layer_prints_what_the_notebook_prints() -> None:
    layer = layer_seconds(NOTEBOOK, DECODED)
    assert f"{layer['qkv'] * 1e3:.4f}" == "0.0132"
    assert f"{layer['out'] * 1e3:.4f}" == "0.0135"
    assert f"{layer['mlp'] * 1e3:.4f}" == "0.0198"
    assert f"{layer['reduce_scatter_reduction'] * 1e3:.4f}" == "0.0174"
    assert f"{layer['total'] * 1e3:.4f}" == "0.0771"


def test_the_totals_are_the_notebooks() -> None:
    totals = {name: f"{seconds * 1e3:.3f}" for name, seconds in model_seconds(NOTEBOOK).items()}
    assert totals == {"prefill": "41.746", "decode": "1.542", "total": "43.288"}
