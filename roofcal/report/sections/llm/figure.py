"""Throughput against latency of language models: a panel per model, a line per recipe."""

from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from roofcal.report.data.drawing import recipe_colour
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import count_of, scaled
from roofcal.report.kit.pictures import Picture

_ACROSS: Final = 3
_COLOURS: Final = {
    "int4": styles.PURPLE
}  # of recipes that no op has; others have those of their ops


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
    return Picture(key="llm", figure=figure, alt=alt, facts=_facts(rows), op="llm")


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
