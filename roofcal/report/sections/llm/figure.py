"""Throughput against latency of language models: a panel per model, a line per recipe."""

from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import count_of, scaled
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import log_axis, look, new_figure, recipe_colour

_COLUMNS: Final = 3
_LEAST_POINTS: Final = 2  # a line needs two


def draw_llm(table: pd.DataFrame) -> Picture | None:
    """Lines over the batches of `llm_section.read_estimates`; None where no model fits.

    Each model on as few GPUs as hold most of its recipes (pipelines are left to the table).
    """
    rows = _drawn_rows(table)
    if rows.empty:
        return None
    models = sorted(set(rows["model"]))
    lines = -(-len(models) // _COLUMNS)
    with look():
        figure = new_figure(250 * lines + 30)
        across = min(_COLUMNS, len(models))
        grid = figure.subplots(lines, across, squeeze=False)
        for axes, model in zip(grid.flat, models, strict=False):
            _panel(axes, rows[rows["model"] == model])
        for axes in grid.flat[len(models) :]:
            axes.set_visible(False)
        named = {
            label: handle
            for axes in grid.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        shown = [recipe for recipe in dict.fromkeys(table["recipe"]) if recipe in named]
        handles = [named[recipe] for recipe in shown]
        figure.legend(handles, shown, loc="outside upper center", ncols=len(shown))
        figure.supxlabel("time per token of one request", fontsize=11)
        figure.supylabel("tokens per second of all requests", fontsize=11)
    facts = _facts(rows)
    alt = f"Throughput against time per token, one panel per model. {facts}"
    return Picture(key="llm", figure=figure, alt=alt, facts=facts, op="llm")


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
    for recipe in dict.fromkeys(rows["recipe"]):
        line = rows[rows["recipe"] == recipe].sort_values("batch")
        colour, times = recipe_colour(str(recipe)), line["decode_step_s"]
        axes.plot(
            times,
            line["decode_tokens_per_s"],
            color=colour,
            marker="o",
            markersize=3.5,
            label=str(recipe),
        )
        if len(line) >= _LEAST_POINTS:
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
    log_axis(axes.xaxis, "s")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    log_axis(axes.yaxis, "")
    degree = int(rows["tensor_parallel"].iloc[0])
    axes.set_title(f"{rows['model'].iloc[0]}, {count_of(degree, 'GPU')}")


def _facts(rows: pd.DataFrame) -> str:
    best = row_of_largest(rows, "decode_tokens_per_s")
    quickest = row_of_largest(rows.assign(speed=1 / rows["decode_step_s"]), "speed")
    gpus = count_of(int(best["tensor_parallel"]), "GPU")
    step = scaled(float(quickest["decode_step_s"]), "s")
    return (
        f"{count_of(rows['model'].nunique(), 'model')}. Most tokens per second: "
        f"{best['decode_tokens_per_s']:,.0f} ({best['model']} in {best['recipe']} on {gpus}, batch "
        f"{best['batch']:,}); least time per token: {step} "
        f"({quickest['model']} in {quickest['recipe']})."
    )
