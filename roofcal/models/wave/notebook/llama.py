"""The notebook's llama-65B layer, prefill and decode: four stages of two GPUs.

Source: the seed mi300_llm_inference_roofline_notebook, class transformer_2dshard. It rounds each
operator to 0.1 us before it adds them, and so does this.
"""

from typing import Final

from roofcal.models.wave.layer import Parallelism, Transformer
from roofcal.models.wave.notebook import operators
from roofcal.models.wave.notebook.device import NotebookDevice

LLAMA_65B: Final = Transformer(
    model_dim=8192, hidden_dim=22016, layers=80, heads=64, kv_heads=64, vocabulary=32000
)
SPLIT: Final = Parallelism(tensor_ranks=2, pipeline_ranks=4)
PROMPT: Final = 2048
DECODED: Final = 16  # rows of its one decode step


def layer_seconds(device: NotebookDevice, rows: int) -> dict[str, float]:
    """Operator -> seconds, as printed, of one layer; `total` adds what the notebook adds."""
    model, ranks = LLAMA_65B, SPLIT.tensor_ranks
    dim, hidden = model.model_dim, model.hidden_dim
    latency = _round_to_print(operators.latency_s(device, ranks))
    scattered = _round_to_print(operators.reduce_scatter_s(device, rows, hidden))
    reduction = operators.reduction_s(device, rows, hidden, ranks)
    gathered = operators.gather_s(device, dim, model.layers // SPLIT.pipeline_ranks, ranks)
    times = {
        "qkv": _round_to_print(operators.gemm_s(device, rows, 3 * dim, dim) / 2),
        "attention": _round_to_print(
            operators.attention_s(device, rows, model.heads // ranks, dim // model.heads)
        ),
        "out": _round_to_print(operators.gemm_s(device, rows, dim // ranks, dim)),
        "normalisation": _round_to_print(2 * operators.normalisation_s(device, rows, dim)),
        "mlp": _round_to_print(operators.gemm_s(device, rows, hidden // ranks, dim)),
        "gelu": _round_to_print(operators.gelu_s(device, rows * hidden / ranks)),
        "reduce_scatter": scattered,
        "reduce_scatter_reduction": _round_to_print(2 * scattered + reduction + latency),
        "gather": _round_to_print(gathered) + latency,
    }
    counted = {**times, "normalisation": 2 * times["normalisation"], "reduce_scatter": 0.0}
    return {**times, "total": sum(counted.values())}


def model_seconds(device: NotebookDevice) -> dict[str, float]:
    """prefill, decode (one token) and their sum, of one stage of the pipeline."""
    stage = LLAMA_65B.layers / SPLIT.pipeline_ranks
    prefill, decode = (layer_seconds(device, rows)["total"] for rows in (PROMPT, DECODED))
    return {
        "prefill": stage * prefill,
        "decode": stage * decode,
        "total": _round_to_print(stage * prefill + stage * decode),
    }


def _round_to_print(seconds: float) -> float:
    """To four digits of a millisecond."""
    return round(seconds * 1e3, 4) / 1e3
