"""How far the corrected formulas are from the notebook's: both run on its own device.

docs/models.md has the table that `deviations` yields, with the reason for each figure.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

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


class Deviation(NamedTuple):
    """One figure as the notebook's formula gives it and as the corrected one does."""

    name: str
    notebook: float
    corrected: float
    unit: str = "s"

    @property
    def table_row(self) -> str:
        """The start of its row in docs/models.md: name, figures and unit, seconds as ms."""
        factor, unit = (1e3, "ms") if self.unit == "s" else (1.0, self.unit)
        theirs, ours = (f"{value * factor:.4g}" for value in (self.notebook, self.corrected))
        return f"| {self.name} | {theirs} | {ours} | {unit} |"


def deviations(device: NotebookDevice) -> Iterator[Deviation]:
    """Every deviation, in the order of docs/models.md."""
    theirs, ours = printed(device), corrected(device)
    bandwidths = theirs.memory_bytes_per_s / 1e9, device.stream_bytes_per_s / 1e9
    yield Deviation("memory bandwidth", *bandwidths, "GB/s")
    yield Deviation("KV cache", theirs.kv_cache, ours.kv_cache, "GB")
    yield Deviation("batch", theirs.batch, ours.batch, "sequences")
    yield Deviation("token, by operations", theirs.token_flops_s, ours.token_flops_s)
    yield Deviation("prompt, computing", theirs.prompt_s, ours.prompt_s)
    yield Deviation("prompt, exchanging", theirs.prompt_link_s, ours.prompt_link_s)

    dim, ranks = LLAMA_65B.model_dim, SPLIT.tensor_ranks
    half = gemm_s(device, PROMPT, 3 * dim, dim) / 2
    yield Deviation("prefill qkv, halved", half, gemm_s(device, PROMPT, 3 * dim // ranks, dim))
    shapes = {
        "prefill qkv": (PROMPT, 3 * dim // ranks, dim),
        "decode qkv": (DECODED, 3 * dim // ranks, dim),
        "ragged product": (130, dim // ranks, dim),
        "product of few tiles": (128, 128, dim),
        "skinny product": (1, dim, dim),
    }
    for name, mnk in shapes.items():
        yield Deviation(name, gemm_s(device, *mnk), product(device, RECIPE, *mnk).total_s)

    layer, decoded = (layer_seconds(device, rows) for rows in (PROMPT, DECODED))
    steps = {step: layer_times(device, LLAMA_65B, SPLIT, step) for step in (PREFILL, DECODE)}
    prefill, decode = ({k: t.total_s for k, t in times.items()} for times in steps.values())
    heads = LLAMA_65B.heads // ranks
    unmasked = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=dim // LLAMA_65B.heads,
        query_tokens=PROMPT,
        kv_tokens=PROMPT,
        causal=False,
    )
    attention = flash_attention(device, unmasked).total_s
    yield Deviation("attention, no mask", layer["attention"], attention)
    yield Deviation("prefill attention", layer["attention"], prefill["attention"])
    yield Deviation("decode attention", decoded["attention"], decode["attention"])
    norms, own_norms = 2 * layer["normalisation"], 2 * normalisation(device, PROMPT, dim).total_s
    yield Deviation("normalisations", norms, own_norms)
    with_residuals = prefill["attention_norm"] + prefill["mlp_norm"]
    yield Deviation("normalisations with residuals", norms, with_residuals)
    yield Deviation("feed-forward", layer["mlp"], prefill["gate_up"] + prefill["down"])
    yield Deviation("activation", layer["gelu"], prefill["activation"])
    exchanged = layer["reduce_scatter_reduction"] + layer["gather"]
    yield Deviation("collectives", exchanged, 2 * prefill["mlp_all_reduce"])
    all_links = all_reduce(device, PROMPT * dim * WIDTH, device.link_ranks).total_s
    yield Deviation("collectives of eight ranks", exchanged, 2 * all_links)

    yield Deviation("prefill layer", layer["total"], sum(prefill.values()))
    yield Deviation("decode layer", decoded["total"], sum(decode.values()))
    ends = end_times(device, LLAMA_65B, SPLIT, PREFILL).values()
    yield Deviation("embedding and logits", 0.0, sum(time.total_s for time in ends))
    whole = model_seconds(device)
    own = [pass_seconds(device, LLAMA_65B, SPLIT, step) for step in (PREFILL, DECODE)]
    yield Deviation("prefill", whole["prefill"], own[0])
    yield Deviation("decode of one token", whole["decode"], own[1])
    yield Deviation("prompt and output", whole["total"], own[0] + OUTPUT * own[1])
