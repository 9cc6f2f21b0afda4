"""A roofline per op: achieved rate against arithmetic intensity."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME
from roofcal.points.roofs import ceilings, stream_rates
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.drawing import in_recipe_order, provider_marker, recipe_colour
from roofcal.report.data.tidy import axes_of, row_of_largest, standard_rows
from roofcal.report.kit import styles
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.numbers import count_of, scaled, shape_text
from roofcal.report.kit.pictures import Picture, thinned, thinning_note
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, Section, whole_run
from roofcal.report.sections.roofline.chart import above_roof_text, roofline_chart
from roofcal.report.sections.roofline.settled_rates import settled_sentences

_MOST_DOTS: Final = 1200  # per panel
_ACROSS: Final = 2


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    calibration, spec = analysis.run.calibration, analysis.spec
    for op in analysis.studies:
        yield from writer.figures(draw_roofline(analysis.frames[op], calibration, spec))


def draw_roofline(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per math dtype; None for an op that computes nothing, or without any time."""
    rows = standard_rows(frame)
    rows = rows[rows["flops"] > 0]
    if rows.empty:
        return None
    op = str(rows["op"].iloc[0])
    rows = rows.assign(math_dtype=_math_dtypes(rows), intensity=rows["flops"] / rows["dram_bytes"])
    dtypes = [str(d) for d in dict.fromkeys(rows.sort_values("recipe")["math_dtype"])]
    with styles.look():
        figure = styles.new_figure(360 * -(-len(dtypes) // _ACROSS) + 20)
        panels = styles.panel_grid(figure, len(dtypes), _ACROSS, sharex=True, sharey=True)
        for axes, dtype in zip(panels, dtypes, strict=True):
            _panel(axes, rows[rows["math_dtype"] == dtype], dtype, calibration, spec)
        _name_axes(panels, rows)
    drawn = sum(min(_MOST_DOTS, int((rows["math_dtype"] == dtype).sum())) for dtype in dtypes)
    best = row_of_largest(rows, "achieved_flops_per_s")
    rate = scaled(float(best["achieved_flops_per_s"]), "flop/s")
    shape = shape_text(best[axis] for axis in axes_of(rows))
    return Picture(
        key="roofline",
        figure=figure,
        op=op,
        alt=f"Roofline plot of {op}, one panel per number format.",
        facts=f"{count_of(len(rows), 'point')}. The fastest point is {best['recipe']} at {rate} "
        f"({shape}).{above_roof_text(rows, calibration)}{thinning_note(drawn, len(rows))}",
        chart=roofline_chart(frame, rows, calibration, spec),
    )


def _math_dtypes(rows: pd.DataFrame) -> list[str]:
    """The dtype whose datasheet rate each row runs at."""
    op, axes = BY_NAME[str(rows["op"].iloc[0])], axes_of(rows)
    first = rows.drop_duplicates("recipe").set_index("recipe")
    dtypes = {
        str(recipe): op.work(str(recipe), {axis: int(row[axis]) for axis in axes}).math_dtype
        for recipe, row in first.iterrows()
    }
    return [dtypes[recipe] or "" for recipe in rows["recipe"]]


def _panel(
    axes: Axes,
    rows: pd.DataFrame,
    dtype: str,
    calibration: Calibration | None,
    spec: DeviceSpec | None,
) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    span = np.geomspace(rows["intensity"].min() / 2, rows["intensity"].max() * 2, 200)
    _datasheet_roof(axes, span, dtype, spec)
    drawn = thinned(rows, _MOST_DOTS)
    for recipe in in_recipe_order(rows["recipe"], str(rows["op"].iloc[0])):
        _calibrated_roof(axes, span, recipe, calibration)
        _points(axes, drawn[drawn["recipe"] == recipe], recipe)
    axes.set_title(dtype)
    axes.legend(loc="lower right", handletextpad=0.1)


def _points(axes: Axes, rows: pd.DataFrame, recipe: str) -> None:
    several = rows["provider"].nunique() > 1
    for provider, group in rows.groupby("provider"):
        styles.dots(
            axes,
            group["intensity"],
            group["achieved_flops_per_s"],
            recipe_colour(recipe),
            17,
            edge=0.3,
            marker=provider_marker(str(provider)),
            label=f"{recipe}, {provider}" if several else recipe,
        )


def _datasheet_roof(axes: Axes, span: Any, dtype: str, spec: DeviceSpec | None) -> None:
    peak = spec.peak_flops_per_s.get(dtype) if spec else None
    if spec is None or peak is None:
        return
    line = np.minimum(peak, span * spec.dram_bytes_per_s)
    axes.plot(span, line, color=styles.MUTED, linestyle=styles.DASHED_LEVEL, linewidth=1.1)
    axes.annotate(
        f"datasheet {scaled(peak, 'flop/s')}, {scaled(spec.dram_bytes_per_s, 'B/s')}",
        xy=(span[-1], peak),
        xytext=(-2, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=styles.MUTED,
        fontsize=10,
    )


def _calibrated_roof(axes: Axes, span: Any, recipe: str, calibration: Calibration | None) -> None:
    peak = ceilings(calibration).get(recipe)
    slope = max((rate.value for rate in stream_rates(calibration)), default=None)
    if peak and slope:
        line = np.minimum(peak, span * slope)
        axes.plot(span, line, color=recipe_colour(recipe), linewidth=1.3)


def _name_axes(panels: list[Axes], rows: pd.DataFrame) -> None:
    for number, axes in enumerate(panels):
        styles.log_axis(axes.yaxis, "flop/s")
        styles.log_axis(axes.xaxis, "", base=4)
        axes.set_ylim(bottom=rows["achieved_flops_per_s"].min() / 1.6)
        in_last_line = number // _ACROSS == (len(panels) - 1) // _ACROSS
        intensity = "arithmetic intensity, FLOP per byte of least traffic"
        axes.set_xlabel(intensity if in_last_line else "")
        axes.set_ylabel("achieved rate" if number % _ACROSS == 0 else "")


def _answer(analysis: Analysis) -> Answer:
    if analysis.run.calibration is None:
        return Answer("Cannot be told here: the run is not calibrated.", is_open=True)
    return Answer(" ".join(settled_sentences(analysis)))


SECTION = Section("Roofline", "roofs", whole_run, _blocks, answer=_answer, lead=("roofline",))
