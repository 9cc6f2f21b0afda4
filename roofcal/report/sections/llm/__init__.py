"""Estimates of language models: throughput, latency, and what fits."""

from collections.abc import Iterator
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from roofcal.report.data.derived import DerivedTable
from roofcal.report.data.drawing import recipe_colour
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import count, number, text, texts
from roofcal.report.kit.numbers import count_of, scaled
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, Section, derived_contents, derived_file
from roofcal.report.sections.llm.chart import llm_chart

FILE: Final = "llm.csv"
LABELS: Final = ("model", "recipe", "fits")
_TIMES: Final = tuple(
    f"{name}{end}" for name in ("first_token", "decode_step") for end in ("_s", "_low_s", "_high_s")
)
_RATES: Final = ("decode_tokens_per_s", "decode_tokens_per_s_low", "decode_tokens_per_s_high")
NUMBERS: Final = (
    *("tensor_parallel", "pipeline_parallel", "batch", "largest_batch", "weight_bytes_per_gpu"),
    *_TIMES,
    *_RATES,
)
_END: Final = "end of the 95 % interval"
COLUMNS: Final = (
    *texts("model", "recipe"),
    count("tensor_parallel", "tp"),
    count("pipeline_parallel", "pp"),
    text("fits", "fits"),
    number("weight_bytes_per_gpu", "weights", "GB per GPU", 1e-9),
    number("first_token_s", "first token", "ms", 1e3, about="one request"),
    number("decode_step_s", "per token", "ms", 1e3, about="one request"),
    number("decode_step_low_s", "low", "ms", 1e3, about=_END),
    number("decode_step_high_s", "high", "ms", 1e3, about=_END),
    text("decode_bound_by", "bound by", "the part that takes most of a token's time"),
    count("largest_batch", "largest batch"),
    number("most", "decode there", "tokens/s", 1, about="all requests of the largest batch"),
    number("most_low", "low", "tokens/s", 1, about=_END),
    number("most_high", "high", "tokens/s", 1, about=_END),
)
_ACROSS: Final = 3
_COLOURS: Final = {"int4": styles.PURPLE}  # of a recipe that no op has


def one_row_per_cut(table: pd.DataFrame) -> pd.DataFrame:
    """One row per model, recipe and cut: times of one request, throughput of the largest batch."""
    keys = ["model", "recipe", "tensor_parallel", "pipeline_parallel"]
    one = table[table["batch"] == 1]
    last = table[table["batch"] == table["largest_batch"]]
    most = last[[*keys, *_RATES]].rename(
        columns=dict(zip(_RATES, ("most", "most_low", "most_high"), strict=True))
    )
    return one.merge(most, on=keys, how="left")


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    estimates = derived.rows
    if estimates.empty:
        yield absence("This run has no estimates of language models.")
        return
    yield from writer.figures(draw_llm(estimates), source=FILE, command=derived.command)
    name = "Language models by recipe and cut: one request, and the largest batch that fits"
    yield writer.table("llm-cuts", name, one_row_per_cut(estimates), COLUMNS, FILE)


def draw_llm(table: pd.DataFrame) -> Picture | None:
    """Lines over the batches of llm.csv; None if no model fits.

    Each model runs on as few GPUs as hold most of its recipes; pipelines stand in the table alone.
    """
    rows = _drawn_rows(table)
    if rows.empty:
        return None
    models = sorted(set(rows["model"]))
    with styles.look():
        figure = styles.new_figure(250 * -(-len(models) // _ACROSS) + 30)
        panels = styles.panel_grid(figure, len(models), _ACROSS)
        for axes, model in zip(panels, models, strict=True):
            _panel(axes, rows[rows["model"] == model])
        handles = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        recipes = [recipe for recipe in dict.fromkeys(table["recipe"]) if recipe in handles]
        figure.legend(
            [handles[recipe] for recipe in recipes],
            recipes,
            loc="outside upper center",
            ncols=len(recipes),
        )
        figure.supxlabel("time per token of one request", fontsize=11)
        figure.supylabel("tokens per second of all requests", fontsize=11)
    alt = "Throughput against time per token, one panel per model."
    chart = llm_chart(
        rows, {recipe: _COLOURS.get(recipe) or recipe_colour(recipe) for recipe in recipes}
    )
    return Picture(key="llm", figure=figure, alt=alt, facts=_facts(rows), op="llm", chart=chart)


def _drawn_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with times of each model, at the tensor-parallel degree that the figure shows."""
    flat = table[(table["pipeline_parallel"] == 1) & table["decode_step_s"].notna()]
    parts = [
        group[group["tensor_parallel"] == _degree(group)] for _, group in flat.groupby("model")
    ]
    return pd.concat(parts) if parts else flat


def _degree(rows: pd.DataFrame) -> int:
    """The smallest degree at which most recipes fit with several batches."""
    several = rows[rows["batch"] > 1]
    fitting = several.groupby("tensor_parallel")["recipe"].nunique()
    if fitting.empty:
        return int(rows["tensor_parallel"].min())
    return int(fitting[fitting == fitting.max()].index.min())


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    for recipe in dict.fromkeys(map(str, rows["recipe"])):
        line = rows[rows["recipe"] == recipe].sort_values("batch")
        colour, times = _COLOURS.get(recipe) or recipe_colour(recipe), line["decode_step_s"]
        axes.plot(
            times,
            line["decode_tokens_per_s"],
            color=colour,
            marker="o",
            markersize=3.5,
            label=recipe,
        )
        if len(line) > 1:  # one point has no line to put a band around
            axes.fill_between(
                times,
                line["decode_tokens_per_s_low"],
                line["decode_tokens_per_s_high"],
                color=colour,
                alpha=0.12,
                linewidth=0,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    styles.log_axis(axes.xaxis, "s")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    styles.log_axis(axes.yaxis, "")
    degree = int(rows["tensor_parallel"].iloc[0])
    axes.set_title(f"{rows['model'].iloc[0]}, {count_of(degree, 'GPU')}")


def _facts(rows: pd.DataFrame) -> str:
    # models stand on different numbers of GPUs, so that rates are compared per GPU
    rate = rows["decode_tokens_per_s"] / rows["tensor_parallel"]
    best = row_of_largest(rows.assign(rate_per_gpu=rate), "rate_per_gpu")
    quickest = row_of_largest(rows.assign(speed=1 / rows["decode_step_s"]), "speed")
    gpus, gpus_of_quickest = (
        count_of(int(row["tensor_parallel"]), "GPU") for row in (best, quickest)
    )
    step = scaled(float(quickest["decode_step_s"]), "s")
    return (
        f"{count_of(rows['model'].nunique(), 'model')}. Most tokens per second and GPU: "
        f"{best['rate_per_gpu']:,.0f} ({best['model']} in {best['recipe']} on {gpus}, batch "
        f"{best['batch']:,}); least time per token: {step} "
        f"({quickest['model']} in {quickest['recipe']} on {gpus_of_quickest})."
    )


def _answer(derived: DerivedTable) -> Answer:
    rows = derived.rows if derived.rows.empty else _drawn_rows(derived.rows)
    if rows.empty:
        return Answer("Cannot be told here: this run has no estimate of a model.", is_open=True)
    return Answer(f"Estimates from calibrated parts, none was run: {_facts(rows)}")


SECTION = Section(
    "Language models",
    "models",
    derived_contents(FILE, LABELS, NUMBERS),
    _blocks,
    tables=derived_file,
    answer=_answer,
    lead=("llm",),
)
