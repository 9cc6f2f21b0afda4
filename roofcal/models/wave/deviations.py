"""How far the corrected formulas are from the notebook's, by running both on its own device."""

from dataclasses import dataclass
from typing import Final

from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.collectives import all_reduce
from roofcal.models.wave.gemm import product
from roofcal.models.wave.layer import RECIPE, Pass, end_times, layer_times, pass_seconds
from roofcal.models.wave.normalisation import normalisation
from roofcal.models.wave.notebook import operators
from roofcal.models.wave.notebook.device import NotebookDevice
from roofcal.models.wave.notebook.estimate import OUTPUT, corrected, printed
from roofcal.models.wave.notebook.llama import (
    DECODED,
    LLAMA_65B,
    PROMPT,
    WAYS,
    layer_seconds,
    model_seconds,
)

PREFILL: Final = Pass(sequences=1, tokens=PROMPT, context=PROMPT)
DECODE: Final = Pass(sequences=DECODED, tokens=1, context=PROMPT + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One figure as the notebook's formula gives it and as the corrected one does."""

    name: str
    notebook: float
    corrected: float
    unit: str

    @property
    def line(self) -> str:
        """As the docstring of the package lists it."""
        return f"{self.name:<20} {self.notebook:>9.4g} {self.corrected:>9.4g} {self.unit}"


def deviations(device: NotebookDevice) -> list[Deviation]:
    """Every deviation, in the order of docs/models.md."""
    return [
        *_of_the_first_cell(device),
        *_of_products(device),
        *_of_other_operators(device),
        *_of_the_model(device),
    ]


def _ms(name: str, notebook_s: float, corrected_s: float) -> Deviation:
    return Deviation(name=name, notebook=notebook_s * 1e3, corrected=corrected_s * 1e3, unit="ms")


def _of_the_first_cell(device: NotebookDevice) -> list[Deviation]:
    said, right = printed(device), corrected(device)
    return [
        Deviation(
            name="memory bandwidth",
            notebook=said.memory_bytes_per_s / 1e9,
            corrected=device.stream_bytes_per_s / 1e9,
            unit="GB/s",
        ),
        Deviation(name="KV cache", notebook=said.kv_cache, corrected=right.kv_cache, unit="GB"),
        Deviation(name="batch", notebook=said.batch, corrected=right.batch, unit="sequences"),
        _ms("token, by operations", said.token_flops_s, right.token_flops_s),
        _ms("prompt, computing", said.prompt_s, right.prompt_s),
        _ms("prompt, exchanging", said.prompt_link_s, right.prompt_link_s),
    ]


def _of_products(device: NotebookDevice) -> list[Deviation]:
    dim, ranks = LLAMA_65B.model_dim, WAYS.tensor_ranks
    shapes = {
        "prefill qkv": (PROMPT, 3 * dim // ranks, dim),
        "decode qkv": (DECODED, 3 * dim // ranks, dim),
        "ragged product": (130, dim // ranks, dim),
        "product of few tiles": (128, 128, dim),
        "skinny product": (1, dim, dim),
    }
    found = [
        _ms(name, operators.gemm_s(device, *mnk), product(device, RECIPE, *mnk).total_s)
        for name, mnk in shapes.items()
    ]
    whole = operators.gemm_s(device, PROMPT, 3 * dim, dim) / 2
    return [_ms("prefill qkv, halved", whole, found[0].notebook / 1e3), *found]


def _of_other_operators(device: NotebookDevice) -> list[Deviation]:
    said = {rows: layer_seconds(device, rows) for rows in (PROMPT, DECODED)}
    right = layer_times(device, LLAMA_65B, WAYS, PREFILL)
    decode = layer_times(device, LLAMA_65B, WAYS, DECODE)
    dim, ranks = LLAMA_65B.model_dim, WAYS.tensor_ranks
    heads = LLAMA_65B.heads // ranks
    unmasked = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=dim // LLAMA_65B.heads,
        query_tokens=PROMPT,
        kv_tokens=PROMPT,
        causal=False,
    )
    exchanged = said[PROMPT]["reduce_scatter_reduction"] + said[PROMPT]["gather"]
    all_links = all_reduce(device, PROMPT * dim * operators.WIDTH, device.link_ranks).total_s
    prompt = said[PROMPT]
    return [
        _ms("attention, no mask", prompt["attention"], flash_attention(device, unmasked).total_s),
        _ms("prefill attention", prompt["attention"], right["attention"].total_s),
        _ms("decode attention", said[DECODED]["attention"], decode["attention"].total_s),
        _ms(
            "normalisations",
            2 * prompt["normalisation"],
            2 * normalisation(device, PROMPT, dim).total_s,
        ),
        _ms(
            "with residuals",
            2 * prompt["normalisation"],
            right["attention_norm"].total_s + right["mlp_norm"].total_s,
        ),
        _ms("feed-forward", prompt["mlp"], right["gate_up"].total_s + right["down"].total_s),
        _ms("activation", prompt["gelu"], right["activation"].total_s),
        _ms("collectives", exchanged, 2 * right["mlp_all_reduce"].total_s),
        _ms("of eight ranks", exchanged, 2 * all_links),
    ]


def _of_the_model(device: NotebookDevice) -> list[Deviation]:
    said = model_seconds(device)
    prefill, decode = (pass_seconds(device, LLAMA_65B, WAYS, step) for step in (PREFILL, DECODE))
    right = {
        step: sum(t.total_s for t in layer_times(device, LLAMA_65B, WAYS, step).values())
        for step in (PREFILL, DECODE)
    }
    ends = sum(time.total_s for time in end_times(device, LLAMA_65B, WAYS, PREFILL).values())
    return [
        _ms("prefill layer", layer_seconds(device, PROMPT)["total"], right[PREFILL]),
        _ms("decode layer", layer_seconds(device, DECODED)["total"], right[DECODE]),
        _ms("embedding and logits", 0.0, ends),
        _ms("prefill", said["prefill"], prefill),
        _ms("decode of one token", said["decode"], decode),
        _ms("prompt and output", said["total"], prefill + OUTPUT * decode),
    ]
