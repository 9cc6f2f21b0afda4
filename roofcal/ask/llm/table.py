"""Estimates of every model of config/models in every recipe and way to cut it, as CSV.

One row per model, recipe, cut and batch: batches 1, 4, 16, ... and the largest that fits. A cut
whose weights leave no room for one request has one row without times. What a model is not cut into
(heads that do not divide), and what a device without a link cannot do, has no row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

from roofcal.ask.llm.answer import as_dict
from roofcal.ask.llm.architecture import check_parallel
from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.memory import Memory, memory_of
from roofcal.ask.llm.prices import can_price, recipes_of
from roofcal.ask.llm.workload import Question, Workload
from roofcal.core.devices import DeviceSpec
from roofcal.core.language_models import LanguageModel
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.models.sources import Sources

PROMPT: Final = 2048
OUTPUT: Final = 256
CUTS: Final = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2))  # tensor parallel, pipeline stages
_STEP: Final = 4  # a batch is so many times the one before
COLUMNS: Final = (
    *("model", "recipe", "tensor_parallel", "pipeline_parallel"),
    *("prompt_tokens", "output_tokens", "fits", "batch", "largest_batch"),
    *("weight_bytes_per_gpu", "needed_bytes_per_gpu", "usable_bytes_per_gpu"),
    *("first_token_s", "first_token_low_s", "first_token_high_s"),
    *("decode_step_s", "decode_step_low_s", "decode_step_high_s"),
    *("decode_tokens_per_s", "decode_tokens_per_s_low", "decode_tokens_per_s_high"),
    *("output_tokens_per_s", "output_tokens_per_s_low", "output_tokens_per_s_high"),
    *("prefill_bound_by", "decode_bound_by"),
)


def run_table(
    run: Path, calibration: Path, spec: DeviceSpec | None, models: Mapping[str, LanguageModel]
) -> str:
    """The table of a run folder as CSV; its header alone where nothing can be priced.

    Raises PredictError for the calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name), spec=spec)
    text = StringIO()
    text.write(",".join(COLUMNS) + "\n")
    for row in rows(sources, models):
        text.write(",".join(_cell(row.get(name)) for name in COLUMNS) + "\n")
    return text.getvalue()


def rows(sources: Sources, models: Mapping[str, LanguageModel]) -> Iterator[dict[str, Any]]:
    """Rows of all models that have an architecture, on a device that can be priced."""
    if not can_price(sources):
        return
    recipes = recipes_of(sources)
    for model in models.values():
        for tensor, pipeline in CUTS if model.architecture else ():
            if _possible(model, sources, tensor, pipeline):
                for recipe in recipes:
                    yield from _rows_of(sources, _question(model, recipe, tensor, pipeline))


def _possible(model: LanguageModel, sources: Sources, tensor: int, pipeline: int) -> bool:
    linked = sources.spec is not None and sources.spec.link_bytes_per_s is not None
    try:
        check_parallel(model, tensor, pipeline)
    except PredictError:  # a cut that the model has not: the table says so by leaving it out
        return False
    return linked or tensor * pipeline == 1


def _question(model: LanguageModel, recipe: str, tensor: int, pipeline: int) -> Question:
    load = Workload(batch=1, prompt=PROMPT, output=OUTPUT)
    return Question(model=model, recipe=recipe, tensor=tensor, pipeline=pipeline, workload=load)


def _rows_of(sources: Sources, one: Question) -> Iterator[dict[str, Any]]:
    memory = memory_of(one, sources.spec.dram_bytes if sources.spec else 0.0)
    if not memory.fits:
        yield _without_times(one, memory)
        return
    for batch in _batches(memory.largest_batch):
        asked = replace(one, workload=replace(one.workload, batch=batch))
        yield as_dict(estimate(asked, sources), operators=False) | {"fits": "yes"}


def _without_times(one: Question, memory: Memory) -> dict[str, Any]:
    return {
        "model": one.model.model,
        "recipe": one.recipe,
        "tensor_parallel": one.tensor,
        "pipeline_parallel": one.pipeline,
        "prompt_tokens": one.workload.prompt,
        "output_tokens": one.workload.output,
        "fits": "no",
        "batch": one.workload.batch,
        "largest_batch": memory.largest_batch,
        "weight_bytes_per_gpu": memory.weight_bytes,
        "needed_bytes_per_gpu": memory.needed_bytes,
        "usable_bytes_per_gpu": memory.usable_bytes,
    }


def _batches(largest: int) -> list[int]:
    """1, 4, 16, ... below the largest, and the largest."""
    found, batch = [], 1
    while batch < largest:
        found.append(batch)
        batch *= _STEP
    return [*found, largest]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
