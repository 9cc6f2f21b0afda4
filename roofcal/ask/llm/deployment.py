"""A language model on its GPUs: the sizes of its parts, the memory they need, and what runs them.

The weights of the layers' matrices have the format of the recipe. Embedding, output head, router
and norms stay in bf16 under every recipe, and so do activations between products and the KV cache.
docs/models.md says what the memory holds. A cut is (tensor-parallel degree, pipeline stages).
"""

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from roofcal.ask.shape_limits import providers_that_run, why_all_refuse
from roofcal.core.devices import DeviceSpec
from roofcal.core.language_models import Architecture, Experts, LanguageModel
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.units import GB
from roofcal.models.errors import PredictError
from roofcal.models.link import Source
from roofcal.ops import BY_NAME
from roofcal.ops.spec import Shape
from roofcal.ops.time_models import Sources

RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_axiswise", "int4")
INT4_BITS: Final = 4.25  # GPTQ, AWQ: 4 bit, and 32 bit of scale and zero point for 128 along K
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


PROMPT: Final = 2048
OUTPUT: Final = 256
CHUNK: Final = 8192  # tokens of one prefill pass; vLLM and SGLang set it so on large GPUs
ONE_HOST: Final = 8  # GPUs
RESERVE: Final = 0.1  # of the memory
_MOST_BATCH: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A language model in a recipe on tensor x pipeline GPUs of one device, and what it serves.

    batch           requests that arrive together
    prompt, output  tokens of each request
    chunk           most tokens of one prefill pass: longer prompts are cut, shorter ones joined
    """

    model: LanguageModel
    recipe: str
    tensor: int = 1
    pipeline: int = 1
    batch: int = 1
    prompt: int = PROMPT
    output: int = OUTPUT
    chunk: int = CHUNK
    link: Source = "auto"

    @property
    def gpus(self) -> int:
        """GPUs that hold the model once."""
        return self.tensor * self.pipeline

    @property
    def longest_context(self) -> int:
        """Cached tokens of a request when it ends."""
        return self.prompt + self.output

    @property
    def mean_context(self) -> float:
        """Cached tokens of a request half-way through its output."""
        return self.prompt + self.output / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on the fullest GPU, and its memory.

    dram_bytes     memory of the GPU
    largest_batch  most requests of this prompt and output that fit; 0 where the weights do not
    """

    weight_bytes: float
    kv_bytes: float
    activation_bytes: float
    dram_bytes: float
    largest_batch: int

    @property
    def needed_bytes(self) -> float:
        """Bytes that the GPU must hold."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    @property
    def usable_bytes(self) -> float:
        """Memory without the reserve."""
        return (1 - RESERVE) * self.dram_bytes

    @property
    def parts(self) -> str:
        """What the GPU holds, in words."""
        named = {
            "weights": self.weight_bytes,
            "KV cache": self.kv_bytes,
            "activations": self.activation_bytes,
        }
        return ", ".join(f"{name} {count / GB:.1f}" for name, count in named.items())

    @property
    def fits(self) -> bool:
        """Whether the memory is enough."""
        return self.needed_bytes <= self.usable_bytes


def memory_of(deployment: Deployment, dram_bytes: float) -> Memory:
    """Bytes on the fullest GPU; raises PredictError for degrees that do not divide the model."""
    model, tensor, pipeline = deployment.model, deployment.tensor, deployment.pipeline
    check_parallel(model, tensor, pipeline)
    weights = weight_bytes(model, deployment.recipe, tensor, pipeline)
    layers = longest_stage(model, pipeline).count
    kv_bytes = deployment.longest_context * layers * kv_bytes_per_token_and_layer(model, tensor)
    columns = 2 * hidden_size(model) + _widest_tensors(model, tensor)
    logits = 4 * local_vocabulary(model, tensor)

    def activation_bytes(batch: int) -> float:
        tokens = max(batch, min(deployment.chunk, batch * deployment.prompt))
        return max(tokens * BF16_BYTES * columns, batch * logits)

    left, low, high = (1 - RESERVE) * dram_bytes - weights, 0, _MOST_BATCH
    while high - low > 1:  # the largest batch is low, by bisection
        middle = (low + high) // 2
        fits = middle * kv_bytes + activation_bytes(middle) <= left
        low, high = (middle, high) if fits else (low, middle)
    return Memory(
        weight_bytes=weights,
        kv_bytes=deployment.batch * kv_bytes,
        activation_bytes=activation_bytes(deployment.batch),
        dram_bytes=dram_bytes,
        largest_batch=low,
    )


def _widest_tensors(model: LanguageModel, tensor: int) -> int:
    """Elements per token of the widest tensors that live at once beside the stream."""
    architecture, local = architecture_of(model), local_matrices(model, tensor)
    latent = architecture.latent
    queries = local[latent.query_matrix].n + local["kv_up"].n if latent else local["qkv"].n
    widths = [queries + local["attention_out"].k]
    for kind in ("", "dense_", "expert_"):
        if f"{kind}gate_up" not in local:
            continue
        width = local[f"{kind}gate_up"].n + local[f"{kind}down"].k
        if kind == "expert_" and architecture.experts:
            width = architecture.experts.per_token * (width + 2 * hidden_size(model))
        widths.append(width)
    return max(widths)


def datasheet_of(sources: Sources) -> DeviceSpec:
    """The datasheet; raises PredictError without one."""
    if sources.spec is None:
        raise PredictError("`llm` needs a file of the device in config/devices: its memory")
    return sources.spec


def checked_memory(deployment: Deployment, sources: Sources, by: str) -> Memory:
    """As memory_of; raises PredictError with the way out where the deployment does not fit.

    The smallest degree that is named runs the shards by the model of time `by`.
    """
    spec, model, recipe = datasheet_of(sources), deployment.model, deployment.recipe
    memory = memory_of(deployment, spec.dram_bytes)
    if memory.fits:
        return memory
    cuts = (replace(deployment, tensor=t) for t in runnable_degrees(deployment, sources, by))
    fitting = next((cut.tensor for cut in cuts if memory_of(cut, spec.dram_bytes).fits), None)
    lines = [
        f"{model.model} in {recipe} does not fit {deployment.gpus} x {spec.device} at batch "
        f"{deployment.batch}: "
        f"needs {memory.needed_bytes / GB:.1f} GB per GPU ({memory.parts}), "
        f"has {memory.usable_bytes / GB:.1f} ({memory.dram_bytes / GB:.0f} less {RESERVE:.0%} in "
        "reserve)"
    ]
    if memory.largest_batch:
        lines.append(f"largest batch that fits: {memory.largest_batch}")
    if fitting:
        lines.append(f"smallest --tp that fits: {fitting}")
    else:
        lines.append(f"no --tp up to {MOST_TENSOR} fits; give a smaller --batch or a larger --pp")
    raise PredictError("; ".join(lines))


def check_shards(deployment: Deployment, sources: Sources, by: str) -> None:
    """Raises PredictError that says why_refused, and the largest degree that works."""
    reason = why_refused(deployment, sources, by)
    if reason is not None:
        degrees = runnable_degrees(deployment, sources, by)
        way_out = f"largest --tp whose shards work: {degrees[-1]}" if degrees else "no --tp works"
        raise PredictError(f"{reason}; {way_out}; --recipe bf16 takes any sides")


def runnable_degrees(
    deployment: Deployment, sources: Sources, by: str, most: int = MOST_TENSOR
) -> list[int]:
    """Tensor-parallel degrees up to `most` that divide a model into shards that its recipe runs."""
    cuts = (replace(deployment, tensor=one) for one in tensor_degrees(deployment.model, most))
    return [cut.tensor for cut in cuts if why_refused(cut, sources, by) is None]


def why_refused(deployment: Deployment, sources: Sources, by: str) -> str | None:
    """Names the first matrix whose part on one GPU no provider runs; None where all run.

    Experts are judged each by its own sides, however many of them one kernel multiplies.
    """
    op, recipe = BY_NAME["gemm"], deployment.recipe
    if recipe == "int4":
        op, recipe = BY_NAME["mixed_gemm"], INT4_RECIPE
    device = sources.spec.device if sources.spec else ""
    providers, _ = providers_that_run(op, recipe, sources, by, device)
    model, tensor = deployment.model, deployment.tensor
    for name, matrix in local_matrices(model, tensor).items():
        reason = why_all_refuse(op, providers, recipe, matrix.shape)
        if reason is not None:
            return (
                f"--tp {tensor} leaves {matrix.n} x {matrix.k} (n x k) of {name} of {model.model} "
                f"on a GPU, and {reason}"
            )
    return None
