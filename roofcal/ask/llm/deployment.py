"""A model on its GPUs, the requests it serves, and whether they fit the memory.

The fullest GPU holds its weights, the KV cache of every request at its end, and the activations of
the largest pass: two copies of the stream between layers and the widest pair of tensors beside it
(bf16), or the logits in fp32. RESERVE of the memory is left to the driver, to buffers of the
collectives, to graphs and to fragments; vLLM leaves as much by default.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from roofcal.ask.llm.architecture import (
    BF16_BYTES,
    architecture_of,
    check_parallel,
    hidden_size,
    kv_bytes_per_token_and_layer,
    local_matrices,
    local_vocabulary,
    longest_stage,
    weight_bytes,
)
from roofcal.core.language_models import LanguageModel
from roofcal.core.units import GB
from roofcal.models.errors import PredictError
from roofcal.models.link import Source

CHUNK: Final = 8192  # tokens of one prefill pass; vLLM and SGLang set it so on large GPUs
RESERVE: Final = 0.1  # of the memory
MOST_TENSOR: Final = 64  # tensor-parallel degrees that are tried as a way out
_MOST_BATCH: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests that arrive together; all numbers are above zero.

    prompt, output  tokens of each request
    chunk           most tokens of one prefill pass: longer prompts are cut, shorter ones joined
    """

    batch: int
    prompt: int
    output: int
    chunk: int = CHUNK

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
class Deployment:
    """A language model in a recipe on tensor x pipeline GPUs of one device, and its workload."""

    model: LanguageModel
    recipe: str
    tensor: int
    pipeline: int
    workload: Workload
    link: Source = "auto"

    @property
    def gpus(self) -> int:
        """GPUs that hold the model once."""
        return self.tensor * self.pipeline


def with_batch(deployment: Deployment, batch: int) -> Deployment:
    """The same deployment with another batch."""
    return replace(deployment, workload=replace(deployment.workload, batch=batch))


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
    return Memory(
        weight_bytes=weights,
        kv_bytes=_kv_bytes(deployment, deployment.workload.batch),
        activation_bytes=_activation_bytes(deployment, deployment.workload.batch),
        dram_bytes=dram_bytes,
        largest_batch=_largest_batch(deployment, (1 - RESERVE) * dram_bytes - weights),
    )


def _kv_bytes(deployment: Deployment, batch: int) -> float:
    layers = longest_stage(deployment.model, deployment.pipeline).count
    each = kv_bytes_per_token_and_layer(deployment.model, deployment.tensor)
    return batch * deployment.workload.longest_context * layers * each


def _activation_bytes(deployment: Deployment, batch: int) -> float:
    model, load = deployment.model, deployment.workload
    tokens = max(batch, min(load.chunk, batch * load.prompt))
    columns = 2 * hidden_size(model) + _widest_tensors(model, deployment.tensor)
    pass_bytes = tokens * BF16_BYTES * columns
    logits = 4 * batch * local_vocabulary(model, deployment.tensor)
    return max(pass_bytes, logits)


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


def _largest_batch(deployment: Deployment, left_bytes: float) -> int:
    """The largest batch whose cache and activations fit `left_bytes`, by bisection."""

    def fits(batch: int) -> bool:
        return _kv_bytes(deployment, batch) + _activation_bytes(deployment, batch) <= left_bytes

    low, high = 0, _MOST_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _refusal(deployment: Deployment, memory: Memory, device: str, degrees: Sequence[int]) -> str:
    """Why a deployment does not fit, and which would."""
    what = f"{deployment.model.model} in {deployment.recipe}"
    lines = [
        f"{what} does not fit {deployment.gpus} x {device} at batch {deployment.workload.batch}: "
        f"needs {memory.needed_bytes / GB:.1f} GB per GPU ({memory.parts}), "
        f"has {memory.usable_bytes / GB:.1f} ({memory.dram_bytes / GB:.0f} less {RESERVE:.0%} in "
        "reserve)"
    ]
    if memory.largest_batch:
        lines.append(f"largest batch that fits: {memory.largest_batch}")
    tensor = smallest_tensor(deployment, memory.dram_bytes, degrees)
    if tensor:
        lines.append(f"smallest --tp that fits: {tensor}")
    else:
        lines.append(f"no --tp up to {MOST_TENSOR} fits; give a smaller --batch or a larger --pp")
    return "; ".join(lines)


def smallest_tensor(
    deployment: Deployment, dram_bytes: float, degrees: Sequence[int]
) -> int | None:
    """The first of some tensor-parallel degrees at which the deployment fits; None for none."""
    for tensor in degrees:
        if memory_of(replace(deployment, tensor=tensor), dram_bytes).fits:
            return tensor
    return None


def checked_memory(
    deployment: Deployment, dram_bytes: float, device: str, degrees: Sequence[int]
) -> Memory:
    """As memory_of; raises PredictError with the way out where the deployment does not fit.

    degrees: tensor-parallel degrees that may be advised instead, small ones first.
    """
    memory = memory_of(deployment, dram_bytes)
    if not memory.fits:
        raise PredictError(_refusal(deployment, memory, device, degrees))
    return memory
