"""One layer of a dense transformer under tensor parallelism, and a whole model under both kinds.

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

from roofcal.core.wave_device import WaveDevice
from roofcal.models.errors import PredictError
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.collectives import all_reduce, send
from roofcal.models.wave.gemm import product
from roofcal.models.wave.operator_time import (
    OperatorTime,
    check_sizes,
    divide,
    kernel_time,
    stream_seconds,
)
from roofcal.models.wave.vector_kernels import activation, normalisation

RECIPE: Final = "bf16"
_WIDTH: Final = 2  # bytes of an element of bf16


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Sizes of a dense model with a gated feed-forward of two inputs (SwiGLU)."""

    model_dim: int
    hidden_dim: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """How many GPUs share each layer, and how many pipeline stages share the layers."""

    tensor_ranks: int = 1
    pipeline_ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass: `tokens` new tokens of each sequence, the last ones of its `context`."""

    sequences: int
    tokens: int
    context: int


def layer_times(
    device: WaveDevice, model: Transformer, split: Parallelism, step: Pass
) -> dict[str, OperatorTime]:
    """Operator -> time, of one layer on one GPU, in order.

    Raises PredictError for sizes below 1, heads, hidden columns or layers that do not divide, and
    more ranks than the links of the device reach.
    """
    _check(model, split, step)
    ranks, rows, dim = split.tensor_ranks, step.sequences * step.tokens, model.model_dim
    head_dim = divide("columns of the model", dim, model.heads, "heads")
    heads = divide("heads", model.heads, ranks, "tensor ranks")
    kv_heads = divide("key/value heads", model.kv_heads, ranks, "tensor ranks")
    hidden = divide("hidden columns", model.hidden_dim, ranks, "tensor ranks")
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
    """Seconds from tokens to logits of the last one; raises as layer_times does."""
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
    words = divide("words", model.vocabulary, split.tensor_ranks, "tensor ranks")
    embedded = stream_seconds(device, 2 * rows * dim * _WIDTH)
    return {
        "embedding": kernel_time(device, {"dram": embedded}),
        "last_norm": normalisation(device, step.sequences, dim),
        "unembedding": product(device, RECIPE, step.sequences, words, dim),
    }


def _check(model: Transformer, split: Parallelism, step: Pass) -> None:
    check_sizes("parallelism", tensor=split.tensor_ranks, pipeline=split.pipeline_ranks)
    check_sizes("pass", sequences=step.sequences, tokens=step.tokens, context=step.context)
    divide("layers", model.layers, split.pipeline_ranks, "pipeline ranks")
    if step.tokens > step.context:
        raise PredictError(f"pass: tokens={step.tokens} are more than context={step.context}")
