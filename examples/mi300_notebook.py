"""The notebook on LLM inference on the MI300X: its own device and formulas, its printed figures.

    python examples/mi300_notebook.py [--json]

The notebook prints them for llama-65B in fp16 on eight MI300X, prompt 2048; where its printed
output is cut off, in decode, they are what its code computes. The formulas are its own,
inconsistencies and all; docs/models.md says what is wrong with each, and `corrected` answers the
questions of its first cell without these mistakes. llama-65b.yaml beside this file is its model
for `roofcal llm`. The source is the seed mi300_llm_inference_roofline_notebook.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from roofcal.core.devices import WaveDevice
from roofcal.core.units import GB, GIB, KIB


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


WIDTH: Final = 2  # bytes of an element, fp16
PARAMETERS: Final = 65e9
GPUS: Final = 8
OUTPUT: Final = 32  # tokens
LLAMA_65B: Final = Transformer(
    model_dim=8192, hidden_dim=22016, layers=80, heads=64, kv_heads=64, vocabulary=32000
)
SPLIT: Final = Parallelism(tensor_ranks=2, pipeline_ranks=4)
PROMPT: Final = 2048
DECODED: Final = 16  # rows of its one decode step


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookDevice(WaveDevice):
    """A wave device with the numbers that only the notebook's own formulas use, in SI.

    launch_loss              taken off the efficiency of every product
    write_bytes_per_clock    of a compute unit
    operand_depth            K between two stores of a tile in LDS
    estimate_*               bandwidth and fractions of the first cell, which differ from the second
    """

    launch_loss: float
    write_bytes_per_clock: float
    write_fraction: float
    operand_depth: int
    normalisation_bytes_per_element: float
    estimate_dram_bytes_per_s: float
    estimate_memory_fraction: float
    estimate_matrix_fraction: float


# The notebook's own numbers and none else, from its system_config and the code of its operators.
# The MI300X by public sources is config/devices/amd-mi300x.yaml.
NOTEBOOK: Final = NotebookDevice(
    device="amd-mi300x-notebook",
    compute_units=304,
    clock_hz=1.5e9,  # under load; the data sheet says 2100 MHz
    matrix_flops_per_clock={"bf16": 2048},
    matrix_fraction=1,  # the clock is the one under load
    attention_fraction=0.8,  # two workgroups or more on a compute unit
    tiles=(
        *((16, 16), (16, 32), (32, 16), (32, 32), (32, 64), (64, 32), (64, 64)),
        *((64, 128), (128, 64), (128, 128), (256, 256), (256, 128)),
    ),
    attention_rows=(16, 32, 64, 128, 256),  # powers of two; an instruction takes 16 rows
    lds_bytes_per_clock=128,
    lds_bytes=64 * KIB,
    lds_reads=(2, 2),
    l2_read_bytes_per_clock=16384,
    dram_bytes=192 * GB,
    dram_bytes_per_s=6553.6 * GB,  # 6.4 Gbit/s x 8192 pins; the data sheet says 5300 GB/s
    memory_fraction=0.65,
    product_memory_fraction=0.85,  # of a product of fewer than 16 rows
    launch_s=5e-6,
    vector_per_clock=64,
    # 256 elements take 2, 2, 16, 2 and 2 clocks
    softmax_per_clock={
        **dict.fromkeys(("maximum", "subtract", "sum", "scale"), 128),
        "exponential": 16,
    },
    reduction_clocks=48,
    normalisation_reduction_clocks=88,  # six steps of 4 in a wave, 48 + 16 between waves
    # gelu: 100 clocks per 256 elements; silu, which the notebook lacks: 4 operations at 64, exp and
    # reciprocal at 16
    activation_clocks_per_element={"gelu": 0.390625, "silu": 0.1875},
    link_bytes_per_s=448 * GB,  # the sum of seven links, one to each of the other GPUs
    link_fraction=0.7,
    link_latency_s=12e-6,
    link_peers=7,
    link_ranks=8,
    launch_loss=0.05,
    write_bytes_per_clock=27,  # 8192 / 304
    write_fraction=0.8,
    operand_depth=128,
    normalisation_bytes_per_element=4,
    # its first cell: 5.3 Gbit/s x 64 x 128 pins / 8
    estimate_dram_bytes_per_s=5427.2 * GB,
    estimate_memory_fraction=0.8,
    estimate_matrix_fraction=0.85,
)


# --- the operators of its second cell, in seconds unless they are named otherwise -----------------


def rate(device: NotebookDevice) -> float:
    """Matrix operations per clock of a compute unit."""
    return device.matrix_flops_per_clock["bf16"]


def gemm_efficiency(device: NotebookDevice, rows: int, cols: int, k: int) -> float:
    """What the cache and LDS leave of the matrix rate, less the loss of the launch."""
    depth = device.operand_depth
    cached = WIDTH * ((rows + cols) * k + rows * cols)
    l2 = cached / (2 * rows * cols * k // rate(device))
    stored = WIDTH * (2 * (rows + cols) * depth + rows * cols)
    lds = stored / (2 * rows * cols * depth // rate(device))
    fed = min(device.l2_bytes_per_clock_and_unit / l2, 1, device.lds_bytes_per_clock / lds)
    return fed - device.launch_loss


def gemm_utilisation(device: NotebookDevice, m: int, n: int, tile: tuple[int, int]) -> float:
    """Tiles per compute unit over the waves they take; a tile may be a fraction of one."""
    tiles = (m / tile[0]) * (n / tile[1]) / device.compute_units
    return tiles / math.ceil(tiles)


def gemm_s(device: NotebookDevice, m: int, n: int, k: int) -> float:
    """A product on the best tile; below 16 rows or columns the skinny one."""
    if min(m, n) < 16:
        return skinny_s(device, m, n, k)
    best = max(
        gemm_efficiency(device, *tile, k) * gemm_utilisation(device, m, n, tile)
        for tile in device.tiles
    )
    clocks = 2 * m * n * k / (best * device.compute_units * rate(device))
    written = device.write_fraction * device.write_bytes_per_clock * device.compute_units
    return (clocks + m * n * WIDTH / written) / device.clock_hz + device.launch_s


def skinny_s(device: NotebookDevice, m: int, n: int, k: int) -> float:
    """The weights over the memory's bandwidth, then taken for clocks: 6e-16 of what is right."""
    elements = (n if m < 16 else m) * k
    gigabytes_per_s = device.stream_bytes_per_s / 1e9
    per_second = 1e6 * gigabytes_per_s * device.product_memory_fraction
    milliseconds = elements / GIB * WIDTH / per_second / (device.clock_hz / 1e9 * 1e6)
    return milliseconds / 1e3


