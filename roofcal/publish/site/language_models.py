"""Tokens per second of language models on every device, on the fewest GPUs that hold each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from roofcal.ask.llm.csv_table import OUTPUT, PROMPT
from roofcal.ask.llm.deployment import Deployment, Workload, memory_of, with_batch
from roofcal.ask.llm.estimate import datasheet_of, estimate
from roofcal.ask.llm.sweep import with_smallest_cut
from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import CALIBRATED
from roofcal.core.language_models import LanguageModel
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from roofcal.publish.site.devices import side_of
from roofcal.publish.site.points import rounded
from roofcal.publish.site.publications import Publication

BATCHES: Final = (1, 16, 64)
# Those that `llm --help` names. The models of the datasheet tell no scales apart, and every recipe
# takes a second to estimate on all devices.
_RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_axiswise", "int4")
COLUMNS: Final = (
    *("side", "model", "recipe", "gpus", "tp", "pp", "batch"),
    *("first_token_s", "first_token_low_s", "first_token_high_s"),
    *("decode_step_s", "decode_step_low_s", "decode_step_high_s", "decode_tokens_per_s"),
)


def language_model_rows(
    publications: Sequence[Publication],
    specs: Mapping[str, DeviceSpec],
    models: Mapping[str, LanguageModel],
) -> dict[str, Any]:
    """Rows by COLUMNS: by every calibration, and by wave model and datasheet of every device.

    What has no row is in `without`: [side, model, recipe, smallest batch without a row, reason].
    """
    asked: list[tuple[str, str, Sources]] = []
    for publication in publications:
        run = publication.analysis.run
        sources = Sources(calibration=run.calibration, spec=publication.analysis.spec)
        asked.append((side_of(publication), CALIBRATED, sources))
    for device, spec in specs.items():
        models_of_time = ("wave", "datasheet") if spec.wave else ("datasheet",)
        asked += [(f"{by}:{device}", by, Sources(spec=spec)) for by in models_of_time]
    without: list[list[Any]] = []
    rows = [row for question in asked for row in _rows_of_side(*question, models, without)]
    return {
        "columns": COLUMNS,
        "rows": rows,
        "without": without,
        "prompt": PROMPT,
        "output": OUTPUT,
        "batches": BATCHES,
    }


def _rows_of_side(
    side: str,
    by: str,
    sources: Sources,
    models: Mapping[str, LanguageModel],
    without: list[list[Any]],
) -> Iterator[list[Any]]:
    """Rows of all models and recipes; adds to `without` why there is none."""
    for name, model in models.items():
        for recipe in _RECIPES if model.architecture else ():
            workload = Workload(batch=1, prompt=PROMPT, output=OUTPUT)
            smallest = Deployment(
                model=model, recipe=recipe, tensor=1, pipeline=1, workload=workload
            )
            try:
                deployment = with_smallest_cut(smallest, sources, by)
            except PredictError as error:  # no GPUs hold it, no kernel runs it, no rate is known
                without.append([side, name, recipe, BATCHES[0], str(error)])
                continue
            largest = memory_of(deployment, datasheet_of(sources).dram_bytes).largest_batch
            cut = deployment.tensor, deployment.pipeline
            too_many = [batch for batch in BATCHES if batch > largest]
            if too_many:
                reason = (
                    f"the fewest GPUs that hold the model (tp {cut[0]}, pp {cut[1]}) take a batch "
                    f"of {largest} at most"
                )
                without.append([side, name, recipe, too_many[0], reason])
            for batch in (batch for batch in BATCHES if batch <= largest):
                answer = estimate(with_batch(deployment, batch), sources, by)
                times = []
                for time in (answer.first_token, answer.decode.total):
                    ends = (time.low_s, time.high_s) if answer.has_interval else (None, None)
                    times += [rounded(end) for end in (time.value_s, *ends)]
                rate = rounded(answer.decode_tokens_per_s.value)
                yield [side, name, recipe, cut[0] * cut[1], *cut, batch, *times, rate]
