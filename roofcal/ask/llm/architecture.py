"""Sizes of a language model: parameters, bytes of weights and of cache, matrices on one GPU.

The weights of the layers' matrices have the format of the recipe. Embedding, output head, router
and norms stay in bf16 under every recipe, and so do activations between products and the KV cache.

int4 is weight-only (GPTQ, 2022-10; AWQ, 2023-06): 4 bit per weight and, for each group of 128
along K, 32 bit of scale and zero point, 4.25 bit together.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from roofcal.core.language_models import Architecture, Experts, LanguageModel
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.models.errors import PredictError
from roofcal.ops.spec import Shape

RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_axiswise", "int4")
INT4_BITS: Final = 4.25
INT4_RECIPE: Final = "int4_groupwise_g128"  # of op mixed_gemm
BF16_BYTES: Final = 2
MOST_TENSOR: Final = 64  # tensor-parallel degrees that are looked at
_VOCABULARY_MULTIPLE: Final = 64  # serving engines pad the vocabulary of each GPU to this


class LocalMatrix(NamedTuple):
    """The part of a matrix of weights that one GPU holds: `n` x `k`."""

    n: int
    k: int

    @property
    def shape(self) -> Shape:
        """A product by which the sides of weights are judged: some kernels refuse few rows."""
        return {"m": 4096, "n": self.n, "k": self.k}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Layers by kind: `dense` have one feed-forward network, `expert` have routed ones."""

    dense: int
    expert: int

    @property
    def count(self) -> int:
        """All layers."""
        return self.dense + self.expert


def architecture_of(model: LanguageModel) -> Architecture:
    """The architecture of a model; raises PredictError where its file states none."""
    if model.architecture is None:
        raise PredictError(
            f"config/models/{model.model}.yaml has no `architecture`: layers, vocabulary, heads, "
            "kv_heads, head_dim"
        )
    return model.architecture


def hidden_size(model: LanguageModel) -> int:
    """Width of the stream between layers."""
    return model.matrices["attention_out"].n


