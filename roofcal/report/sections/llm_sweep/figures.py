"""The map over tensor parallelism and pipeline stages, and throughput against latency over it."""

import math
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import count_of, scaled, significant
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.llm_sweep.chart import cut_chart, frontier_chart

_MAPS_ACROSS: Final = 4
_CURVES_ACROSS: Final = 3
_DEGREES: Final = (1, 2, 4, 8)
_COLOURS: Final = dict(
    zip(_DEGREES, (styles.BLUE, styles.GREEN, styles.ORANGE, styles.VERMILLION), strict=True)
)


def draw_map(rows: pd.DataFrame) -> Picture:
    """A panel per model: pipeline stages down, tensor parallelism across."""
    with styles.look():
        figure, panels = _panel_by_model(rows, _MAPS_ACROSS, height=190, margin=20)
        for model, axes in panels.items():
            _map_panel(axes, rows[rows["model"] == model], model)
        figure.supxlabel("tensor-parallel GPUs", fontsize=11)
        figure.supylabel("pipeline stages", fontsize=11)
    best = row_of_largest(rows, "tokens_per_s_per_gpu")
    return Picture(
        key="llm_map",
        figure=figure,
        alt="Maps of throughput per GPU over tensor parallelism and pipeline stages, by model.",
        facts=f"{count_of(len(panels), 'model')} in {rows['recipe'].iloc[0]}. {_highest(best)}",
        op="llm",
        chart=cut_chart(rows),
    )


def _panel_by_model(
    rows: pd.DataFrame, across: int, *, height: int, margin: int
) -> tuple[Figure, dict[str, Axes]]:
    """(a figure, model -> its panel); height of each line of panels and margin in pixels."""
    models = sorted(set(rows["model"]))
    figure = styles.new_figure(height * -(-len(models) // across) + margin)
    panels = styles.panel_grid(figure, len(models), across)
    return figure, dict(zip(models, panels, strict=True))


def _map_panel(axes: Axes, rows: pd.DataFrame, model: str) -> None:
    most = rows.groupby(["pipeline_parallel", "tensor_parallel"])["tokens_per_s_per_gpu"].max()
    table = most.unstack().reindex(index=_DEGREES, columns=_DEGREES)
    values = table.to_numpy(dtype=float)
    labels = np.vectorize(lambda value: "" if np.isnan(value) else significant(value, 2))(values)
    styles.ratio_heat_map(
        axes,
        values / np.nanmedian(values),
        annot=labels,
        fmt="",
        xticklabels=_DEGREES,
        yticklabels=_DEGREES,
    )
    axes.set_title(model)
    axes.set(xlabel="", ylabel="")


def draw_frontier(rows: pd.DataFrame) -> Picture:
    """A panel per model: what no other cut and batch beats, by GPUs."""
    best = rows[rows["frontier"] == "yes"]
    with styles.look():
        figure, panels = _panel_by_model(best, _CURVES_ACROSS, height=210, margin=40)
        for model, axes in panels.items():
            _frontier_panel(axes, best[best["model"] == model], model)
        labels = {count_of(gpus, "GPU"): colour for gpus, colour in _COLOURS.items()}
        styles.legend(figure, styles.colour_patches(labels))
        figure.supxlabel("time per token of one request", fontsize=11)
        figure.supylabel("tokens per second and GPU", fontsize=11)
    quickest = row_of_largest(best.assign(speed=1 / best["decode_step_s"]), "speed")
    step = scaled(float(quickest["decode_step_s"]), "s")
    return Picture(
        key="llm_frontier",
        figure=figure,
        alt="Throughput per GPU against time per token over all cuts, one panel per model.",
        facts=f"Least time per token: {step} ({quickest['model']}, {_cut(quickest)}). "
        f"{_highest(row_of_largest(best, 'tokens_per_s_per_gpu'))}",
        op="llm",
        chart=frontier_chart(best, _COLOURS),
    )


def _frontier_panel(axes: Axes, rows: pd.DataFrame, model: str) -> None:
    line = rows.sort_values("decode_step_s")
    axes.plot(line["decode_step_s"], line["tokens_per_s_per_gpu"], color=styles.MUTED, zorder=1)
    gpus = line["tensor_parallel"] * line["pipeline_parallel"]
    for count, colour in _COLOURS.items():
        own = line[gpus == count]
        axes.plot(
            own["decode_step_s"],
            own["tokens_per_s_per_gpu"],
            color=colour,
            marker="o",
            markersize=4,
            linestyle="none",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    styles.log_axis(axes.xaxis, "s")
    axes.xaxis.set_major_locator(FixedLocator(_ticks(line["decode_step_s"])))
    styles.log_axis(axes.yaxis, "")
    axes.set_title(model)


def _ticks(times: pd.Series) -> list[float]:
    """At most four round numbers within the times, closer ones within less than a decade."""
    low, high = float(times.min()), float(times.max())
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) > 1:
            return inside
    return [low, high]


def _highest(best: pd.Series) -> str:
    return (
        f"Most tokens per second and GPU: {best['tokens_per_s_per_gpu']:,.0f} ({best['model']}, "
        f"{_cut(best)}, batch {best['batch']:,})."
    )


def _cut(row: pd.Series) -> str:
    return f"tensor {row['tensor_parallel']}, pipeline {row['pipeline_parallel']}"
