"""A model on its GPUs, the requests it serves, and whether they fit: the memory and the kernels.

The fullest GPU holds its weights, the KV cache of every request at its end, and the activations of
the largest pass: two copies of the stream between layers and the widest pair of tensors beside it
(bf16), or the logits in fp32. RESERVE of the memory is left to the driver, to buffers of the
collectives, to graphs and to fragments; vLLM leaves as much by default.

Shards of weights that no kernel of a recipe takes are refused by the rule that makes `predict`
refuse.

A cut is (tensor-parallel degree, pipeline stages).
"""

from dataclasses import dataclass, replace
from typing import Final

from roofcal.ask.llm.architecture import (
    BF16_BYTES,
    INT4_RECIPE,
    MOST_TENSOR,
    architecture_of,
    check_parallel,
    hidden_size,
    kv_bytes_per_token_and_layer,
    local_matrices,
    local_vocabulary,
    longest_stage,
    tensor_degrees,
    weight_bytes,
)
from roofcal.ask.shape_limits import providers_that_run, why_all_refuse
from roofcal.core.devices import DeviceSpec
from roofcal.core.language_models import LanguageModel
from roofcal.core.units import GB
from roofcal.models.errors import PredictError
from roofcal.models.link import Source
from roofcal.ops import BY_NAME
from roofcal.ops.time_models import Sources

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
    def prefill_passes(self) -> int:
        """Number of passes that the prompts take."""
        return -(-self.batch * self.prompt // self.chunk)

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
