"""The times of a layer of llama-65B as the notebook prints them."""

from roofcal.models.wave.notebook.llama import DECODED, PROMPT

PRINTED_MS = {  # rows of the layer -> operator -> milliseconds
    PROMPT: {
        "qkv": "0.4905",
        "attention": "0.1276",
        "out": "0.1907",
        "normalisation": "0.0315",
        "mlp": "0.4695",
        "gelu": "0.0193",
        "reduce_scatter": "0.2876",
        "reduce_scatter_reduction": "0.7142",
        "total": "2.0873",
    },
    DECODED: {
        "qkv": "0.0132",
        "out": "0.0135",
        "mlp": "0.0198",
        "reduce_scatter_reduction": "0.0174",
        "total": "0.0771",
    },
}
