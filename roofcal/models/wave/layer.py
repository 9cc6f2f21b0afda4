"""One layer of a dense transformer under tensor parallelism, and a whole model under both kinds.

Heads, hidden columns and, of the second product of each half, K are divided among `tensor_ranks`
(the Megatron layout), so that each half of a layer ends in one all-reduce:

    layer = normalisation + qkv + attention + out + all-reduce
            + normalisation + gate and up + activation + down + all-reduce

The residual is added in the normalisations. Layers are divided among `pipeline_ranks`; one token
passes all of them, so the latency is that of all layers plus the sends between stages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roofcal.core.wave_device import WaveDevice
from roofcal.models.errors import PredictError
from roofcal.models.wave.activation import activation
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.collectives import all_reduce, send
from roofcal.models.wave.gemm import product
from roofcal.models.wave.normalisation import normalisation
from roofcal.models.wave.operator_time import (
    OperatorTime,
    check_sizes,
    divide,
    kernel_time,
    stream_seconds,
)

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
    """Among how many GPUs a layer is divided, and among how many stages the layers."""

    tensor_ranks: int = 1
    pipeline_ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass: `tokens` new ones of each sequence, the last of its `context`."""

    sequences: int
    tokens: int
    context: int


def layer_times(
    device: WaveDevice, model: Transformer, ways: Parallelism, step: Pass
) -> dict[str, OperatorTime]:
    """Operator -> time, of one layer on one GPU, in order.

    Raises PredictError for sizes below 1, heads, hidden columns or layers that do not divide, and
    more ranks than the links of the device reach.
    """
    _check(model, ways, step)
    ranks, rows, dim = ways.tensor_ranks, step.sequences * step.tokens, model.model_dim
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


def pass_seconds(device: WaveDevice, model: Transformer, ways: Parallelism, step: Pass) -> float:
    """Seconds from tokens to logits of the last one; raises PredictError as layer_times."""
    layer = sum(time.total_s for time in layer_times(device, model, ways, step).values())
    rows = step.sequences * step.tokens
    sent = send(device, rows * model.model_dim * _WIDTH) if ways.pipeline_ranks > 1 else None
    sends = (ways.pipeline_ranks - 1) * sent.total_s if sent else 0.0
    ends = sum(time.total_s for time in end_times(device, model, ways, step).values())
    return model.layers * layer + sends + ends


def end_times(
    device: WaveDevice, model: Transformer, ways: Parallelism, step: Pass
) -> Mapping[str, OperatorTime]:
    """What stands before and behind the layers: embedding, last normalisation, unembedding."""
    rows, dim = step.sequences * step.tokens, model.model_dim
    words = divide("words", model.vocabulary, ways.tensor_ranks, "tensor ranks")
    embedded = stream_seconds(device, 2 * rows * dim * _WIDTH)
    return {
        "embedding": kernel_time(device, {"dram": embedded}),
        "last_norm": normalisation(device, step.sequences, dim),
        "unembedding": product(device, RECIPE, step.sequences, words, dim),
    }


def _check(model: Transformer, ways: Parallelism, step: Pass) -> None:
    check_sizes("parallelism", tensor=ways.tensor_ranks, pipeline=ways.pipeline_ranks)
    check_sizes("pass", sequences=step.sequences, tokens=step.tokens, context=step.context)
    divide("layers", model.layers, ways.pipeline_ranks, "pipeline ranks")
    if step.tokens > step.context:
        raise PredictError(f"pass: tokens={step.tokens} are more than context={step.context}")
