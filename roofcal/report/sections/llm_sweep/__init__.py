"""How to cut language models over GPUs: every cut over tensor parallelism and pipeline stages."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np
import pandas as pd

from roofcal.ask.llm.deployment import Deployment
from roofcal.ask.llm.operator_models import estimable_recipes
from roofcal.ask.llm.sweep import sweep
from roofcal.core import paths
from roofcal.core.language_models import load_models
from roofcal.core.units import significant
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.drawing import STEP_TIP
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import charts
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.numbers import count_of, scaled
from roofcal.report.section import CsvTable, Item, Section

_COLOURS: Final = {  # of numbers of GPUs
    1: charts.BLUE,
    2: charts.GREEN,
    4: charts.ORANGE,
    8: charts.VERMILLION,
}
_TIPS: Final = (
    charts.Tip("tensor_parallel", "tensor-parallel GPUs", "count"),
    charts.Tip("pipeline_parallel", "pipeline stages", "count"),
    charts.Tip("batch", "batch", "count"),
    charts.Tip("tokens_per_s_per_gpu", "tokens/s and GPU", "count"),
    STEP_TIP,
    charts.Tip("first_token_s", "first token", "si", "s"),
)
FILE: Final = "llm_sweep.csv"
COLUMNS: Final = (
    *("model", "recipe", "tensor_parallel", "pipeline_parallel", "batch", "largest_batch"),
    *("first_token_s", "decode_step_s", "decode_step_low_s", "decode_step_high_s"),
    *("tokens_per_s_per_gpu", "frontier"),
)
_RECIPES: Final = ("fp8_axiswise", "bf16")  # the first that can be timed is swept


def show(analysis: Analysis) -> Iterator[Item]:
    """The best batch of every cut, and what no other cut and batch beats; needs a calibration."""
    sources = Sources(calibration=analysis.run.calibration, spec=analysis.spec)
    recipes = estimable_recipes(sources)
    recipe = next((name for name in _RECIPES if name in recipes), None)
    rows = pd.DataFrame() if recipe is None else sweep_table(sources, recipe)
    if len(rows):
        command = (
            f"roofcal llm --sweep --device {analysis.device} "
            f"--environment {analysis.environment_id} --recipe {recipe} --model NAME"
        )
        yield CsvTable(FILE, rows)
        yield draw_map(rows, command)
        yield draw_frontier(rows, command)


def sweep_table(sources: Sources, recipe: str) -> pd.DataFrame:
    """The answers of all models by cut and batch."""
    rows: list[dict[str, object]] = []
    for model in load_models(paths.MODELS).values():
        if model.architecture is None:
            continue
        one = Deployment(model=model, recipe=recipe)
        with suppress(PredictError):  # too large for a host, or no link to other GPUs
            rows += sweep(one, sources, calibrated.MODEL).rows()
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(frontier=table["frontier"].map({True: "yes", False: "no"}))


def draw_map(rows: pd.DataFrame, command: str) -> Picture:
    """A panel per model, stages down, tensor parallelism across: the best batch of each cut."""
    best = rows.groupby(["model", "pipeline_parallel", "tensor_parallel"])["tokens_per_s_per_gpu"]
    points = rows.loc[sorted(best.idxmax())].reset_index(drop=True)
    rate = points["tokens_per_s_per_gpu"]
    typical = rate.groupby(points["model"]).transform("median")
    points = points.assign(
        label=[significant(value, 2) for value in rate],
        **charts.cell_colours(np.log2(rate / typical), charts.SLOWER_FASTER),
    )
    models = count_of(points["model"].nunique(), "model")
    best_row = row_of_largest(rows, "tokens_per_s_per_gpu")
    return Picture(
        key="llm_map",
        op="llm",
        source=FILE,
        command=command,
        x=charts.Axis("tensor_parallel", "tensor-parallel GPUs", "names"),
        y=charts.Axis("pipeline_parallel", "stages", "names"),
        layers=[charts.Layer("cells", detail="label")],
        tables={"points": points},
        panels=charts.facets(points, "model", 150),
        tips=_TIPS,
        columns=3,
        alt="Maps of throughput per GPU over tensor parallelism and pipeline stages, by model.",
        facts=f"{models} in {rows['recipe'].iloc[0]}. {_highest(best_row)}",
    )


def draw_frontier(rows: pd.DataFrame, command: str) -> Picture:
    """A panel per model: what no other cut and batch beats, by GPUs."""
    best = rows[rows["frontier"] == "yes"]
    gpus = best["tensor_parallel"] * best["pipeline_parallel"]
    points = best.reset_index(drop=True).assign(
        colour=gpus.map(_COLOURS).fillna(charts.MUTED).to_numpy(),
        marker="o",
        gpus=[count_of(int(count), "GPU") for count in gpus],
    )
    line = points[["model", "decode_step_s", "tokens_per_s_per_gpu"]]
    quickest = row_of_largest(best.assign(speed=1 / best["decode_step_s"]), "speed")
    step = scaled(float(quickest["decode_step_s"]), "s")
    return Picture(
        key="llm_frontier",
        op="llm",
        source=FILE,
        command=command,
        x=charts.Axis("decode_step_s", "time per token of one request", unit="s"),
        y=charts.Axis("tokens_per_s_per_gpu", "tokens/s and GPU"),
        layers=[charts.Layer("line", table="line", size=1.2), charts.Layer("dots")],
        tables={"points": points, "line": line.assign(colour=charts.MUTED, dashed=0)},
        panels=charts.facets(points, "model", 230),
        tips=_TIPS,
        legend=charts.swatches(
            "gpus",
            {count_of(n, "GPU"): colour for n, colour in _COLOURS.items() if (gpus == n).any()},
            "o",
        ),
        columns=3,
        alt="Throughput per GPU against time per token over all cuts, one panel per model.",
        facts=f"Least time per token: {step} ({quickest['model']}, {_cut(quickest)}). "
        f"{_highest(row_of_largest(best, 'tokens_per_s_per_gpu'))}",
    )


def _highest(best: pd.Series) -> str:
    return (
        f"Most tokens per second and GPU: {best['tokens_per_s_per_gpu']:,.0f} ({best['model']}, "
        f"{_cut(best)}, batch {best['batch']:,})."
    )


def _cut(row: pd.Series) -> str:
    return f"tensor {row['tensor_parallel']}, pipeline {row['pipeline_parallel']}"


SECTION = Section("How to cut language models", "models", show)
