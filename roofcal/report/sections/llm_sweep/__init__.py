"""How to cut language models over GPUs: every cut over tensor parallelism and pipeline stages."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pandas as pd

from roofcal.ask.llm.deployment import Deployment, Workload
from roofcal.ask.llm.operator_models import can_estimate, estimable_recipes
from roofcal.ask.llm.sweep import Sweep, frontier, sweep
from roofcal.core import paths
from roofcal.core.language_models import LanguageModel, load_models
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, filled_table
from roofcal.report.sections.llm_sweep.figures import draw_frontier, draw_map

FILE: Final = "llm_sweep.csv"
PROMPT: Final = 2048
OUTPUT: Final = 256
COLUMNS: Final = (
    *("model", "recipe", "tensor_parallel", "pipeline_parallel", "batch", "largest_batch"),
    *("first_token_s", "decode_step_s", "decode_step_low_s", "decode_step_high_s"),
    *("tokens_per_s_per_gpu", "frontier"),
)
_RECIPES: Final = ("fp8_axiswise", "bf16")  # the first that can be timed is swept


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The answers of all models by cut and batch, and the command that prints them."""

    rows: pd.DataFrame
    command: str


def _contents(analysis: Analysis) -> Swept:
    sources = Sources(calibration=analysis.run.calibration, spec=analysis.spec)
    recipes = estimable_recipes(sources) if can_estimate(sources) else ()
    recipe = next((name for name in _RECIPES if name in recipes), None)
    if recipe is None:
        return Swept(rows=pd.DataFrame(), command="")
    rows = [
        row
        for model in load_models(paths.MODELS).values()
        for row in _rows_of_model(model, recipe, sources)
    ]
    command = (
        f"python -m roofcal llm --sweep --device {analysis.device} "
        f"--environment {analysis.environment_id} --recipe {recipe} --model NAME"
    )
    return Swept(rows=pd.DataFrame(rows, columns=list(COLUMNS)), command=command)


def _rows_of_model(
    model: LanguageModel, recipe: str, sources: Sources
) -> Iterator[dict[str, object]]:
    """One row per cut and batch; none for a model that no cut of one host holds."""
    if model.architecture is None:
        return
    deployment = Deployment(
        model=model,
        recipe=recipe,
        tensor=1,
        pipeline=1,
        workload=Workload(batch=1, prompt=PROMPT, output=OUTPUT),
    )
    try:
        swept = sweep(deployment, sources, calibrated.MODEL)
    except PredictError:  # too large for a host, or no link to other GPUs
        return
    yield from _rows(swept, model.model, recipe)


def _rows(swept: Sweep, model: str, recipe: str) -> Iterator[dict[str, object]]:
    best = {id(answer) for answer in frontier(swept.answers)}
    for answer in swept.answers:
        step = answer.decode.total
        yield {
            "model": model,
            "recipe": recipe,
            "tensor_parallel": answer.deployment.tensor,
            "pipeline_parallel": answer.deployment.pipeline,
            "batch": answer.deployment.workload.batch,
            "largest_batch": answer.memory.largest_batch,
            "first_token_s": answer.first_token.value_s,
            "decode_step_s": step.value_s,
            "decode_step_low_s": step.low_s,
            "decode_step_high_s": step.high_s,
            "tokens_per_s_per_gpu": answer.tokens_per_s_per_gpu,
            "frontier": "yes" if id(answer) in best else "no",
        }


def _blocks(swept: Swept, writer: SectionWriter) -> Iterator[Block]:
    if len(swept.rows):
        pictures = draw_map(swept.rows), draw_frontier(swept.rows)
        yield from writer.figures(*pictures, source=FILE, command=swept.command)


def _tables(swept: Swept) -> Iterator[CsvTable]:
    return filled_table(FILE, swept.rows)


SECTION = Section(
    key="llm-sweep",
    title="How to cut language models",
    question="models",
    contents=_contents,
    blocks=_blocks,
    tables=_tables,
)
