"""How far the corrected formulas are from the notebook's: both run on its own device.

docs/models.md has the table that `deviations` yields, with the reason for each figure.
"""

from dataclasses import dataclass
from typing import Final

from examples.mi300_notebook import (
    DECODED,
    LLAMA_65B,
    OUTPUT,
    PROMPT,
    SPLIT,
    WIDTH,
    NotebookDevice,
    corrected,
    gemm_s,
    layer_seconds,
    model_seconds,
    printed,
)
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.operators import all_reduce, normalisation
from tests.roofcal.models.wave_layer import (
    RECIPE,
    Pass,
    end_times,
    layer_times,
    pass_seconds,
    product,
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
    def table_row(self) -> str:
        """The start of its row in docs/models.md: name, figures and unit."""
        return f"| {self.name} | {self.notebook:.4g} | {self.corrected:.4g} | {self.unit} |"


def deviations(device: NotebookDevice) -> list[Deviation]:
    """Every deviation, in the order of docs/models.md."""
    return [
        *_first_cell_deviations(device),
        *_product_deviations(device),
        *_operator_deviations(device),
        *_model_deviations(device),
    ]


def _milliseconds(name: str, notebook_s: float, corrected_s: float) -> Deviation:
    return Deviation(name=name, notebook=notebook_s * 1e3, corrected=corrected_s * 1e3, unit="ms")


def _first_cell_deviations(device: NotebookDevice) -> list[Deviation]:
    theirs, ours = printed(device), corrected(device)
    return [
        Deviation(
            name="memory bandwidth",
            notebook=theirs.memory_bytes_per_s / 1e9,
            corrected=device.stream_bytes_per_s / 1e9,
            unit="GB/s",
        ),
        Deviation(name="KV cache", notebook=theirs.kv_cache, corrected=ours.kv_cache, unit="GB"),
        Deviation(name="batch", notebook=theirs.batch, corrected=ours.batch, unit="sequences"),
        _milliseconds("token, by operations", theirs.token_flops_s, ours.token_flops_s),
        _milliseconds("prompt, computing", theirs.prompt_s, ours.prompt_s),
        _milliseconds("prompt, exchanging", theirs.prompt_link_s, ours.prompt_link_s),
    ]


def _product_deviations(device: NotebookDevice) -> list[Deviation]:
    dim, ranks = LLAMA_65B.model_dim, SPLIT.tensor_ranks
    shapes = {
        "prefill qkv": (PROMPT, 3 * dim // ranks, dim),
        "decode qkv": (DECODED, 3 * dim // ranks, dim),
        "ragged product": (130, dim // ranks, dim),
        "product of few tiles": (128, 128, dim),
        "skinny product": (1, dim, dim),
    }
    products = [
        _milliseconds(name, gemm_s(device, *mnk), product(device, RECIPE, *mnk).total_s)
        for name, mnk in shapes.items()
    ]
    whole = gemm_s(device, PROMPT, 3 * dim, dim) / 2
    return [_milliseconds("prefill qkv, halved", whole, products[0].notebook / 1e3), *products]


def _operator_deviations(device: NotebookDevice) -> list[Deviation]:
    theirs, theirs_decode = (layer_seconds(device, rows) for rows in (PROMPT, DECODED))
    ours = layer_times(device, LLAMA_65B, SPLIT, PREFILL)
    ours_decode = layer_times(device, LLAMA_65B, SPLIT, DECODE)
    dim, ranks = LLAMA_65B.model_dim, SPLIT.tensor_ranks
    heads = LLAMA_65B.heads // ranks
    unmasked = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=dim // LLAMA_65B.heads,
        query_tokens=PROMPT,
        kv_tokens=PROMPT,
        causal=False,
    )
    exchanged = theirs["reduce_scatter_reduction"] + theirs["gather"]
    all_links = all_reduce(device, PROMPT * dim * WIDTH, device.link_ranks).total_s
    return [
        _milliseconds(
            "attention, no mask", theirs["attention"], flash_attention(device, unmasked).total_s
        ),
        _milliseconds("prefill attention", theirs["attention"], ours["attention"].total_s),
        _milliseconds(
            "decode attention", theirs_decode["attention"], ours_decode["attention"].total_s
        ),
        _milliseconds(
            "normalisations",
            2 * theirs["normalisation"],
            2 * normalisation(device, PROMPT, dim).total_s,
        ),
        _milliseconds(
            "normalisations with residuals",
            2 * theirs["normalisation"],
            ours["attention_norm"].total_s + ours["mlp_norm"].total_s,
        ),
        _milliseconds(
            "feed-forward", theirs["mlp"], ours["gate_up"].total_s + ours["down"].total_s
        ),
        _milliseconds("activation", theirs["gelu"], ours["activation"].total_s),
        _milliseconds("collectives", exchanged, 2 * ours["mlp_all_reduce"].total_s),
        _milliseconds("collectives of eight ranks", exchanged, 2 * all_links),
    ]


def _model_deviations(device: NotebookDevice) -> list[Deviation]:
    theirs = model_seconds(device)
    prefill, decode = (pass_seconds(device, LLAMA_65B, SPLIT, step) for step in (PREFILL, DECODE))
    layers = {
        step: sum(t.total_s for t in layer_times(device, LLAMA_65B, SPLIT, step).values())
        for step in (PREFILL, DECODE)
    }
    ends = sum(time.total_s for time in end_times(device, LLAMA_65B, SPLIT, PREFILL).values())
    return [
        _milliseconds(
            "prefill layer",
            layer_seconds(device, PROMPT)["total"],
            layers[PREFILL],
        ),
        _milliseconds(
            "decode layer",
            layer_seconds(device, DECODED)["total"],
            layers[DECODE],
        ),
        _milliseconds("embedding and logits", 0.0, ends),
        _milliseconds("prefill", theirs["prefill"], prefill),
        _milliseconds("decode of one token", theirs["decode"], decode),
        _milliseconds("prompt and output", theirs["total"], prefill + OUTPUT * decode),
    ]
