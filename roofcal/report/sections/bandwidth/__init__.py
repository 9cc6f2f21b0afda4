"""Achieved bandwidth: memory streams, and ops that move data without computing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops.probe_copy.spec import OP as STREAMS
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import ok_rows, row_of_largest, standard_rows
from roofcal.report.kit import styles
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.numbers import binary, count_of, scaled
from roofcal.report.kit.pictures import Picture, thinned
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, whole_run
from roofcal.report.sections.bandwidth.chart import bandwidth_chart

OP: Final = STREAMS.name
_DASHES: Final[tuple[Any, ...]] = ("", (3, 2), (1, 1.5))  # "": seaborn's word for solid
_MOST_DOTS: Final = 1500
_MOST_ABREAST: Final = 5  # names in a line of the legend
_TITLES: Final = {
    "cold": "cold: the data comes from memory",
    "hot": "hot: one buffer again and again",
}

Panels = Sequence[tuple[str, pd.DataFrame]]


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    calibration, spec = analysis.run.calibration, analysis.spec
    streams = analysis.frames.get(OP)
    if streams is None or streams.empty:
        yield absence("The memory probe was not measured.")
    else:
        picture = draw_streams(streams, calibration, spec, analysis.cache_bytes)
        yield from writer.figures(picture)
    for op in analysis.studies:
        yield from writer.figures(draw_casts(analysis.frames[op], calibration, spec))


def draw_streams(
    frame: pd.DataFrame,
    calibration: Calibration | None,
    spec: DeviceSpec | None,
    cache_bytes: float | None,
) -> Picture | None:
    """Cold and hot streams beside each other; None without a stream that has a time."""
    rows = ok_rows(frame[frame["repeat"] == 0])
    rows = rows[(rows["dram_bytes"] > 0) & (rows["method"] == "graph")]
    if rows.empty:
        return None
    rows = rows.assign(size=rows["size_bytes"])
    panels = [(title, rows[rows["cache"] == name]) for name, title in _TITLES.items()]
    filled = [(title, group) for title, group in panels if len(group)]
    picture = _draw("streams", filled, "buffer size", _lines)
    drawing.draw_bandwidth_levels(picture.figure.axes, calibration, spec)
    for axes in picture.figure.axes:
        _mark_cache(axes, cache_bytes)
    chart = bandwidth_chart(filled, "buffer size", calibration, spec, cache_bytes or 0.0)
    return replace(picture, chart=chart)


def draw_casts(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per provider; None for an op that computes, or without a point with a time."""
    rows = standard_rows(frame)
    rows = rows[(rows["dram_bytes"] > 0) & (rows["flops"] == 0)]
    if rows.empty:
        return None
    rows = rows.assign(size=rows["dram_bytes"])
    panels = [(str(name), group) for name, group in rows.groupby("provider")]
    picture = _draw("cast_bandwidth", panels, "least bytes moved", _dots)
    drawing.draw_bandwidth_levels(picture.figure.axes, calibration, spec)
    chart = bandwidth_chart(panels, "least bytes moved", calibration, spec)
    return replace(picture, chart=chart)


def _draw(
    key: str, panels: Panels, x: str, plot: Callable[[Axes, pd.DataFrame, str], None]
) -> Picture:
    rows = pd.concat([group for _, group in panels])
    op = str(rows["op"].iloc[0])
    with styles.look():
        figure = styles.new_figure(340)
        grid = styles.panel_grid(figure, len(panels), len(panels), sharey=True, sharex=True)
        for axes, (title, group) in zip(grid, panels, strict=True):
            axes.set_xscale("log", base=2)
            plot(axes, group, op)
            axes.set_title(title)
            axes.set(xlabel=x, ylabel="")
            axes.set_ylim(bottom=0)
            styles.byte_axis(axes.xaxis, ticks=18 // (1 + len(panels)))
            styles.unit_axis(axes.yaxis, "B/s")
        grid[0].set_ylabel("least bytes / time")
        _legend(figure, rows, op, lines=plot is _lines)
    best = row_of_largest(rows, "achieved_bytes_per_s")
    facts = (
        f"{count_of(len(rows), 'point')}. Highest: {best['recipe']} by {best['provider']} at "
        f"{binary(float(best['size']))}, {scaled(float(best['achieved_bytes_per_s']), 'B/s')} "
        f"({best['cache']})."
    )
    alt = f"Achieved bandwidth of {op} against size."
    return Picture(key=key, figure=figure, op=op, alt=alt, facts=facts)


def _lines(axes: Axes, rows: pd.DataFrame, op: str) -> None:
    recipes, providers = drawing.in_recipe_order(rows["recipe"], op), _providers(rows)
    sns.lineplot(
        data=rows,
        x="size",
        y="achieved_bytes_per_s",
        hue="recipe",
        hue_order=recipes,
        style="provider",
        style_order=providers,
        palette=drawing.recipe_colours(recipes),
        markers={provider: drawing.provider_marker(provider) for provider in providers},
        dashes={provider: _dash(number) for number, provider in enumerate(providers)},
        estimator="median",
        errorbar=None,
        markersize=5,
        markeredgewidth=0,
        ax=axes,
        legend=False,
    )


def _dots(axes: Axes, rows: pd.DataFrame, op: str) -> None:
    """Dots without lines: shapes of equal bytes and another aspect are other points."""
    drawn = thinned(rows, _MOST_DOTS)
    for recipe in drawing.in_recipe_order(rows["recipe"], op):
        points = drawn[drawn["recipe"] == recipe]
        colour = drawing.recipe_colour(recipe)
        styles.dots(axes, points["size"], points["achieved_bytes_per_s"], colour, 24)


def _providers(rows: pd.DataFrame) -> list[str]:
    return sorted({str(provider) for provider in rows["provider"]}, reverse=True)


def _dash(number: int) -> Any:
    return _DASHES[number % len(_DASHES)]


def _mark_cache(axes: Axes, cache_bytes: float | None) -> None:
    if not cache_bytes:
        return
    axes.axvline(cache_bytes, color=styles.MUTED, linewidth=0.9, linestyle=(0, (1, 2)))
    axes.annotate(
        f"cache {binary(cache_bytes)}",
        xy=(cache_bytes, 0),
        xycoords=("data", "axes fraction"),
        xytext=(3, 4),
        textcoords="offset points",
        color=styles.MUTED,
        fontsize=10,
    )


def _legend(figure: Any, rows: pd.DataFrame, op: str, *, lines: bool) -> None:
    handles = styles.colour_lines(
        drawing.recipe_colours(drawing.in_recipe_order(rows["recipe"], op))
    )
    providers = _providers(rows)
    if lines and len(providers) > 1:
        dashes = {p: (0, _dash(n)) for n, p in enumerate(providers) if _dash(n)}
        handles += drawing.provider_lines(providers, dashes)
    styles.legend(figure, handles, min(len(handles), _MOST_ABREAST), 2.6 if lines else 0.9)


SECTION = Section("Bandwidth", "roofs", whole_run, _blocks, lead=("streams", "cast_bandwidth"))
