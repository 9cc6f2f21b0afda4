"""Learning curves: error on probes left out of a fit, by the number of probes fitted on."""

from collections.abc import Iterator
from typing import Final

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from roofcal.report.data.derived import DerivedTable
from roofcal.report.data.drawing import in_recipe_order, recipe_colour, recipe_colours
from roofcal.report.data.op_pages import headline_op
from roofcal.report.kit import styles
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.columns import count, fraction, texts
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, derived_contents, derived_file

FILE: Final = "learning.csv"
CURVE: Final = ("op", "recipe", "provider")
NUMBERS: Final = ("probes", "repetition", "held_out", "mape", "median", "p95")
COLUMNS: Final = (
    *texts(*CURVE),
    count("probes", "probes fitted on"),
    count("held_out", "judged on"),
    count("repetitions", "repetitions"),
    fraction("mape", "MAPE"),
    fraction("mape_low", "lowest"),
    fraction("mape_high", "highest"),
    fraction("median", "median"),
    fraction("p95", "95th percentile"),
)
_PROBES: Final = (8, 10, 12, 15, 20, 30, 50, 80, 120, 200, 300, 500)
_PERCENT: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_ACROSS: Final = 4


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    curves = derived.rows
    if curves.empty:
        return
    yield from writer.figures(draw_learning(curves), source=FILE, command=derived.command)
    name = "Error on probes left out, by number of probes fitted on; middle repetition"
    yield writer.table("learning-points", name, middle_repetitions(curves), COLUMNS, FILE)


def middle_repetitions(curves: pd.DataFrame) -> pd.DataFrame:
    """One row per curve and number of probes: the middle repetition of each error, MAPE's range."""
    rows = curves.groupby([*CURVE, "probes"], sort=False, as_index=False)
    return rows.agg(
        held_out=("held_out", "first"),
        repetitions=("repetition", "nunique"),
        mape=("mape", "median"),
        mape_low=("mape", "min"),
        mape_high=("mape", "max"),
        median=("median", "median"),
        p95=("p95", "median"),
    )


def draw_learning(table: pd.DataFrame) -> Picture | None:
    """One panel per op and provider of learning.csv, one line per recipe; None for an empty table.

    A line is the middle repetition, its band reaches from the lowest to the highest. The op that
    the report is about comes first.
    """
    if table.empty:
        return None
    rows = table.assign(percent=100 * table["mape"])
    pairs = list(dict.fromkeys(zip(rows["op"], rows["provider"], strict=True)))
    pairs.sort(key=lambda pair: pair[0] != headline_op())
    with styles.look():
        figure = styles.new_figure(80 + 300 * -(-len(pairs) // _ACROSS))
        panels = styles.panel_grid(figure, len(pairs), _ACROSS, sharey=True)
        for axes, (op, provider) in zip(panels, pairs, strict=True):
            _panel(axes, rows[(rows["op"] == op) & (rows["provider"] == provider)])
            axes.set_title(f"{op}, {provider}")
        for axes in panels[::_ACROSS]:
            axes.set_ylabel("MAPE of probes left out")
        ops = dict.fromkeys(op for op, _ in pairs)
        recipes = [r for op in ops for r in in_recipe_order(rows[rows["op"] == op]["recipe"], op)]
        styles.legend(figure, styles.colour_lines(recipe_colours(recipes)))
    return Picture(
        key="learning",
        figure=figure,
        op=str(pairs[0][0]),
        alt="Error on probes left out by the number of probes fitted on.",
        facts=_facts(table),
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
    axes.set_xscale("log")
    styles.fixed_ticks(axes.xaxis, _PROBES)
    axes.set_yscale("log")
    styles.fixed_ticks(axes.yaxis, _PERCENT, "\N{NO-BREAK SPACE}%")
    axes.set(xlabel="probes fitted on", ylabel="")


def _facts(table: pd.DataFrame) -> str:
    """Per op the mean over its curves with the fewest probes and with the most."""
    parts = []
    for op, rows in middle_repetitions(table).groupby("op", sort=False):
        probes = rows.groupby(["recipe", "provider"])["probes"]
        fewest, most = rows.loc[probes.idxmin()], rows.loc[probes.idxmax()]
        parts.append(
            f"{op}: {percent(float(fewest['mape'].mean()))} on average with the fewest probes, "
            f"{percent(float(most['mape'].mean()))} with the most, over "
            f"{count_of(len(fewest), 'curve')}"
        )
    return f"MAPE of {'; of '.join(parts)}."


SECTION = Section(
    "Learning curve", "trust", derived_contents(FILE, CURVE, NUMBERS), _blocks, tables=derived_file
)
