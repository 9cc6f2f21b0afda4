"""The notebook's first cell: bandwidth, rate, KV cache, batch, and times by totals of operations.

Source: the seed mi300_llm_inference_roofline_notebook. `corrected` answers the same questions
without the notebook's mistakes, which docs/models.md lists.
"""

from dataclasses import dataclass
from typing import Final

from roofcal.models.wave.layer import Transformer
from roofcal.models.wave.notebook.device import NotebookDevice
from roofcal.models.wave.notebook.llama import LLAMA_65B, PROMPT
from roofcal.models.wave.notebook.operators import WIDTH, link_bytes_per_s, rate

PARAMETERS: Final = 65e9
GPUS: Final = 8
OUTPUT: Final = 32  # tokens
_GIB: Final = 1024**3
_GB: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the first cell prints.

    kv_cache         of one sequence: GiB in the notebook (it prints GB), GB when corrected
    batch            sequences that fit one GPU beside the weights
    token_size_s     time of one token by the bytes of the weights
    token_flops_s    time of one token by its operations
    token_link_s     time of its collectives
    prompt_s         computing time of the prompt
    prompt_link_s    time of the prompt's collectives
    """

    memory_bytes_per_s: float
    flops_per_s: float
    kv_cache: float
    batch: int
    token_size_s: float
    token_link_s: float
    token_flops_s: float
    prompt_s: float
    prompt_link_s: float


def printed(device: NotebookDevice) -> Estimate:
    """The notebook's figures."""
    model = LLAMA_65B
    memory = device.estimate_dram_bytes_per_s * device.estimate_memory_fraction
    peak = device.compute_units * rate(device) * device.clock_hz
    cache = _cache_bytes(model) / _GIB
    exchanged = PROMPT * 2 * 4 * model.layers * model.model_dim
    prompt = 2 * _notebook_flops(model, PROMPT) / (GPUS * peak * device.estimate_matrix_fraction)
    return Estimate(
        memory_bytes_per_s=memory,
        flops_per_s=peak,
        kv_cache=cache,
        batch=int((device.dram_bytes - PARAMETERS * WIDTH) / _GB - cache),
        token_size_s=2 * PARAMETERS / (GPUS * memory),
        token_link_s=2 * model.layers * device.link_latency_s,
        token_flops_s=_notebook_flops(model, 1) / (GPUS * memory),
        prompt_s=prompt,
        prompt_link_s=exchanged / link_bytes_per_s(device),
    )


def corrected(device: NotebookDevice) -> Estimate:
    """Answers to the same questions with the units and factors that the notebook lost."""
    model = LLAMA_65B
    memory = device.estimate_dram_bytes_per_s * device.estimate_memory_fraction
    peak = device.compute_units * rate(device) * device.clock_hz
    cache = _cache_bytes(model)
    exchanged = 2 * 2 * (GPUS - 1) / GPUS * PROMPT * model.model_dim * WIDTH * model.layers
    return Estimate(
        memory_bytes_per_s=memory,
        flops_per_s=peak,
        kv_cache=cache / _GB,
        batch=int((device.dram_bytes - PARAMETERS * WIDTH) / cache),
        token_size_s=WIDTH * PARAMETERS / (GPUS * memory),
        token_link_s=2 * model.layers * device.link_latency_s,
        token_flops_s=WIDTH * _weights(model) / (GPUS * memory),
        prompt_s=_flops(model, PROMPT) / (GPUS * peak * device.estimate_matrix_fraction),
        prompt_link_s=exchanged / link_bytes_per_s(device),
    )


def _cache_bytes(model: Transformer) -> float:
    """K and V of one sequence of prompt and output, in all layers."""
    return 2 * WIDTH * model.model_dim * model.layers * (PROMPT + OUTPUT)


def _notebook_flops(model: Transformer, tokens: int) -> float:
    """QKV lacks a factor model_dim; the feed-forward has two matrices where llama has three."""
    dim = model.model_dim
    qkv, out, mlp = 2 * 3 * dim, 2 * dim * dim, 4 * dim * model.hidden_dim
    return model.layers * tokens * (qkv + out + mlp + 4 * tokens * dim)


def _weights(model: Transformer) -> float:
    """Elements of the weights of all layers: four matrices of attention, three of the rest."""
    return model.layers * model.model_dim * (4 * model.model_dim + 3 * model.hidden_dim)


def _flops(model: Transformer, tokens: int) -> float:
    """2 per weight and token, and causal attention: half of the scores."""
    return 2 * _weights(model) * tokens + model.layers * 2 * tokens * tokens * model.model_dim