def softmax_clocks(device: NotebookDevice, rows: int, cols: int) -> float:
    """Clocks of the softmax of rows x cols scores on four SIMDs of 64 lanes."""
    waves = rows * cols // 4 // 64
    clocks = sum(256 / per_clock for per_clock in device.softmax_per_clock.values())
    return waves * clocks + 2 * device.reduction_clocks


def attention_efficiency(
    device: NotebookDevice, per_unit: float, head_dim: int, rows: int, cols: int
) -> float:
    """Of the matrix rate, with `per_unit` workgroups on a compute unit."""
    share = math.floor(device.l2_bytes_per_clock_and_unit)
    clocks = rows * cols * head_dim * 2 // rate(device)
    l2 = cols * WIDTH * head_dim / clocks
    reached = min(share / l2, 1)
    softmax = softmax_clocks(device, rows, cols)
    if per_unit >= 2:
        scores = rows * cols / (clocks / reached)
        return min((rows * cols // softmax) / scores, 1) * device.attention_fraction
    if per_unit >= 1:
        return 2 * clocks / (2 * clocks / reached + softmax * (2 - per_unit))
    return per_unit * 2 * clocks / (2 * clocks / reached + softmax)


def attention_s(device: NotebookDevice, tokens: int, heads: int, head_dim: int) -> float:
    """Attention of as many tokens to themselves, rounded as the notebook rounds."""
    rows = _next_power_of_two(tokens / (device.compute_units / heads))
    per_unit = round(tokens / rows * heads / device.compute_units, 1)
    cols = 64 * KIB // (2 * head_dim * WIDTH)
    efficiency = attention_efficiency(device, per_unit, head_dim, rows, cols)
    flops = 2 * heads * (2 * tokens * head_dim * tokens)
    clocks = round(flops / (device.compute_units * rate(device) * efficiency), 4)
    return clocks / device.clock_hz


def normalisation_s(device: NotebookDevice, rows: int, columns: int) -> float:
    """Each element once over the memory's bandwidth, in fp32."""
    moved = columns * device.normalisation_bytes_per_element * rows
    return moved / device.stream_bytes_per_s


def gelu_s(device: NotebookDevice, elements: float) -> float:
    """GELU at the end of a product."""
    clocks = elements / device.compute_units * device.activation_clocks_per_element["gelu"]
    return clocks / device.clock_hz


def link_bytes_per_s(device: NotebookDevice) -> float:
    """Of all links together, whatever the number of ranks."""
    return device.link_bytes_per_s * device.link_fraction


def latency_s(device: NotebookDevice, ranks: int) -> float:
    """Of one collective."""
    return device.link_latency_s * math.log2(ranks)


def gather_s(device: NotebookDevice, columns: int, layers: int, ranks: int) -> float:
    """One row of every layer of a stage, without its latency."""
    return (ranks - 1) / ranks * layers * columns * WIDTH / link_bytes_per_s(device)


def reduce_scatter_s(device: NotebookDevice, rows: int, columns: int) -> float:
    """Every element over the links, without its latency."""
    return rows * columns * WIDTH / link_bytes_per_s(device)


def reduction_s(device: NotebookDevice, rows: int, columns: int, ranks: int) -> float:
    """Two reads and a write of every element of every rank."""
    return 3 * ranks * rows * columns * WIDTH / device.stream_bytes_per_s


def _next_power_of_two(size: float) -> int:
    """At least 2, but 1 stays 1."""
    power = 1 if size == 1 else 2
    while power < size:
        power *= 2
    return power


# --- its layer of llama-65B, in four stages of two GPUs: it rounds every operator to 0.1 us ------


def layer_seconds(device: NotebookDevice, rows: int) -> dict[str, float]:
    """Operator -> seconds, as printed, of one layer; `total` adds what the notebook adds."""
    model, ranks = LLAMA_65B, SPLIT.tensor_ranks
    dim, hidden = model.model_dim, model.hidden_dim
    latency = _round_to_print(latency_s(device, ranks))
    scattered = _round_to_print(reduce_scatter_s(device, rows, hidden))
    reduction = reduction_s(device, rows, hidden, ranks)
    gathered = gather_s(device, dim, model.layers // SPLIT.pipeline_ranks, ranks)
    times = {
        "qkv": _round_to_print(gemm_s(device, rows, 3 * dim, dim) / 2),
        "attention": _round_to_print(
            attention_s(device, rows, model.heads // ranks, dim // model.heads)
        ),
        "out": _round_to_print(gemm_s(device, rows, dim // ranks, dim)),
        "normalisation": _round_to_print(2 * normalisation_s(device, rows, dim)),
        "mlp": _round_to_print(gemm_s(device, rows, hidden // ranks, dim)),
        "gelu": _round_to_print(gelu_s(device, rows * hidden / ranks)),
        "reduce_scatter": scattered,
        "reduce_scatter_reduction": _round_to_print(2 * scattered + reduction + latency),
        "gather": _round_to_print(gathered) + latency,
    }
    counted = {**times, "normalisation": 2 * times["normalisation"], "reduce_scatter": 0.0}
    return {**times, "total": sum(counted.values())}


def model_seconds(device: NotebookDevice) -> dict[str, float]:
    """prefill, decode (one token) and their sum, of one stage of the pipeline."""
    stage = LLAMA_65B.layers / SPLIT.pipeline_ranks
    prefill, decode = (layer_seconds(device, rows)["total"] for rows in (PROMPT, DECODED))
    return {
        "prefill": stage * prefill,
        "decode": stage * decode,
        "total": _round_to_print(stage * prefill + stage * decode),
    }


def _round_to_print(seconds: float) -> float:
    """To four digits of a millisecond."""
    return round(seconds * 1e3, 4) / 1e3


# --- its first cell: bandwidth, rate, cache, batch, and times by totals of operations -------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the first cell prints.

    kv_cache         of one sequence: GiB in the notebook (it prints GB), GB when corrected
    batch            sequences that fit one GPU beside the weights
    token_size_s     time of one token by the bytes of the weights
    token_flops_s    time of one token by its operations
    token_link_s     time of its collectives
    prompt_s         computing time of the prompt
    prompt_link_s    time of the prompt's collectives
    """

    memory_bytes_per_s: float
    flops_per_s: float
    kv_cache: float
    batch: int
    token_size_s: float
    token_link_s: float
    token_flops_s: float
    prompt_s: float
    prompt_link_s: float


def printed(device: NotebookDevice) -> Estimate:
    """The notebook's figures."""
    model = LLAMA_65B
    memory = device.estimate_dram_bytes_per_s * device.estimate_memory_fraction
    peak = device.compute_units * rate(device) * device.clock_hz
    cache = _cache_bytes(model) / GIB
    exchanged = PROMPT * 2 * 4 * model.layers * model.model_dim
    prompt = 2 * _notebook_flops(model, PROMPT) / (GPUS * peak * device.estimate_matrix_fraction)
    return Estimate(
        memory_bytes_per_s=memory,
        flops_per_s=peak,
        kv_cache=cache,
        batch=int((device.dram_bytes - PARAMETERS * WIDTH) / GB - cache),
        token_size_s=2 * PARAMETERS / (GPUS * memory),
        token_link_s=2 * model.layers * device.link_latency_s,
        token_flops_s=_notebook_flops(model, 1) / (GPUS * memory),
        prompt_s=prompt,
        prompt_link_s=exchanged / link_bytes_per_s(device),
    )


def corrected(device: NotebookDevice) -> Estimate:
    """Answers to the same questions with the units and factors that the notebook lost."""
    model = LLAMA_65B
    memory = device.estimate_dram_bytes_per_s * device.estimate_memory_fraction
    peak = device.compute_units * rate(device) * device.clock_hz
    cache = _cache_bytes(model)
    exchanged = 2 * 2 * (GPUS - 1) / GPUS * PROMPT * model.model_dim * WIDTH * model.layers
    return Estimate(
        memory_bytes_per_s=memory,
        flops_per_s=peak,
        kv_cache=cache / GB,
        batch=int((device.dram_bytes - PARAMETERS * WIDTH) / cache),
        token_size_s=WIDTH * PARAMETERS / (GPUS * memory),
        token_link_s=2 * model.layers * device.link_latency_s,
        token_flops_s=WIDTH * _weights(model) / (GPUS * memory),
        prompt_s=_flops(model, PROMPT) / (GPUS * peak * device.estimate_matrix_fraction),
        prompt_link_s=exchanged / link_bytes_per_s(device),
    )


def _cache_bytes(model: Transformer) -> float:
    """K and V of one sequence of prompt and output, in all layers."""
    return 2 * WIDTH * model.model_dim * model.layers * (PROMPT + OUTPUT)


def _notebook_flops(model: Transformer, tokens: int) -> float:
    """QKV lacks a factor model_dim; the feed-forward has two matrices where llama has three."""
    dim = model.model_dim
    qkv, out, mlp = 2 * 3 * dim, 2 * dim * dim, 4 * dim * model.hidden_dim
    return model.layers * tokens * (qkv + out + mlp + 4 * tokens * dim)


def _weights(model: Transformer) -> float:
    """Elements of the weights of all layers: four matrices of attention, three of the rest."""
    return model.layers * model.model_dim * (4 * model.model_dim + 3 * model.hidden_dim)


def _flops(model: Transformer, tokens: int) -> float:
    """2 per weight and token, and causal attention: half of the scores."""
    return 2 * _weights(model) * tokens + model.layers * 2 * tokens * tokens * model.model_dim


# --- what it prints -------------------------------------------------------------------------------

_MS: Final = 1e3
# field of Estimate, what it is, unit, scale, places that the notebook prints
_FIRST_CELL: Final = (
    ("memory_bytes_per_s", "memory bandwidth", "GB/s", 1 / GB, 2),
    ("flops_per_s", "matrix rate", "TFLOP/s", 1e-12, 3),
    ("kv_cache", "KV cache of a sequence", "GB", 1, 6),
    ("batch", "largest batch", "sequences", 1, 0),
    ("token_size_s", "token, by bytes of weights", "ms", _MS, 1),
    ("token_link_s", "token, exchanging", "ms", _MS, 1),
    ("token_flops_s", "token, by operations", "ms", _MS, 4),
    ("prompt_s", "prompt, computing", "ms", _MS, 2),
    ("prompt_link_s", "prompt, exchanging", "ms", _MS, 1),
)
_LAYER: Final = (
    ("qkv", "QKV"),
    ("attention", "flash attention"),
    ("out", "output projection"),
    ("normalisation", "normalisation (counted twice)"),
    ("mlp", "feed-forward"),
    ("gelu", "GELU"),
    ("reduce_scatter", "reduce-scatter (in the next line)"),
    ("reduce_scatter_reduction", "reduce-scatter with reduction"),
    ("gather", "gather"),
    ("total", "layer"),
)
_CORRECTED: Final = (
    "roofcal llm --model examples/llama-65b.yaml "
    f"--device amd-mi300x --by wave --tp {SPLIT.tensor_ranks} --pp {SPLIT.pipeline_ranks}"
)


def as_dict() -> dict[str, Any]:
    """The figures as JSON values in SI units, those of the first cell also corrected."""
    device = NOTEBOOK
    return {
        "by": "notebook",
        "first_cell": asdict(printed(device)),
        "first_cell_corrected": asdict(corrected(device)),
        "prefill_layer_s": layer_seconds(device, PROMPT),
        "decode_layer_s": layer_seconds(device, DECODED),
        "model_s": model_seconds(device),
    }


def as_text() -> str:
    """The figures with as many places as the notebook prints."""
    return "\n".join(_lines(as_dict()))


def _lines(figures: dict[str, Any]) -> Iterator[str]:
    yield f"llama-65B in fp16 on {GPUS} x MI300X as the notebook has them, prompt {PROMPT}"
    yield ""
    yield f"{'first cell':34}{'notebook':>12}{'corrected':>12}"
    for field, name, unit, scale, places in _FIRST_CELL:
        cells = (figures[cell][field] * scale for cell in ("first_cell", "first_cell_corrected"))
        yield f"{name:34}" + "".join(f"{cell:12.{places}f}" for cell in cells) + f"  {unit}"
    yield ""
    yield f"{f'layer, tp {SPLIT.tensor_ranks}, ms':34}{'prefill':>12}{'decode':>12}"
    for key, name in _LAYER:
        seconds = (figures[f"{phase}_layer_s"][key] for phase in ("prefill", "decode"))
        yield f"{name:34}" + "".join(f"{second * _MS:12.4f}" for second in seconds)
    yield ""
    totals = {name: f"{seconds * _MS:.3f} ms" for name, seconds in figures["model_s"].items()}
    yield f"stage of pp {SPLIT.pipeline_ranks}: prefill {totals['prefill']}, decode " + (
        f"{totals['decode']}, together {totals['total']}"
    )
    yield ""
    yield "docs/models.md lists what is wrong with each figure; the same without the mistakes:"
    yield _CORRECTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, as text or for programs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="SI units, for programs")
    print(json.dumps(as_dict()) if parser.parse_args(arguments).json else as_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
