"""The figures of the notebook on MI300X inference: its own configuration, its own formulas.

The notebook prints them for llama-65B in fp16 on eight MI300X, prompt 2048; where its printed
output is cut off, in decode, they are what its code computes. docs/models.md lists what is wrong
with each. The source is the seed mi300_llm_inference_roofline_notebook.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from roofcal.core.units import GB
from roofcal.models.wave.notebook.device import load_notebook_device
from roofcal.models.wave.notebook.estimate import GPUS, corrected, printed
from roofcal.models.wave.notebook.llama import DECODED, PROMPT, SPLIT, layer_seconds, model_seconds

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
    "python -m roofcal llm --model roofcal/models/wave/notebook/llama-65b.yaml "
    f"--device amd-mi300x --by wave --tp {SPLIT.tensor_ranks} --pp {SPLIT.pipeline_ranks}"
)


def as_dict() -> dict[str, Any]:
    """The figures as JSON values in SI units, those of the first cell also corrected."""
    device = load_notebook_device()
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
