"""The crossover map: which format of the weights is fastest by tokens and shape, and how surely.

Cells have colours and words of their own in any colour scheme: a name is dark on a light tint.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from roofcal.report.kit import styles
from roofcal.report.kit.numbers import TIMES, count_of, percent, shape_text
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.mixed.tables import FORMATS, KINDS, MODES, OP, weights_by_size

_TINTS: Final = {"bf16": "#a8cbe6", "fp8": "#f0b795", "int4": "#e4bdd2"}
_NAME_COLOUR: Final = "#14181c"
_ROW_PX: Final = 19
_TITLES: Final = {"plain": "plain launches", "chained": "int4 chained, others plain"}


def draw_crossover(table: pd.DataFrame) -> Picture | None:
    """One panel per mode and kind of the table of winners; None for an empty table."""
    if table.empty:
        return None
    modes = [mode for mode in MODES if (table["mode"] == mode).any()]
    kinds = [kind for kind in KINDS if (table["kind"] == kind).any()]
    with styles.look():
        figure = _panels(table, modes, kinds)
    return Picture(
        key="mixed_crossover",
        drawn=figure,
        op=OP,
        alt="Maps of the fastest format of the weights by tokens and shape.",
        facts=_facts(table),
    )


def _panels(table: pd.DataFrame, modes: Sequence[str], kinds: Sequence[str]) -> Figure:
    tokens = sorted(set(table["m"]))
    weights = {mode: weights_by_size(table[table["mode"] == mode]) for mode in modes}
    heights = [len(weights[mode]) for mode in modes]
    figure = styles.new_figure(60 + sum(52 + _ROW_PX * height for height in heights))
    ratios = [height + 1.5 for height in heights]
    grid = figure.subplots(
        len(modes), len(kinds), squeeze=False, sharey="row", height_ratios=ratios
    )
    for line, mode in zip(grid, modes, strict=True):
        for axes, kind in zip(line, kinds, strict=True):
            cells = table[(table["mode"] == mode) & (table["kind"] == kind)]
            _panel(axes, cells, weights[mode], tokens)
            axes.set_title(f"{kind}, {_TITLES[mode]}")
    styles.label_edges(grid, "m", f"n {TIMES} k")
    handles = [Patch(facecolor=_TINTS[name], label=name) for name in FORMATS]
    handles.append(
        Patch(
            facecolor="none",
            edgecolor=styles.MUTED,
            hatch="///",
            label="hatched, with ?: uncertain",
        )
    )
    styles.legend(figure, handles, 4, 1.2)
    return figure


def _panel(
    axes: Axes, rows: pd.DataFrame, weights: Sequence[tuple[int, int]], tokens: Sequence[int]
) -> None:
    colours = np.full((len(weights), len(tokens)), np.nan)
    uncertain = np.zeros(colours.shape, dtype=bool)
    for row in rows.to_dict("records"):
        cell = weights.index((row["n"], row["k"])), tokens.index(row["m"])
        colours[cell] = FORMATS.index(row["format"])
        uncertain[cell] = row["class"] == "uncertain"
        axes.text(
            cell[1] + 0.5,
            cell[0] + 0.5,
            f"{row['format']}{'?' if uncertain[cell] else ''}",
            color=_NAME_COLOUR,
            fontsize=9.5,
            ha="center",
            va="center_baseline",
        )
    axes.pcolormesh(
        colours,  # NaN: no cell
        cmap=ListedColormap([_TINTS[name] for name in FORMATS]),
        vmin=-0.5,
        vmax=len(FORMATS) - 0.5,
    )
    strokes = styles.hatching(uncertain)
    strokes.set(color=_NAME_COLOUR, alpha=0.4, zorder=2)
    axes.add_collection(strokes)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(len(tokens)) + 0.5, [f"{m:,}" for m in tokens])
    axes.set_yticks(np.arange(len(weights)) + 0.5, [shape_text(sizes) for sizes in weights])
    axes.set(xlim=(0, len(tokens)), ylim=(len(weights), 0))


def _facts(table: pd.DataFrame) -> str:
    """Per kind and mode: how often each format wins, and how much of that is uncertain."""
    parts = []
    for (kind, mode), rows in table.groupby(["kind", "mode"], sort=False):
        shares = [
            f"{name} {percent(float((rows['format'] == name).mean()), 0)}"
            for name in FORMATS
            if (rows["format"] == name).any()
        ]
        uncertain = percent(float((rows["class"] == "uncertain").mean()), 0)
        parts.append(
            f"{kind}, {_TITLES[str(mode)]}: {', '.join(shares)} of {count_of(len(rows), 'shape')}, "
            f"{uncertain} uncertain"
        )
    return f"Fastest: {'; '.join(parts)}."
