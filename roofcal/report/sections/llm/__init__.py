"""Estimates of language models: throughput, latency, and what fits."""

from collections.abc import Iterator
from typing import Any, Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.drawing import STEP_TIP, recipe_colour
from roofcal.report.data.provenance import derived_table
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import Table, absence
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import count, named, number, text
from roofcal.report.kit.numbers import count_of, scaled
from roofcal.report.section import Answer, CsvTable, Item, Section

FILE: Final = "llm.csv"
LABELS: Final = ("model", "recipe", "fits")
_RATES: Final = ("decode_tokens_per_s", "decode_tokens_per_s_low", "decode_tokens_per_s_high")
NUMBERS: Final = (
    *("tensor_parallel", "pipeline_parallel", "batch", "largest_batch", "weight_bytes_per_gpu"),
    *("first_token_s", "first_token_low_s", "first_token_high_s"),
    *("decode_step_s", "decode_step_low_s", "decode_step_high_s"),
    *_RATES,
)
_END: Final = "end of the 95 % interval"
COLUMNS: Final = (
    *named("model", "recipe"),
    count("tensor_parallel", "tp"),
    count("pipeline_parallel", "pp"),
    *named("fits"),
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
_COLOURS: Final = {"int4": charts.PURPLE}  # of a recipe that no op has


def show(analysis: Analysis) -> Iterator[Item]:
    """The estimates of llm.csv: a figure, and a row per cut."""
    estimates, command = derived_table(analysis.run, FILE, LABELS, NUMBERS)
    picture = draw_llm(estimates, command)
    if picture is None:
        yield Answer("Cannot be told here: this run has no estimate of a model.", is_open=True)
    else:
        yield Answer(
            f"{picture.facts} No model was run: times are sums of calibrated parts, casts included."
        )
    if estimates.empty:
        yield absence("This run has no estimates of language models.")
        return
    yield CsvTable(FILE, estimates)
    yield picture
    keys = ["model", "recipe", "tensor_parallel", "pipeline_parallel"]
    last = estimates.loc[estimates["batch"] == estimates["largest_batch"], [*keys, *_RATES]]
    last.columns = pd.Index([*keys, "most", "most_low", "most_high"])
    cuts = estimates[estimates["batch"] == 1].merge(last, on=keys, how="left")
    name = "Language models by recipe and cut: one request, and the largest batch that fits"
    yield Table("llm-cuts", name, cuts, COLUMNS, FILE)


def draw_llm(table: pd.DataFrame, command: str) -> Picture | None:
    """Lines over the batches of llm.csv with their intervals, a panel per model.

    None if no model fits. Each model runs on as few GPUs as hold most of its recipes; pipelines
    stand in the table alone. `command` prints the table.
    """
    flat = table[(table["pipeline_parallel"] == 1) & table["decode_step_s"].notna()]
    if flat.empty:
        return None
    shown = [
        group[group["tensor_parallel"] == _degree(group)] for _, group in flat.groupby("model")
    ]
    rows = pd.concat(shown, ignore_index=True)
    recipes = [name for name in dict.fromkeys(table["recipe"]) if name in set(rows["recipe"])]
    colours = {recipe: _COLOURS.get(recipe) or recipe_colour(recipe) for recipe in recipes}
    gpus = rows.groupby("model", sort=True)["tensor_parallel"].first()
    points = rows.assign(colour=rows["recipe"].map(colours), marker="o", dashed=0)
    points = points.assign(gpus=rows["tensor_parallel"])
    low, high = _RATES[1:]
    return Picture(
        key="llm",
        op="llm",
        source=FILE,
        command=command,
        x=charts.Axis("decode_step_s", "time per token of one request", unit="s"),
        y=charts.Axis("decode_tokens_per_s", "tokens/s of all requests"),
        layers=[
            charts.Layer("area", detail="recipe", low=low, high=high),
            charts.Layer("line", detail="recipe"),
            charts.Layer("dots", size=42),
        ],
        tables={"points": points},
        panels=[
            charts.Panel(
                title=f"{model}, {count_of(int(count), 'GPU')}", where={"model": model}, height=230
            )
            for model, count in gpus.items()
        ],
        tips=(
            charts.Tip("recipe", "recipe"),
            charts.Tip("batch", "batch", "count"),
            STEP_TIP,
            charts.Tip("decode_tokens_per_s", "tokens/s", "count", low=low, high=high),
            charts.Tip("first_token_s", "first token", "si", "s"),
            charts.Tip("decode_bound_by", "bound by"),
        ),
        legend=charts.swatches("recipe", colours),
        columns=3,
        alt="Throughput against time per token, one panel per model.",
        facts=_facts(rows, table),
    )


def _degree(rows: pd.DataFrame) -> int:
    """The smallest degree at which most recipes fit with several batches."""
    several = rows[rows["batch"] > 1]
    fitting = several.groupby("tensor_parallel")["recipe"].nunique()
    if fitting.empty:
        return int(rows["tensor_parallel"].min())
    return int(fitting[fitting == fitting.max()].index.min())


def _facts(rows: pd.DataFrame, table: pd.DataFrame) -> str:
    # models stand on different numbers of GPUs, so that rates are compared per GPU
    rows = rows.assign(
        rate=rows["decode_tokens_per_s"] / rows["tensor_parallel"], speed=1 / rows["decode_step_s"]
    )
    most, quickest = row_of_largest(rows, "rate"), row_of_largest(rows, "speed")
    step = scaled(float(quickest["decode_step_s"]), "s")
    sentences = [
        f"Least time per token: {_winners(rows, 'speed')}; at best {step}, by {_where(quickest)}.",
        f"Most tokens per second and GPU: {_winners(rows, 'rate')}; at best {most['rate']:,.0f}, "
        f"by {_where(most)}.",
    ]
    drawn = pd.MultiIndex.from_frame(rows[["model", "recipe"]])
    every = table[["model", "recipe"]].drop_duplicates()
    absent = every[~pd.MultiIndex.from_frame(every).isin(drawn)].groupby("model", sort=False)
    if which := [f"{model} in {', '.join(recipes)}" for model, recipes in absent["recipe"]]:
        why = "too large for the GPUs drawn, or no kernel runs it on so many"
        sentences.append(f"Not drawn ({why}): {'; '.join(which)}.")
    return " ".join(sentences)


def _winners(rows: pd.DataFrame, key: str) -> str:
    """'int4 in 5 models, fp8_axiswise in 2': recipes that reach most of `key`, by model."""
    first = rows.loc[rows.groupby("model")[key].idxmax(), "recipe"].value_counts()
    (recipe, count), *others = first.items()
    words = [f"{recipe} in {count_of(int(count), 'model')}"]
    return ", ".join([*words, *(f"{other} in {number}" for other, number in others)])


def _where(row: "pd.Series[Any]") -> str:
    gpus = count_of(int(row["tensor_parallel"]), "GPU")
    return f"{row['model']} in {row['recipe']} on {gpus} at batch {row['batch']:,}"


SECTION = Section("Language models", "models", show, lead=("llm",))
