"""Bandwidth of collectives against size, measured and fitted."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from roofcal.core.devices import DeviceSpec
from roofcal.ops.probe_link.model import COLLECTIVES, share
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit.numbers import binary, count_of, scaled
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.styles import (
    BLUE,
    GREEN,
    GREY,
    MUTED,
    VERMILLION,
    look,
    new_figure,
    provider_marker,
    tick_text,
)
from roofcal.report.sections.gathered.links import OP, fit_of

_BY_WORLD_SIZE: Final = {2: BLUE, 4: GREEN, 8: VERMILLION}
_DASHES: Final[dict[str, Any]] = {"symm_mem": (0, (5, 2))}
_HEADROOM: Final = 1.12


def draw_links(rows: pd.DataFrame, fitted: pd.DataFrame, spec: DeviceSpec | None) -> Picture | None:
    """A panel per collective; rows, fitted: link_section.curves, .constants. None without rows."""
    if rows.empty:
        return None
    recipes = [recipe for recipe in RECIPES if recipe in set(rows["recipe"])]
    across = min(2, len(recipes))
    lines = -(-len(recipes) // across)
    with look():
        figure = new_figure(270 * lines + 60)
        grid = figure.subplots(lines, across, squeeze=False, sharex=True, sharey=True)
        panels = list(grid.flat)
        for axes in panels[len(recipes) :]:
            axes.set_visible(False)
        for axes, recipe in zip(panels, recipes, strict=False):
            _curves(axes, rows[rows["recipe"] == recipe], fitted)
            axes.set_title(recipe.replace("_", " "))
            _level(axes, spec, first=recipe == recipes[0])
        for axes in panels[max(0, len(recipes) - across) : len(recipes)]:
            axes.set_xlabel("bytes of the vector")
            axes.tick_params(labelbottom=True)
        for line in grid:
            line[0].set_ylabel("bytes over a link / time")
        _legend(figure, rows)
    best = row_of_largest(rows, "rate")
    facts = (
        f"{count_of(len(rows), 'point')}. Highest: {best['recipe']} by {best['provider']} on "
        f"{best['world_size']} devices at {binary(float(best['size_bytes']))}, "
        f"{scaled(float(best['rate']), 'B/s')}."
    )
    alt = f"Bandwidth of collectives against size, dots measured, lines fitted. {facts}"
    return Picture(key="links", figure=figure, op=OP, alt=alt, facts=facts)


def _curves(axes: Axes, rows: pd.DataFrame, fitted: pd.DataFrame) -> None:
    for (provider, world_size), some in rows.groupby(["provider", "world_size"], sort=True):
        size = int(str(world_size))
        colour = _BY_WORLD_SIZE.get(size, GREY)
        axes.scatter(
            some["size_bytes"], some["rate"], color=colour, marker=provider_marker(str(provider)),
            s=34, linewidth=0, zorder=3,
        )  # fmt: skip
        recipe = str(some["recipe"].iloc[0])
        fit = fit_of(fitted, recipe, str(provider), size)
        if fit is not None:
            _fit(axes, some, fit, share(COLLECTIVES[recipe], size), colour)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: binary(value)))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, "B/s")))


def _fit(
    axes: Axes, rows: pd.DataFrame, fit: Mapping[str, float], part: float, colour: str
) -> None:
    low, high = (float(end) for end in (rows["size_bytes"].min(), rows["size_bytes"].max()))
    sizes = np.geomspace(low, high, 200)
    rates = part * sizes / (fit["latency"] + part * sizes / fit["rate"])
    dashes = _DASHES.get(str(rows["provider"].iloc[0]), "-")
    axes.plot(sizes, rates, color=colour, linestyle=dashes)


def _level(axes: Axes, spec: DeviceSpec | None, *, first: bool) -> None:
    """The datasheet's link in one direction; named in the first panel."""
    rate = spec.link_bytes_per_s if spec else None
    if rate is None:
        return
    axes.axhline(rate, color=MUTED, linewidth=1, linestyle=(0, (5, 2.5)))
    axes.set_ylim(top=_HEADROOM * rate)
    if first:
        axes.annotate(
            f"datasheet, one way {scaled(rate, 'B/s')}",
            xy=(0, rate), xycoords=("axes fraction", "data"), xytext=(4, 3),
            textcoords="offset points", va="bottom", color=MUTED, fontsize=10,
        )  # fmt: skip


def _legend(figure: Figure, rows: pd.DataFrame) -> None:
    sizes: Sequence[int] = sorted({int(size) for size in rows["world_size"]})
    handles = [
        Line2D([], [], color=_BY_WORLD_SIZE.get(n, GREY), label=f"{n} devices", linewidth=4)
        for n in sizes
    ]
    handles += [
        Line2D(
            [], [], color=MUTED, marker=provider_marker(name), linestyle=_DASHES.get(name, "-"),
            label=f"{name}, fit",
        )
        for name in sorted({str(provider) for provider in rows["provider"]})
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper left", ncols=6, handlelength=2.6)
