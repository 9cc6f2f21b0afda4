"""Products with narrow weights: bandwidth by tokens, the roofs of int4, the fastest formats.

The crossover map says which format of the weights is fastest, and how surely. Its cells have
colours and words of their own in any colour scheme: a name is dark on a light tint.
"""

from typing import Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration
from roofcal.report.data import drawing
from roofcal.report.data.tidy import row_of_largest
from roofcal.report.kit import charts, styles
from roofcal.report.kit.numbers import TIMES, count_of, percent, scaled, shape_text
from roofcal.report.kit.writer import Picture
from roofcal.report.sections.mixed import tables

_MOST_PANELS: Final = 4
_OTHER_RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_weight_only")  # drawn beside int4
# Part of a time -> its colour, and whether its line is dashed
_PARTS: Final = {
    tables.ROOFS["dram"]: (styles.BLUE, False),
    tables.ROOFS["slots"]: (styles.GREEN, True),
    tables.ROOFS["math"]: (styles.VERMILLION, False),
    tables.ROOFS["launch"]: (styles.GREY, True),
    "predicted": (styles.INK, False),
}
_TINTS: Final = {"bf16": "#a8cbe6", "fp8": "#f0b795", "int4": "#e4bdd2"}
_NAME_COLOUR: Final = "#14181c"
_ROW_PX: Final = 19
_TITLES: Final = {"plain": "plain launches", "chained": "int4 chained, others plain"}


