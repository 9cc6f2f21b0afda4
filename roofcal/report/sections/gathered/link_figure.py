"""Bandwidth of collectives against size, measured and fitted."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from roofcal.core.devices import DeviceSpec
from roofcal.ops.probe_link.model import COLLECTIVES, share
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.report.data.drawing import provider_marker
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import styles
from roofcal.report.kit.numbers import binary, count_of, scaled
from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.gathered.links import OP, SYMMETRIC, fit_of_curve

_WORLD_SIZE_COLOURS: Final = {2: styles.BLUE, 4: styles.GREEN, 8: styles.VERMILLION}
_DASHES: Final[dict[str, Any]] = {SYMMETRIC: styles.DASHED}
_HEADROOM: Final = 1.12
_ACROSS: Final = 2


def draw_links(
    rows: pd.DataFrame, constants: pd.DataFrame, spec: DeviceSpec | None
) -> Picture | None:
    """A panel per collective; None without rows.

    Args:
        rows: those of link_curves.
        constants: those of link_constants.
        spec: datasheet of the device.
    """
    if rows.empty:
        return None
    recipes = [recipe for recipe in RECIPES if recipe in set(rows["recipe"])]
    with styles.look():
        figure = styles.new_figure(270 * -(-len(recipes) // _ACROSS) + 60)
        panels = styles.panel_grid(figure, len(recipes), _ACROSS, sharex=True, sharey=True)
        for axes, recipe in zip(panels, recipes, strict=True):
            _curves(axes, rows[rows["recipe"] == recipe], constants)
            axes.set_title(recipe.replace("_", " "))
        for axes in panels[-_ACROSS:]:
            axes.set_xlabel("bytes of the vector")
            axes.tick_params(labelbottom=True)
        for axes in panels[::_ACROSS]:
            axes.set_ylabel("bytes over a link / time")
        rate = spec.link_bytes_per_s if spec else None
        if rate is not None:
            text = f"datasheet, one way {scaled(rate, 'B/s')}"
            styles.level_line(panels, rate, text, dashed=True)
            panels[0].set_ylim(top=_HEADROOM * rate)
        _legend(figure, rows)
    best = row_of_largest(rows, "rate")
    return Picture(
        key="links",
        drawn=figure,
        op=OP,
        alt="Bandwidth of collectives against size, dots measured, lines fitted.",
        facts=f"{count_of(len(rows), 'point')}. Highest: {best['recipe']} by {best['provider']} on "
        f"{best['world_size']} devices at {binary(float(best['size_bytes']))}, "
        f"{scaled(float(best['rate']), 'B/s')}.",
    )


def _colour(world_size: int) -> str:
    return _WORLD_SIZE_COLOURS.get(world_size, styles.GREY)


def _curves(axes: Axes, rows: pd.DataFrame, constants: pd.DataFrame) -> None:
    recipe = str(rows["recipe"].iloc[0])
    for (provider, world_size), curve in rows.groupby(["provider", "world_size"], sort=True):
        size = int(str(world_size))
        marker = provider_marker(str(provider))
        sizes, rates = curve["size_bytes"], curve["rate"]
        styles.dots(axes, sizes, rates, _colour(size), 34, marker=marker, zorder=3)
        fit = fit_of_curve(constants, recipe, str(provider), size)
        if fit is not None:
            _fit_line(axes, curve, fit, share(COLLECTIVES[recipe], size), _colour(size))
    axes.set_xscale("log", base=2)
    styles.byte_axis(axes.xaxis, ticks=8)
    axes.set_ylim(bottom=0)
    styles.unit_axis(axes.yaxis, "B/s")


def _fit_line(
    axes: Axes, rows: pd.DataFrame, fit: Mapping[str, float], part: float, colour: str
) -> None:
    """part: share of the vector's bytes that pass a link, see roofcal.ops.probe_link.model."""
    low, high = (float(end) for end in (rows["size_bytes"].min(), rows["size_bytes"].max()))
    sizes = np.geomspace(low, high, 200)
    rates = part * sizes / (fit["latency"] + part * sizes / fit["rate"])
    dashes = _DASHES.get(str(rows["provider"].iloc[0]), "-")
    axes.plot(sizes, rates, color=colour, linestyle=dashes)


def _legend(figure: Any, rows: pd.DataFrame) -> None:
    sizes = sorted({int(size) for size in rows["world_size"]})
    handles = styles.colour_lines({f"{size} devices": _colour(size) for size in sizes})
    names = sorted({str(provider) for provider in rows["provider"]})
    fits = {f"{name}, fit": (provider_marker(name), _DASHES.get(name, "-")) for name in names}
    styles.legend(figure, [*handles, *styles.marker_lines(fits)], 6, 2.6)
