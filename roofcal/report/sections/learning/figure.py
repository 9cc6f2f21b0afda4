"""Learning curves: error on probes that were not fitted, by the number of those that were."""

from typing import Any, Final

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import by_recipe_order, look, new_figure, recipe_colour
from roofcal.report.sections.learning.table import by_probes

_PROBES: Final = (8, 10, 12, 15, 20, 30, 50, 80, 120, 200, 300, 500)
_ACROSS: Final = 4
_PERCENT: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def draw_learning(table: pd.DataFrame) -> Picture | None:
    """One panel per op and provider of `learning_section.read_curves`, one line per recipe.

    A line is the middle repetition, its band from the lowest to the highest. None for an empty
    table.
    """
    if table.empty:
        return None
    rows = table.assign(percent=100 * table["mape"])
    pairs = list(dict.fromkeys(zip(rows["op"], rows["provider"], strict=True)))
    pairs.sort(key=lambda pair: pair[0] != "gemm")
    with look():
        lines = -(-len(pairs) // _ACROSS)
        figure = new_figure(80 + 300 * lines)
        grid = figure.subplots(lines, min(_ACROSS, len(pairs)), squeeze=False, sharey=True)
        for axes in grid.flat[len(pairs) :]:
            axes.set_visible(False)
        for axes, (op, provider) in zip(grid.flat, pairs, strict=False):
            _panel(axes, rows[(rows["op"] == op) & (rows["provider"] == provider)])
            axes.set_title(f"{op}, {provider}")
        for axes in grid[:, 0]:
            axes.set_ylabel("MAPE of probes left out")
        _legend(figure, rows)
    facts = _facts(table)
    return Picture(
        key="learning",
        figure=figure,
        op=str(pairs[0][0]),
        alt=f"Error on probes left out by the number of probes fitted on. {facts}",
        facts=facts,
    )


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    for recipe, curve in rows.groupby("recipe", sort=False):
        sns.lineplot(
            data=curve,
            x="probes",
            y="percent",
            ax=axes,
            color=recipe_colour(str(recipe)),
            marker="o",
            markeredgewidth=0,
            estimator="median",  # the same on a logarithmic axis as on any other
            errorbar=("pi", 100),
            err_kws={"alpha": 0.15, "linewidth": 0},
            legend=False,
        )
    for axis, scale, ticks, unit in (
        (axes.xaxis, axes.set_xscale, _PROBES, ""),
        (axes.yaxis, axes.set_yscale, _PERCENT, "\N{NO-BREAK SPACE}%"),
    ):
        scale("log")
        _ticks(axis, ticks, unit)
    axes.set(xlabel="probes fitted on", ylabel="")


def _ticks(axis: Any, ticks: tuple[int, ...], unit: str) -> None:
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{unit}"))


def _legend(figure: Any, rows: pd.DataFrame) -> None:
    """All recipes in the order of their ops; an op's curves have colours of their own."""
    recipes = [
        recipe
        for op in sorted(set(rows["op"]), key=lambda name: name != "gemm")
        for recipe in by_recipe_order(list(dict.fromkeys(rows.loc[rows["op"] == op, "recipe"])), op)
    ]
    handles = [
        Line2D([], [], color=recipe_colour(name), label=name, linewidth=4)
        for name in dict.fromkeys(recipes)
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=5, handlelength=0.9)


def _facts(table: pd.DataFrame) -> str:
    """Per op the mean over its curves with the fewest probes and with the most."""
    rows = by_probes(table)
    said = []
    for op, some in rows.groupby("op", sort=False):
        curves = some.groupby(["recipe", "provider"])
        fewest, most = (
            some.loc[index] for index in (curves["probes"].idxmin(), curves["probes"].idxmax())
        )
        said.append(
            f"{op}: {percent(float(fewest['mape'].mean()))} on average with the fewest probes, "
            f"{percent(float(most['mape'].mean()))} with the most, over "
            f"{count_of(len(fewest), 'curve')}"
        )
    return f"MAPE of {'; of '.join(said)}."
