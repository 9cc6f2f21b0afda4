"""Estimates as flat records: JSON of one deployment, and the CSV of a run.

The CSV has one row per model of config/models, recipe, cut and batch: batches 1, 4, 16, ... and the
largest that fits. A cut whose weights leave no room for one request has one row without times. Cuts
that do not divide a model or leave shards that no kernel of the recipe takes, and cuts over several
GPUs of a device without a link, have no row.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Final

from roofcal.ask.llm.architecture import active_parameters, check_parallel, parameters
from roofcal.ask.llm.deployment import Deployment, Memory, Workload, memory_of, with_batch
from roofcal.ask.llm.estimate import Estimate, PhaseTime, batches_up_to, estimate
from roofcal.ask.llm.operator_models import can_estimate, estimable_recipes, operator_times
from roofcal.ask.llm.operator_times import OperatorTimes
from roofcal.ask.llm.shard_limits import why_refused
from roofcal.ask.llm.text_report import assumptions
from roofcal.core.devices import DeviceSpec
from roofcal.core.language_models import LanguageModel
from roofcal.core.times import Duration, Rate
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


def as_dict(estimate: Estimate, *, operators: bool = True) -> dict[str, Any]:
    """An estimate as JSON values in SI units; `operators` adds those of both phases.

    Ends of intervals are None for a model that states none.
    """
    deployment = estimate.deployment
    answer: dict[str, Any] = {
        "model": deployment.model.model,
        "parameters": parameters(deployment.model),
        "active_parameters": active_parameters(deployment.model),
        "device": estimate.device,
        "by": estimate.by,
        "environment": estimate.environment,
        "products_by": estimate.products_by,
        **_deployment_columns(deployment, estimate.memory),
        "chunk_tokens": deployment.workload.chunk,
        "kv_cache_bytes_per_gpu": estimate.memory.kv_bytes,
        "activation_bytes_per_gpu": estimate.memory.activation_bytes,
        **_duration_columns("first_token", estimate.first_token),
        **_duration_columns("decode_step", estimate.decode.total),
        **_rate_columns("request_tokens_per_s", estimate.request_tokens_per_s),
        **_rate_columns("decode_tokens_per_s", estimate.decode_tokens_per_s),
        **_rate_columns("output_tokens_per_s", estimate.output_tokens_per_s),
        "extrapolated": estimate.doublings > 0,
        "extrapolated_doublings": estimate.doublings,
        "prefill_bound_by": estimate.prefill.bound_by,
        "decode_bound_by": estimate.decode.bound_by,
        "prefill_bubble": estimate.prefill.bubble,
        "decode_bubble": estimate.decode.bubble,
        "notes": assumptions(estimate),
    }
    if operators:
        answer["prefill"] = _operator_records(estimate.prefill)
        answer["decode"] = _operator_records(estimate.decode)
    return answer if estimate.has_interval else _without_ends(answer)


def _without_ends(value: Any) -> Any:
    """JSON values whose `..._low...` and `..._high...` are None."""
    if isinstance(value, list):
        return [_without_ends(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_end = re.compile(r"_(low|high)(_s)?$").search
    return {name: None if is_end(name) else _without_ends(item) for name, item in value.items()}


def _deployment_columns(deployment: Deployment, memory: Memory) -> dict[str, Any]:
    return {
        "model": deployment.model.model,
        "recipe": deployment.recipe,
        "tensor_parallel": deployment.tensor,
        "pipeline_parallel": deployment.pipeline,
        "prompt_tokens": deployment.workload.prompt,
        "output_tokens": deployment.workload.output,
        "batch": deployment.workload.batch,
        "largest_batch": memory.largest_batch,
        "weight_bytes_per_gpu": memory.weight_bytes,
        "needed_bytes_per_gpu": memory.needed_bytes,
        "usable_bytes_per_gpu": memory.usable_bytes,
    }


def _operator_records(phase: PhaseTime) -> list[dict[str, Any]]:
    return [
        {
            "operator": operator.name,
            "calls": operator.calls,
            **_duration_columns("call", operator.duration),
            **_duration_columns("total", operator.total),
            "bound_by": operator.bound_by,
            "provider": operator.provider or None,
            "extrapolated_doublings": operator.doublings,
            "unprobed": operator.is_unprobed,
        }
        for operator in phase.operators
    ]


def _duration_columns(name: str, duration: Duration) -> dict[str, float]:
    return {
        f"{name}_s": duration.value_s,
        f"{name}_low_s": duration.low_s,
        f"{name}_high_s": duration.high_s,
    }


def _rate_columns(name: str, rate: Rate) -> dict[str, float]:
    return {name: rate.value, f"{name}_low": rate.low, f"{name}_high": rate.high}


def run_table(
    run: Path, calibration: Path, spec: DeviceSpec | None, models: Mapping[str, LanguageModel]
) -> str:
    """The table of a run folder as CSV; its header alone where no recipe can be timed.

    Raises PredictError for the calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name), spec=spec)
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in table_rows(sources, models):
        table.writerow([_cell(row.get(name)) for name in COLUMNS])
    return text.getvalue()


def table_rows(sources: Sources, models: Mapping[str, LanguageModel]) -> Iterator[dict[str, Any]]:
    """Rows of all models that have an architecture, by COLUMNS and more."""
    if not can_estimate(sources):
        return
    times = {recipe: operator_times(sources, recipe) for recipe in estimable_recipes(sources)}
    for model in models.values():
        for tensor, pipeline in CUTS if model.architecture else ():
            if not _has_cut(model, sources, tensor, pipeline):
                continue
            for recipe, of_recipe in times.items():
                if why_refused(model, recipe, tensor, sources, calibrated.MODEL) is not None:
                    continue
                deployment = Deployment(
                    model=model,
                    recipe=recipe,
                    tensor=tensor,
                    pipeline=pipeline,
                    workload=Workload(batch=1, prompt=PROMPT, output=OUTPUT),
                )
                yield from _rows_by_batch(sources, deployment, of_recipe)


def _has_cut(model: LanguageModel, sources: Sources, tensor: int, pipeline: int) -> bool:
    try:
        check_parallel(model, tensor, pipeline)
    except PredictError:
        return False
    has_link = sources.spec is not None and sources.spec.link_bytes_per_s is not None
    return has_link or tensor * pipeline == 1


def _rows_by_batch(
    sources: Sources, deployment: Deployment, times: OperatorTimes
) -> Iterator[dict[str, Any]]:
    memory = memory_of(deployment, sources.spec.dram_bytes if sources.spec else 0.0)
    if not memory.fits:
        yield _deployment_columns(deployment, memory) | {"fits": "no"}
        return
    for batch in batches_up_to(memory.largest_batch, _BATCH_FACTOR):
        answer = estimate(with_batch(deployment, batch), sources, times=times)
        yield as_dict(answer, operators=False) | {"fits": "yes"}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
