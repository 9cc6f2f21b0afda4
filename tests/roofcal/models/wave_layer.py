"""One product and one layer of a dense transformer by the wave model, under both parallelisms.

Heads, hidden columns and, of the second product of each half, K are divided among `tensor_ranks`
(the Megatron layout), so that each half of a layer ends in one all-reduce:

    layer = normalisation + qkv + attention + out + all-reduce
            + normalisation + gate and up + activation + down + all-reduce

The normalisations add the residual. Pipeline stages share the layers; a token passes all of them,
so its latency is that of all layers plus the sends between stages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from examples.mi300_notebook import Parallelism, Transformer
from roofcal.core.devices import WaveDevice
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.gemm import product_times
from roofcal.models.wave.operators import (
    OperatorTime,
    activation,
    all_reduce,
    kernel_time,
    normalisation,
    send,
    stream_seconds,
)

RECIPE: Final = "bf16"
_WIDTH: Final = 2  # bytes of an element of bf16


def product(device: WaveDevice, recipe: str, m: int, n: int, k: int) -> OperatorTime:
    """One product; raises PredictError for a dtype without a rate, KeyError for a recipe."""
    sizes = (np.array([float(size)]) for size in (m, n, k))
    times = product_times(device, GEMM_RECIPES[recipe], *sizes)
    parts = {
        "launch": device.launch_s,
        times.limit[0]: float(times.tiles[0]),
        "dram": float(times.dram[0]),
    }
    return OperatorTime(total_s=float(times.total[0]), bound_by=times.bound_by[0], parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass: `tokens` new tokens of each sequence, the last ones of its `context`."""

    sequences: int
    tokens: int
    context: int


def layer_times(
    device: WaveDevice, model: Transformer, split: Parallelism, step: Pass
) -> dict[str, OperatorTime]:
    """Operator -> time, of one layer on one GPU, in order."""
    ranks, rows, dim = split.tensor_ranks, step.sequences * step.tokens, model.model_dim
    head_dim, hidden = dim // model.heads, model.hidden_dim // ranks
    heads, kv_heads = model.heads // ranks, model.kv_heads // ranks
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        query_tokens=step.tokens,
        kv_tokens=step.context,
        sequences=step.sequences,
    )
    norm = normalisation(device, rows, dim, residual=True)
    reduced = all_reduce(device, rows * dim * _WIDTH, ranks)
    return {
        "attention_norm": norm,
        "qkv": product(device, RECIPE, rows, (heads + 2 * kv_heads) * head_dim, dim),
        "attention": flash_attention(device, attention),
        "out": product(device, RECIPE, rows, dim, heads * head_dim),
        "attention_all_reduce": reduced,
        "mlp_norm": norm,
        "gate_up": product(device, RECIPE, rows, 2 * hidden, dim),
        "activation": activation(device, rows * hidden),
        "down": product(device, RECIPE, rows, dim, hidden),
        "mlp_all_reduce": reduced,
    }


def pass_seconds(device: WaveDevice, model: Transformer, split: Parallelism, step: Pass) -> float:
    """Seconds from tokens to logits of the last one."""
    layer = sum(time.total_s for time in layer_times(device, model, split, step).values())
    rows = step.sequences * step.tokens
    sends = 0.0
    if split.pipeline_ranks > 1:
        one_send = send(device, rows * model.model_dim * _WIDTH)
        sends = (split.pipeline_ranks - 1) * one_send.total_s
    ends = sum(time.total_s for time in end_times(device, model, split, step).values())
    return model.layers * layer + sends + ends


def end_times(
    device: WaveDevice, model: Transformer, split: Parallelism, step: Pass
) -> Mapping[str, OperatorTime]:
    """What runs before and after the layers: embedding, last normalisation, unembedding."""
    rows, dim = step.sequences * step.tokens, model.model_dim
    words = model.vocabulary // split.tensor_ranks
    embedded = stream_seconds(device, 2 * rows * dim * _WIDTH)
    return {
        "embedding": kernel_time(device, {"dram": embedded}),
        "last_norm": normalisation(device, step.sequences, dim),
        "unembedding": product(device, RECIPE, step.sequences, words, dim),
    }
