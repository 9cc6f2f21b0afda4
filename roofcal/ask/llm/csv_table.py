"""The CSV of a run: estimates of language models.

It has one row per model of config/models, recipe, cut and batch: batches 1, 4, 16, ... and the
largest that fits. A cut whose weights leave no room for one request has one row without times. Cuts
that do not divide a model or leave shards that no kernel of the recipe takes, and cuts over several
GPUs of a device without a link, have no row.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from roofcal.ask.answers import csv_text
from roofcal.ask.llm.architecture import check_parallel
from roofcal.ask.llm.deployment import Deployment, Workload, memory_of, why_refused, with_batch
from roofcal.ask.llm.estimate import (
    batches_up_to,
    datasheet_of,
    deployment_record,
    estimate,
)
from roofcal.ask.llm.operator_models import can_estimate, estimable_recipes, operator_times
from roofcal.core.devices import DeviceSpec
from roofcal.core.language_models import LanguageModel
from roofcal.models import calibrated
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources

PROMPT: Final = 2048
OUTPUT: Final = 256
CUTS: Final = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2))  # tensor parallel, pipeline stages
_BATCH_FACTOR: Final = 4  # between a batch and the next
COLUMNS: Final = (
    *("model", "recipe", "tensor_parallel", "pipeline_parallel"),
    *("prompt_tokens", "output_tokens", "fits", "batch", "largest_batch"),
    *("weight_bytes_per_gpu", "needed_bytes_per_gpu", "usable_bytes_per_gpu"),
    *("first_token_s", "first_token_low_s", "first_token_high_s"),
    *("decode_step_s", "decode_step_low_s", "decode_step_high_s"),
    *("decode_tokens_per_s", "decode_tokens_per_s_low", "decode_tokens_per_s_high"),
    *("output_tokens_per_s", "output_tokens_per_s_low", "output_tokens_per_s_high"),
    *("prefill_bound_by", "decode_bound_by", "products_by", "extrapolated_doublings"),
)


def run_table(
    run: Path, calibration: Path, spec: DeviceSpec | None, models: Mapping[str, LanguageModel]
) -> str:
    """The table of a run folder as CSV; its header alone where no recipe can be timed.

    Raises PredictError for the calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name), spec=spec)
    return csv_text(COLUMNS, table_rows(sources, models))


def table_rows(sources: Sources, models: Mapping[str, LanguageModel]) -> Iterator[dict[str, Any]]:
    """Rows of all models that have an architecture, by COLUMNS and more."""
    if not can_estimate(sources):
        return
    spec = datasheet_of(sources)
    times = {recipe: operator_times(sources, recipe) for recipe in estimable_recipes(sources)}
    cuts = CUTS if spec.link_bytes_per_s is not None else CUTS[:1]
    for model in models.values():
        for tensor, pipeline in cuts if model.architecture else ():
            try:
                check_parallel(model, tensor, pipeline)
            except PredictError:
                continue
            for recipe, of_recipe in times.items():
                if why_refused(model, recipe, tensor, sources, calibrated.MODEL) is not None:
                    continue
                one = Deployment(
                    model=model,
                    recipe=recipe,
                    tensor=tensor,
                    pipeline=pipeline,
                    workload=Workload(batch=1, prompt=PROMPT, output=OUTPUT),
                )
                memory = memory_of(one, spec.dram_bytes)
                if not memory.fits:
                    yield deployment_record(one, memory) | {"fits": "no"}
                    continue
                for batch in batches_up_to(memory.largest_batch, _BATCH_FACTOR):
                    answer = estimate(with_batch(one, batch), sources, times=of_recipe)
                    yield answer.record | {"fits": "yes"}