def draw_bandwidth(
    frame: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per weight with many m; None without such a weight or without int4."""
    rows = tables.rows_with_format(frame)
    weights = tables.weights_with_curves(rows)[:_MOST_PANELS]
    recipe = _int4_recipe(rows)
    if not weights or recipe is None:
        return None
    rows = rows[rows["recipe"].isin((*_OTHER_RECIPES, recipe))]
    best = row_of_largest(rows[rows["format"] == "int4"], "achieved_bytes_per_s")
    facts = (
        f"int4 is {recipe}. Its highest: {best['provider']} at m = {best['m']:,}, "
        f"{shape_text((best['n'], best['k']))}, "
        f"{scaled(float(best['achieved_bytes_per_s']), 'B/s')}."
    )
    alt = "Achieved bandwidth against tokens by recipe and provider."
    # Lines of the rows by recipe and provider
    drawn = rows[[pair in set(weights) for pair in zip(rows["n"], rows["k"], strict=True)]]
    points = drawing.styled_points(drawn).assign(
        m=drawn["m"],
        weight=[shape_text(pair) for pair in drawn[["n", "k"]].to_numpy()],
        series=drawn["recipe"] + " by " + drawn["provider"],
        relative_error=drawn["relative_error"],
    )
    levels, level_entries = drawing.bandwidth_levels(calibration, spec)
    legend = [*drawing.point_legend(drawn), *level_entries]
    chart = charts.Chart(
        x=charts.Axis("m", "tokens m", "count"),
        y=charts.Axis("achieved_bytes_per_s", "B/s", "linear"),
        layers=[
            charts.Layer("level", table="levels"),
            charts.Layer("line", detail="series", size=1.6),
            charts.Layer("dots"),
        ],
        tables={"points": points, "levels": levels},
        panels=[
            charts.Panel(title=f"weights {text}", where={"weight": text})
            for text in map(shape_text, weights)
        ],
        tips=(
            *drawing.HEAD_TIPS,
            drawing.BYTES_TIP,
            drawing.TIME_TIP,
            charts.Tip("relative_error", "error of prediction", "percent"),
            *drawing.TAIL_TIPS,
        ),
        legend=legend,
    )
    return Picture(key="mixed_bandwidth", chart=chart, op=tables.OP, alt=alt, facts=facts)


def _int4_recipe(rows: pd.DataFrame) -> str | None:
    """The int4 recipe with the largest groups that has a time, a symmetric one if there is any."""
    recipes = drawing.in_recipe_order(rows.loc[rows["format"] == "int4", "recipe"], tables.OP)
    symmetric = [recipe for recipe in recipes if not RECIPES[recipe].b.zero_point]
    return next(reversed(symmetric or recipes), None)


def draw_roofs(frame: pd.DataFrame, calibration: Calibration | None) -> Picture | None:
    """One panel per provider and weight; None without calibrated roofs or a weight of many m."""
    rows = tables.rows_with_format(frame)
    weights, pairs = tables.weights_with_curves(rows), tables.pairs_with_roofs(calibration)
    recipe = _int4_recipe(rows[rows["recipe"].isin([name for _, name in pairs])])
    providers = [provider for provider, name in pairs if name == recipe]
    if calibration is None or recipe is None or not weights or not providers:
        return None
    drawn = [
        _roofs(calibration, provider, recipe, n, k)
        for provider in providers
        for n, k in dict.fromkeys((weights[0], weights[-1]))
    ]
    parts, strips = (pd.concat(frames) for frames in zip(*drawn, strict=True))
    own = rows[(rows["recipe"] == recipe) & rows["provider"].isin(providers)]
    weight_texts = [shape_text(sizes) for sizes in own[["n", "k"]].to_numpy()]
    chart = charts.Chart(
        x=charts.Axis("m", "m", "count"),
        y=charts.Axis("median_s", "time", unit="s"),
        layers=[
            charts.Layer("line", table="parts", detail="part", size=1.6),
            charts.Layer("line", table="binding", detail="run", size=7),
            charts.Layer("dots"),
        ],
        tables={
            "points": drawing.styled_points(own).assign(
                m=own["m"],
                panel=own["provider"] + ", " + weight_texts,
                colour=styles.INK,
                marker="o",
            ),
            "parts": parts,
            "binding": strips,
        },
        panels=charts.facets(parts, "panel", 230),
        tips=(*drawing.HEAD_TIPS, drawing.TIME_TIP, *drawing.TAIL_TIPS),
        legend=[
            *(
                charts.LegendEntry("part", name, colour=colour, dash=charts.DASH if dashed else ())
                for name, (colour, dashed) in _PARTS.items()
            ),
            charts.LegendEntry("", "measured", colour=styles.INK, marker="o"),
        ],
    )
    ours = [name for name in providers if name in tables.OURS]
    return Picture(
        key="mixed_roofs",
        chart=chart,
        op=tables.OP,
        alt="Parts of the calibrated time of int4 products against tokens.",
        facts=f"{recipe}, {count_of(len(own), 'measured point')} by {', '.join(providers)}; our "
        f"kernels among them: {', '.join(ours) or 'none'}.",
    )


def _roofs(
    calibration: Calibration, provider: str, recipe: str, n: int, k: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(curves of the parts of a product and of their sum, the strip that says which is largest)."""
    tokens = tables.tokens_of_pair(provider, recipe)
    parts = tables.roofs_of_pair(calibration, provider, recipe, n, k)
    times = (parts.dram, parts.slots, parts.math, parts.fixed, parts.total)
    lowest = 0.7 * min(parts.dram.min(), parts.fixed.min())  # other parts may lie far below
    curves = [
        pd.DataFrame({"m": tokens, "median_s": values}).assign(
            part=name, colour=colour, dashed=int(dashed)
        )
        for (name, (colour, dashed)), values in zip(_PARTS.items(), times, strict=True)
    ]
    drawn = pd.concat(curves)
    strips = [
        pd.DataFrame({"m": tokens[[first, min(last + 1, len(tokens) - 1)]]}).assign(
            run=str(first), part=tables.ROOFS[roof], colour=_PARTS[tables.ROOFS[roof]][0]
        )
        for first, last, roof in tables.runs_of_equal(parts.bound_by)
    ]
    title, top = f"{provider}, {shape_text((n, k))}", 1.6 * drawn["median_s"].max()
    shown = drawn[drawn["median_s"] >= lowest]
    return shown.assign(panel=title), pd.concat(strips).assign(panel=title, median_s=top)


def draw_crossover(table: pd.DataFrame) -> Picture | None:
    """One panel per mode and kind of the table of winners; None for an empty table."""
    if table.empty:
        return None
    rows = charts.in_order(table, mode=tables.MODES, kind=tables.KINDS)
    cells = rows.assign(
        panel=rows["kind"] + ", " + rows["mode"].map(_TITLES),
        weight=[shape_text(sizes) for sizes in rows[["n", "k"]].to_numpy()],
        label=rows["format"] + np.where(rows["class"] == "uncertain", "?", ""),
        colour=rows["format"].map(_TINTS),
        ink=_NAME_COLOUR,
    )
    order = [shape_text(sizes) for sizes in tables.weights_by_size(table)]
    chart = charts.Chart(
        x=charts.Axis("m", "m", "names"),
        y=charts.Axis("weight", f"n {TIMES} k", "names", order=order),
        layers=[
            charts.Layer("cells", detail="label"),
            charts.Layer("hatched", table="uncertain"),
        ],
        tables={"points": cells, "uncertain": cells[cells["class"] == "uncertain"]},
        panels=charts.facets(cells, "panel", _ROW_PX, names="weight", name_px=_ROW_PX),
        tips=(
            charts.Tip("weight", f"n {TIMES} k"),
            charts.Tip("m", "m", "count"),
            *charts.text_tips(recipe="fastest", provider="by"),
            charts.Tip("seconds", "time", "si", "s", "low_s", "high_s"),
            charts.Tip("ratio", "as fast as the next format", "ratio"),
            *charts.text_tips(**{"next_recipe": "next", "class": "certainty"}),
        ),
        legend=charts.swatches("format", _TINTS, "s"),
    )
    return Picture(
        key="mixed_crossover",
        chart=chart,
        op=tables.OP,
        alt="Maps of the fastest format of the weights by tokens and shape.",
        facts=_facts(table),
    )


def _facts(table: pd.DataFrame) -> str:
    """Per kind and mode: how often each format wins, and how much of that is uncertain."""
    parts = []
    for (kind, mode), rows in table.groupby(["kind", "mode"], sort=False):
        shares = [
            f"{name} {percent(float((rows['format'] == name).mean()), 0)}"
            for name in tables.FORMATS
            if (rows["format"] == name).any()
        ]
        uncertain = percent(float((rows["class"] == "uncertain").mean()), 0)
        parts.append(
            f"{kind}, {_TITLES[str(mode)]}: {', '.join(shares)} of {count_of(len(rows), 'shape')}, "
            f"{uncertain} uncertain"
        )
    return f"Fastest: {'; '.join(parts)}."
