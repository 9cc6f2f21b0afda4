"""Whether a model with its cache fits the memory of its GPUs, and how many requests do.

Bytes of the fullest GPU: weights, KV cache of every request at its end, and the activations of the
largest pass: two copies of the stream between layers and the widest pair of tensors beside it
(bf16), or the logits in fp32. RESERVE of the memory is left to the driver, to buffers of the
collectives, to graphs and to fragments; vLLM leaves as much by default.
"""

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
    tensor_degrees,
    weight_bytes,
)
from roofcal.ask.llm.workload import Question
from roofcal.core.language_models import LanguageModel
from roofcal.core.units import GB
from roofcal.models.errors import PredictError

RESERVE: Final = 0.1
_MOST_TENSOR: Final = 64
_MOST_BATCH: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of the fullest GPU, and what it has.

    largest_batch  most requests of this prompt and output that fit; 0 where the weights do not
    """

    weight_bytes: float
    kv_bytes: float
    activation_bytes: float
    dram_bytes: float
    largest_batch: int

    @property
    def needed_bytes(self) -> float:
        """All that the GPU holds."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    @property
    def usable_bytes(self) -> float:
        """Memory less the reserve."""
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


def memory_of(question: Question, dram_bytes: float) -> Memory:
    """Bytes on the fullest GPU; raises PredictError for degrees that do not divide the model."""
    check_parallel(question.model, question.tensor, question.pipeline)
    weights = weight_bytes(question.model, question.recipe, question.tensor, question.pipeline)
    return Memory(
        weight_bytes=weights,
        kv_bytes=_kv_bytes(question, question.workload.batch),
        activation_bytes=_activation_bytes(question, question.workload.batch),
        dram_bytes=dram_bytes,
        largest_batch=_largest_batch(question, (1 - RESERVE) * dram_bytes - weights),
    )


def _kv_bytes(question: Question, batch: int) -> float:
    layers = longest_stage(question.model, question.pipeline).count
    each = kv_bytes_per_token_and_layer(question.model, question.tensor)
    return batch * question.workload.longest_context * layers * each


def _activation_bytes(question: Question, batch: int) -> float:
    model, load = question.model, question.workload
    tokens = max(batch, min(load.chunk, batch * load.prompt))
    pass_bytes = tokens * BF16_BYTES * (2 * hidden_size(model) + _widest(model, question.tensor))
    logits = 4 * batch * local_vocabulary(model, question.tensor)
    return max(pass_bytes, logits)


def _widest(model: LanguageModel, tensor: int) -> int:
    """Elements per token of the widest tensors that live at once beside the stream."""
    known, local = architecture_of(model), local_matrices(model, tensor)
    queries = local["q_up"].n + local["kv_up"].n if known.latent else local["qkv"].n
    widths = [queries + local["attention_out"].k]
    for kind in ("", "dense_", "expert_"):
        if f"{kind}gate_up" not in local:
            continue
        width = local[f"{kind}gate_up"].n + local[f"{kind}down"].k
        if kind == "expert_" and known.experts:
            width = known.experts.per_token * (width + 2 * hidden_size(model))
        widths.append(width)
    return max(widths)


def _largest_batch(question: Question, left_bytes: float) -> int:
    """The largest batch whose cache and activations fit `left_bytes`, by bisection."""

    def fits(batch: int) -> bool:
        return _kv_bytes(question, batch) + _activation_bytes(question, batch) <= left_bytes

    low, high = 0, _MOST_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def refusal(question: Question, memory: Memory, device: str) -> str:
    """Why a model does not fit, and what would."""
    batch = question.workload.batch
    lines = [
        f"{question.model.model} in {question.recipe} does not fit {question.gpus} x {device} at "
        f"batch {batch}: needs {memory.needed_bytes / GB:.1f} GB per GPU ({memory.parts}), "
        f"has {memory.usable_bytes / GB:.1f} ({memory.dram_bytes / GB:.0f} less {RESERVE:.0%} in "
        "reserve)"
    ]
    if memory.largest_batch:
        lines.append(f"largest batch that fits: {memory.largest_batch}")
    tensor = smallest_tensor(question, memory.dram_bytes)
    if tensor:
        lines.append(f"smallest --tp that fits: {tensor}")
    else:
        lines.append(f"no --tp up to {_MOST_TENSOR} fits; give a smaller --batch or a larger --pp")
    return "; ".join(lines)


def smallest_tensor(question: Question, dram_bytes: float) -> int | None:
    """The smallest tensor-parallel degree at which the question fits, None up to 64."""
    for tensor in tensor_degrees(question.model, _MOST_TENSOR):
        if memory_of(replace(question, tensor=tensor), dram_bytes).fits:
            return tensor
    return None


def checked_memory(question: Question, dram_bytes: float, device: str) -> Memory:
    """As memory_of; raises PredictError with the way out where the model does not fit."""
    memory = memory_of(question, dram_bytes)
    if not memory.fits:
        raise PredictError(refusal(question, memory, device))
    return memory
