"""What charts have in common: colours, markers, level lines of roofs, the hover text of points.

Colours and markers are those of the pages of the ops. A recipe has one colour throughout the
report, whichever op it is drawn for.
"""

import math
from collections.abc import Iterable
from functools import cache
from typing import Final

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.names import short_kernel_name
from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME, FOLDERS
from roofcal.points.columns import COLUMNS, IDENTITY, RARE, Column
from roofcal.points.roofs import COPY, constants_of
from roofcal.report.data.op_pages import page_of
from roofcal.report.data.tidy import shape_texts, standard_rows
from roofcal.report.kit import charts
from roofcal.report.kit.numbers import TIMES, scaled

# Speed-ups whose colours the bar beside a map names
_BAR: Final = {f"{ratio:g}{TIMES}": math.log2(ratio) for ratio in (0.5, 0.7, 1.0, 1.4, 2.0)}
_OP_COLOURS: Final = ("blue", "vermillion", "green", "orange", "purple", "sky", "grey")


@cache
def recipe_colour(recipe: str) -> str:
    """The colour of a recipe; a spare colour, always the same, where no op declares one."""
    names = [page_of(op).colours.get(recipe) for op in FOLDERS]
    name = next(filter(None, reversed(names)), None)
    return charts.COLOURS[name] if name else charts.spare_choice(recipe, charts.SPARE_COLOURS)


@cache
def provider_marker(provider: str) -> str:
    """The marker of a provider; a spare marker, always the same, where no op declares one."""
    markers = [page_of(op).markers.get(provider) for op in FOLDERS]
    spare = charts.spare_choice(provider, charts.SPARE_MARKERS)
    return next(filter(None, reversed(markers)), None) or spare


def op_colour(op: str) -> str:
    """The colour of an op, by its place in the study."""
    return charts.COLOURS[_OP_COLOURS[list(BY_NAME).index(op) % len(_OP_COLOURS)]]


def speedup_legend() -> list[charts.LegendEntry]:
    """The colour bar of a map of speed-ups, whose cells are coloured by their binary logarithm."""
    colours = charts.cell_colours(_BAR.values(), charts.SLOWER_FASTER)["colour"]
    return charts.swatches("", dict(zip(_BAR, colours, strict=True)), "s")


def in_recipe_order(recipes: Iterable[str], op: str) -> list[str]:
    """Recipes without repetition, in the order in which their op declares them.

    Recipes that it does not declare come last, in the order of their first appearance.
    """
    ranks = {name: rank for rank, name in enumerate(BY_NAME[op].recipes)}
    return sorted(dict.fromkeys(map(str, recipes)), key=lambda name: ranks.get(name, len(ranks)))


# --- charts: the points of an op ----------------------------------------------------------------

HEAD_TIPS: Final = (charts.Tip("shape", "shape"), charts.Tip("recipe", "recipe"))
TIME_TIP: Final = charts.Tip("median_s", "time", "si", "s", "ci95_low_s", "ci95_high_s")
FLOPS_TIP: Final = charts.Tip("achieved_flops_per_s", "rate", "si", "FLOP/s")
BYTES_TIP: Final = charts.Tip("achieved_bytes_per_s", "bandwidth", "si", "B/s")
STEP_TIP: Final = charts.Tip(
    "decode_step_s", "time per token", "si", "s", "decode_step_low_s", "decode_step_high_s"
)


def _tip(column: Column) -> charts.Tip:
    if column.kind != "number":
        return charts.Tip(column.name, column.hover, "count" if column.kind == "count" else "text")
    if column.unit in ("fraction", "relative"):
        return charts.Tip(column.name, column.hover, "percent")
    return charts.Tip(column.name, column.hover, "si", column.unit)


# What is said of every measured point, behind its shape, recipe and numbers: numbers, then words.
_TAIL_TIPS: Final = tuple(
    _tip(column)
    for is_text in (False, True)
    for column in (*IDENTITY, *COLUMNS, *RARE)
    if column.hover and (column.kind == "text") == is_text
)
_KERNEL_LETTERS: Final = 90


def point_tips(*own: charts.Tip) -> tuple[charts.Tip, ...]:
    """What is said of a measured point: its shape and recipe, what a figure is of, all the rest."""
    return (*HEAD_TIPS, *own, *_TAIL_TIPS)


def chart_points(frame: pd.DataFrame) -> pd.DataFrame:
    """Points of a tidy frame with a time, measured as the study does: at most MOST_ROWS.

    The same frame gives the same rows, so that a page carries them once for several charts.
    """
    return styled_points(charts.thinned(standard_rows(frame)))


def styled_points(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of measured points for a chart: hover texts, shape in words, colour and marker."""
    kernels = rows["kernel_names"].map(
        lambda names: "; ".join(map(short_kernel_name, names.split("; ")))[:_KERNEL_LETTERS],
        na_action="ignore",
    )
    return with_marks(rows).assign(shape=shape_texts(rows), kernel_names=kernels)


def with_marks(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the colour of their recipe and the marker of their provider."""
    return rows.assign(
        colour=[recipe_colour(str(name)) for name in rows["recipe"]],
        marker=[provider_marker(str(name)) for name in rows["provider"]],
    )


def provider_legend(providers: Iterable[str]) -> list[charts.LegendEntry]:
    """Entries of providers by their markers; none for one provider alone."""
    names = sorted(dict.fromkeys(map(str, providers)))
    entries = charts.marked(
        "provider", {name: (charts.MUTED, provider_marker(name)) for name in names}
    )
    return entries if len(entries) > 1 else []


def point_legend(rows: pd.DataFrame) -> list[charts.LegendEntry]:
    """Entries of the recipes and providers of some points of one op."""
    entries = recipe_legend(rows["recipe"], str(rows["op"].iloc[0]))
    return [*entries, *provider_legend(rows["provider"])]


def recipe_legend(recipes: Iterable[str], op: str) -> list[charts.LegendEntry]:
    """Entries of recipes by their colours, in the order in which their op declares them."""
    names = in_recipe_order(recipes, op)
    return charts.swatches("recipe", {name: recipe_colour(name) for name in names})


def bandwidth_levels(
    calibration: Calibration | None, spec: DeviceSpec | None
) -> tuple[pd.DataFrame, list[charts.LegendEntry]]:
    """Level lines of the datasheet's bandwidth and of calibrated copies, and their entries."""
    copy = constants_of(calibration).get(COPY)
    rows, entries = [], []
    for name, value, dash in (
        ("datasheet", spec.dram_bytes_per_s if spec else None, charts.DASH),
        ("calibrated copy", copy.value if copy else None, ()),
    ):
        if value is not None:
            rows.append((name, value, int(bool(dash)), charts.MUTED))
            label = f"{name} {scaled(value, 'B/s')}"
            entries.append(
                charts.LegendEntry("recipe", name, label=label, colour=charts.MUTED, dash=dash)
            )
    columns = ["recipe", "achieved_bytes_per_s", "dashed", "colour"]
    return pd.DataFrame(rows, columns=columns), entries