def longest_stage(model: LanguageModel, pipeline: int = 1) -> Layers:
    """Layers of the longest pipeline stage, the last ceil(layers / pipeline): experts come last."""
    architecture = architecture_of(model)
    count, experts = -(-architecture.layers // pipeline), 0
    if architecture.experts:
        experts = min(count, architecture.layers - architecture.experts.dense_layers)
    return Layers(dense=count - experts, expert=experts)


def check_parallel(model: LanguageModel, tensor: int, pipeline: int) -> None:
    """Raises PredictError that names what tensor or pipeline parallelism does not divide.

    Key/value heads may be fewer than the GPUs: engines then give several GPUs the same head.
    """
    if undivided := _undivided(model, tensor):
        degrees = ", ".join(map(str, tensor_degrees(model, MOST_TENSOR)))
        raise PredictError(
            f"--tp {tensor} does not divide the {undivided} of {model.model}; "
            f"degrees that do: {degrees}"
        )
    layers = architecture_of(model).layers
    if pipeline > layers:
        raise PredictError(f"--pp {pipeline}: {model.model} has {layers} layers only")


def tensor_degrees(model: LanguageModel, most: int) -> list[int]:
    """Tensor-parallel degrees up to `most` that divide the model."""
    return [tensor for tensor in range(1, most + 1) if not _undivided(model, tensor)]


def _undivided(model: LanguageModel, tensor: int) -> str:
    """The first size of a model that a tensor-parallel degree does not divide; "" for none."""
    architecture = architecture_of(model)
    kv_heads = architecture.kv_heads
    if architecture.heads % tensor:
        return f"{architecture.heads} heads"
    if architecture.latent is None and kv_heads % tensor and tensor % kv_heads:
        return f"{kv_heads} key/value heads"
    for name, matrix in model.matrices.items():
        size = {"n": matrix.n, "k": matrix.k, "none": tensor}[matrix.shard]
        if name != "qkv" and size % tensor:
            return f"{matrix.shard}={size} of {name}"
    return ""


def local_matrices(model: LanguageModel, tensor: int) -> dict[str, LocalMatrix]:
    """The part of each matrix of a layer that one GPU holds."""
    local = {}
    for name, matrix in model.matrices.items():
        of_n, of_k = (tensor if matrix.shard == axis else 1 for axis in "nk")
        local[name] = LocalMatrix(n=matrix.n // of_n, k=matrix.k // of_k)
    if "qkv" in local:
        architecture = architecture_of(model)
        heads = architecture.heads // tensor + 2 * local_kv_heads(architecture, tensor)
        local["qkv"] = LocalMatrix(n=heads * architecture.head_dim, k=local["qkv"].k)
    return local


def local_kv_heads(architecture: Architecture, tensor: int) -> int:
    """Key/value heads on one GPU: at least one."""
    return max(1, architecture.kv_heads // tensor)


def local_vocabulary(model: LanguageModel, tensor: int) -> int:
    """Rows of the embedding and of the output head on one GPU, padded as engines pad them."""
    share = -(-architecture_of(model).vocabulary // tensor)
    return -(-share // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE


def matrix_counts(model: LanguageModel, layers: Layers) -> dict[str, int]:
    """Name of a matrix -> how many of it these layers hold."""
    experts = architecture_of(model).experts
    counts = {}
    for name in model.matrices:
        if name.startswith("expert_") and experts:
            counts[name] = layers.expert * (experts.count + experts.shared)
        elif name.startswith("dense_") or name in ("gate_up", "down"):
            counts[name] = layers.dense
        else:
            counts[name] = layers.count
    return counts


def parameters(model: LanguageModel) -> int:
    """All parameters: matrices, router, norms, embedding and output head."""
    architecture, layers = architecture_of(model), longest_stage(model)
    matrices = sum(
        count * model.matrices[name].n * model.matrices[name].k
        for name, count in matrix_counts(model, layers).items()
    )
    tables = 1 if architecture.tied_embeddings else 2
    table_parameters = tables * architecture.vocabulary * hidden_size(model)
    return matrices + _small_parameters(model, layers) + table_parameters


def active_parameters(model: LanguageModel) -> int:
    """Parameters that a token meets: of its own experts alone, and without the embedding table."""
    architecture = architecture_of(model)
    table = 0 if architecture.tied_embeddings else architecture.vocabulary * hidden_size(model)
    if architecture.experts is None:
        return parameters(model) - table
    unused = (architecture.experts.count - architecture.experts.per_token) * longest_stage(
        model
    ).expert
    pair = (model.matrices["expert_gate_up"], model.matrices["expert_down"])
    return parameters(model) - table - unused * sum(matrix.n * matrix.k for matrix in pair)


def _small_parameters(model: LanguageModel, layers: Layers) -> int:
    """Two norms a layer and one at the end; the router of each layer with experts."""
    experts = architecture_of(model).experts
    router = experts.count * hidden_size(model) * layers.expert if experts else 0
    return router + (2 * layers.count + 1) * hidden_size(model)


def weight_bytes(model: LanguageModel, recipe: str, tensor: int, pipeline: int) -> float:
    """Bytes of weights on the fullest GPU; raises KeyError for an unknown recipe."""
    layers = longest_stage(model, pipeline)
    local = local_matrices(model, tensor)
    matrices = sum(
        count * matrix_bytes(recipe, local[name])
        for name, count in matrix_counts(model, layers).items()
    )
    # Embedding and head are at the two ends of a pipeline: one stage holds one of them.
    tables = 1 if architecture_of(model).tied_embeddings or pipeline > 1 else 2
    rows = tables * local_vocabulary(model, tensor)
    return matrices + BF16_BYTES * (_small_parameters(model, layers) + rows * hidden_size(model))


def matrix_bytes(recipe: str, matrix: LocalMatrix) -> float:
    """Bytes of one matrix of weights with its scales; raises KeyError for an unknown recipe."""
    if recipe == "int4":
        return INT4_BITS / 8 * matrix.n * matrix.k
    count: int = GEMM_RECIPES[recipe].b.nbytes(matrix.n, matrix.k)
    return count


def kv_bytes_per_token_and_layer(model: LanguageModel, tensor: int) -> int:
    """Bytes of bf16 cache that one token leaves on one GPU in one layer.

    Latent attention caches one vector for all heads, so that every GPU holds all of it.
    """
    architecture = architecture_of(model)
    if architecture.latent:
        return BF16_BYTES * (architecture.latent.latent + architecture.latent.rope)
    return BF16_BYTES * 2 * local_kv_heads(architecture, tensor) * architecture.head_dim


def distinct_experts(experts: Experts, tokens: float) -> float:
    """Expected number of experts that `tokens` tokens visit: E (1 - (1 - k/E)^tokens).

    Each token visits k of E experts, each with the same probability (a router trained for balance).
    """
    missed = math.pow(1 - experts.per_token / experts.count, tokens)
    return experts.count * (1 - missed)
