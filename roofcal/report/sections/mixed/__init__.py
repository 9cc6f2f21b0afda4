"""Products with narrow weights: which format wins where, which roof binds, what accuracy costs.

The question that it answers in three sentences of records, "why is int4 x bf16 decode slower than
fp8?", is that of NVIDIA/cutlass, "Hopper mixed precision gemm always worse than FP8": weights
[3584, 8192], groups of 64, 16 tokens. CUTLASS's own kernel is not among the providers.

A chained launch (programmatic dependent launch) starts under the end of the kernel before, so it is
kept apart from plain ones: `mode` is "plain", or "chained" for int4 kernels that are chained beside
plain launches of the other formats, which have no chained launch here.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration
from roofcal.ops.constants import calibrated_pairs
from roofcal.ops.mixed_gemm import model as mixed_gemm
from roofcal.ops.mixed_gemm.spec import OP as MIXED_GEMM
from roofcal.ops.predictions import parts_of_pair
from roofcal.points.roofs import COPY, constants_of
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import row_of_largest, shape_texts, standard_rows, weights_by_size
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import Prose, Table, absence, paragraphs
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import count, fraction, keys_of, named, ratio, seconds, text
from roofcal.report.kit.numbers import TIMES, count_of, percent, scaled, shape_text, times
from roofcal.report.section import Answer, CsvTable, Item, Section

OP: Final = MIXED_GEMM.name
CHAINED: Final = "triton_chained"
OURS: Final = ("triton", CHAINED)
MODES: Final = ("plain", "chained")
KINDS: Final = ("measured", "predicted")
FORMATS: Final = ("bf16", "fp8", "int4")
MOST_TOKENS: Final = 256
ROOFS: Final = {
    "dram": "memory",
    "slots": "issue slots",
    "math": "matrix unit and activations",
    "launch": "launch",
}
# Part of a calibrated time -> its colour, and whether its line is dashed
_PARTS: Final = {
    ROOFS["dram"]: (charts.BLUE, False),
    ROOFS["slots"]: (charts.GREEN, True),
    ROOFS["math"]: (charts.VERMILLION, False),
    ROOFS["launch"]: (charts.GREY, True),
    "predicted": (charts.INK, False),
}
WINNERS_FILE: Final = "mixed_winners.csv"
ROOFS_FILE: Final = "mixed_roofs.csv"
ERRORS_FILE: Final = "mixed_errors.csv"
_FEWEST_TOKENS: Final = 4  # numbers of tokens that make a curve
_TIMES: Final = {
    "measured": ("median_s", "ci95_low_s", "ci95_high_s"),
    "predicted": ("predicted_s", "predicted_low_s", "predicted_high_s"),
}

WINNERS: Final = (
    text("kind", "by"),
    text("mode", "launches", about="chained: those of int4 kernels, with dependent launch"),
    *named("n", "k", "m"),
    text("format", "fastest"),
    text("class", "certainty", about="uncertain: its 95 % interval overlaps another's"),
    *named("recipe", "provider"),
    seconds("seconds", "time"),
    text("next_recipe", "fastest of the other formats"),
    text("next_provider", "by"),
    seconds("next_s", "its time"),
    ratio("ratio", "ratio"),
)
ROOF_COLUMNS: Final = (
    *named("provider", "recipe", "n", "k"),
    count("m_from", "from m"),
    count("m_to", "to m"),
    text("bound_by", "bound by", about="largest part of the calibrated model's time"),
)
ERRORS: Final = (
    *named("recipe", "provider", "points"),
    fraction(
        "kernel_median", "kernel, median", digits=2, about="against float64 of the stored weights"
    ),
    fraction("kernel_worst", "kernel, worst", digits=2),
    fraction(
        "quantisation_median",
        "format, median",
        digits=2,
        about="stored operands against those before",
    ),
    fraction("quantisation_worst", "format, worst", digits=2),
)


def show(analysis: Analysis) -> Iterator[Item]:
    """The answer in sentences, maps of the fastest format, bandwidth, roofs and errors."""
    frame, calibration = analysis.frames.get(OP), analysis.run.calibration
    if frame is None or frame.empty:
        yield _NO_ANSWER
        return
    rows = standard_rows(frame)
    formats = [RECIPES[str(name)].b.dtype.removesuffix("_e4m3") for name in rows["recipe"]]
    rows = rows.assign(format=formats, weight=shape_texts(rows, ("n", "k")))
    winners, errors = winners_table(rows), errors_table(rows)
    curves = roof_curves(calibration, weights_with_curves(rows))
    run = (curves["bound_by"] != curves["bound_by"].shift()).cumsum().rename("run")
    keys = ["provider", "recipe", "n", "k", "bound_by"]
    runs = curves.groupby([*keys, run], sort=False, as_index=False)
    roofs = runs.agg(m_from=("m", "min"), m_to=("m", "max"))[keys_of(ROOF_COLUMNS)]
    yield answer(winners)
    yield from map(CsvTable, (WINNERS_FILE, ROOFS_FILE, ERRORS_FILE), (winners, roofs, errors))
    yield Prose(text="Why is int4 x bf16 decode slower than fp8?")
    yield from paragraphs(answer_sentences(rows, calibration))
    if winners.empty:
        yield absence("No shape has a time in int4 and in another format: no crossover map.")
    else:
        yield draw_crossover(winners)
    name = "Fastest format of the weights, and the fastest other one"
    yield Table("mixed-winners", name, winners, WINNERS, WINNERS_FILE)
    yield draw_bandwidth(rows, calibration, analysis.spec)
    if roofs.empty:
        yield absence("No roofs of narrow weights: probe_mixed_gemm was not calibrated.")
    yield draw_roofs(rows, curves, roofs)
    yield Table("mixed-roofs", "Which roof binds, by tokens", roofs, ROOF_COLUMNS, ROOFS_FILE)
    name = "Error of the kernel and of the format, kept apart"
    yield Table("mixed-errors", name, errors, ERRORS, ERRORS_FILE)


_NO_ANSWER: Final = Answer(
    "Cannot be told here: no shape has a time in int4 and in another format.", is_open=True
)


def answer(winners: pd.DataFrame) -> Answer:
    """At how many measured shapes each format of the weights is the fastest."""
    rows = winners[(winners["kind"] == "measured") & (winners["mode"] == "plain")]
    parts = []
    for name in FORMATS[::-1]:
        own = rows[rows["format"] == name]
        if len(own):
            tokens, best = f"m = {own['m'].min():,} to {own['m'].max():,}", own["ratio"].max()
            gain = f"up to {times(best)} as fast as the next format"
            parts.append(f"{name} at {len(own)} ({tokens}, {gain})")
    if not parts:
        return _NO_ANSWER
    shapes = count_of(len(rows), "measured shape")
    return Answer(f"Of {shapes} with few tokens, the fastest weights are {', '.join(parts)}.")


# --- the tables ----------------------------------------------------------------------------------


def winners_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Per kind, mode and shape the fastest format, the fastest other one, and whether it is sure.

    Shapes with a time in one format alone are left out, and so are those without int4.
    """
    is_chained = rows["provider"] == CHAINED
    of_mode = {"plain": rows[~is_chained], "chained": rows[is_chained | (rows["format"] != "int4")]}
    winners = [
        {"kind": kind, "mode": mode} | winner
        for kind in KINDS
        for mode in MODES
        for winner in _winners(of_mode[mode], *_TIMES[kind])
    ]
    return pd.DataFrame(winners, columns=[*keys_of(WINNERS), "low_s", "high_s"])


def _winners(rows: pd.DataFrame, time: str, low: str, high: str) -> Iterator[dict[str, Any]]:
    for (n, k, m), timed in rows[rows[time].notna()].groupby(["n", "k", "m"]):
        best = timed.loc[timed.groupby("format")[time].idxmin()].sort_values(time, kind="stable")
        if len(best) < 2 or "int4" not in set(best["format"]):
            continue
        first, second = best.iloc[0], best.iloc[1]
        overlapped = bool((best[low].iloc[1:] <= first[high]).any())
        yield {
            "n": n,
            "k": k,
            "m": m,
            "class": "uncertain" if overlapped else "sure",
            **first[["format", "recipe", "provider"]],
            "seconds": first[time],
            "low_s": first[low],
            "high_s": first[high],
            **second[["recipe", "provider"]].add_prefix("next_"),
            "next_s": second[time],
            "ratio": second[time] / first[time],
        }


def weights_with_curves(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Weights n x k that were timed at several numbers of tokens, smallest first."""
    tokens = rows.groupby(["n", "k"])["m"].transform("nunique")
    return weights_by_size(rows[tokens >= _FEWEST_TOKENS])


def roof_curves(
    calibration: Calibration | None, weights: Sequence[tuple[int, int]]
) -> pd.DataFrame:
    """Parts of the calibrated time of weights n x k, in seconds, at each m up to MOST_TOKENS.

    A row per provider and recipe that was calibrated, weight, and m that the provider takes; its
    parts are columns, named as in _PARTS. `bound_by` is the largest one.
    """
    curves = [pd.DataFrame(columns=["provider", "recipe", "n", "k", "m", *_PARTS, "bound_by"])]
    if calibration is None:
        return curves[0]
    for provider, recipe in calibrated_pairs(calibration.constants, OP):
        least = MIXED_GEMM.least_sizes(provider, recipe).get("m", 1)
        tokens = np.arange(least, MOST_TOKENS + 1)
        for n, k in weights:
            sizes = [np.full(len(tokens), size, dtype=np.float64) for size in (tokens, n, k)]
            parts = parts_of_pair(mixed_gemm, calibration, provider, recipe, sizes)
            seconds = (parts.dram, parts.slots, parts.math, parts.fixed, parts.total)
            curve = pd.DataFrame(dict(zip(_PARTS, seconds, strict=True)))
            bound_by = [ROOFS[roof] for roof in parts.bound_by]
            curve = curve.assign(provider=provider, recipe=recipe, n=n, k=k, m=tokens)
            curves.append(curve.assign(bound_by=bound_by))
    return pd.concat(curves[1:] or curves, ignore_index=True)


def errors_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Error of the kernel and of the format, by recipe and provider."""
    groups = rows.groupby(["recipe", "provider"], sort=False, as_index=False)
    table = groups.agg(
        points=("recipe", "size"),
        kernel_median=("numeric_error", "median"),
        kernel_worst=("numeric_error", "max"),
        quantisation_median=("quantisation_error", "median"),
        quantisation_worst=("quantisation_error", "max"),
    )
    ordered = table.sort_values("provider", kind="stable")
    return charts.in_order(ordered, recipe=list(RECIPES)).reset_index(drop=True)


# --- the figures ---------------------------------------------------------------------------------

_MOST_PANELS: Final = 4
_OTHER_RECIPES: Final = ("bf16", "fp8_tensorwise", "fp8_weight_only")  # drawn beside int4
_TINTS: Final = {"bf16": "#a8cbe6", "fp8": "#f0b795", "int4": "#e4bdd2"}
_NAME_COLOUR: Final = "#14181c"
_ROW_PX: Final = 19
_TITLES: Final = {"plain": "plain launches", "chained": "int4 chained, others plain"}


def draw_bandwidth(
    rows: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per weight with many m; None without such a weight or without int4."""
    weights = [shape_text(sizes) for sizes in weights_with_curves(rows)[:_MOST_PANELS]]
    recipe = _int4_recipe(rows)
    if not weights or recipe is None:
        return None
    rows = rows[rows["recipe"].isin((*_OTHER_RECIPES, recipe))]
    best = row_of_largest(rows[rows["format"] == "int4"], "achieved_bytes_per_s")
    drawn = rows[rows["weight"].isin(weights)]
    points = drawing.styled_points(drawn)
    points = points.assign(series=points["recipe"] + " by " + points["provider"])
    levels, level_entries = drawing.bandwidth_levels(calibration, spec)
    return Picture(
        key="mixed_bandwidth",
        op=OP,
        x=charts.Axis("m", "tokens m", "count"),
        y=charts.Axis("achieved_bytes_per_s", "B/s", "linear"),
        layers=[
            charts.Layer("level", table="levels"),
            charts.Layer("line", detail="series", size=1.6),
            charts.Layer("dots"),
        ],
        tables={"points": points, "levels": levels},
        panels=[charts.Panel(title=f"weights {name}", where={"weight": name}) for name in weights],
        tips=drawing.point_tips(
            drawing.BYTES_TIP,
            drawing.TIME_TIP,
            charts.Tip("relative_error", "error of prediction", "percent"),
        ),
        legend=[*drawing.point_legend(drawn), *level_entries],
        alt="Achieved bandwidth against tokens by recipe and provider.",
        facts=f"int4 is {recipe}. Its highest: {best['provider']} at m = {best['m']:,}, "
        f"{best['weight']}, {scaled(float(best['achieved_bytes_per_s']), 'B/s')}.",
    )


def _int4_recipe(rows: pd.DataFrame) -> str | None:
    """The int4 recipe with the largest groups that has a time, a symmetric one if there is any."""
    recipes = drawing.in_recipe_order(rows.loc[rows["format"] == "int4", "recipe"], OP)
    symmetric = [recipe for recipe in recipes if not RECIPES[recipe].b.zero_point]
    return next(reversed(symmetric or recipes), None)


def draw_roofs(rows: pd.DataFrame, curves: pd.DataFrame, roofs: pd.DataFrame) -> Picture | None:
    """One panel per provider, for the smallest and the largest weight of `roof_curves`.

    None without a curve. roofs: the ranges of the curves, which a strip above them shows.
    """
    recipe = _int4_recipe(rows[rows["recipe"].isin(curves["recipe"])])
    if recipe is None:
        return None
    weights = weights_by_size(curves)
    ends = {shape_text(sizes) for sizes in (weights[0], weights[-1])}

    def drawn(of: pd.DataFrame) -> pd.DataFrame:
        weight = shape_texts(of, ("n", "k"))
        chosen = of[(of["recipe"] == recipe) & weight.isin(ends)]
        return chosen.assign(panel=chosen["provider"] + ", " + weight)

    curves, roofs = drawn(curves), drawn(roofs)
    panels = curves.groupby("panel", sort=False)
    lowest = 0.7 * panels[["memory", "launch"]].min().min(axis=1)  # other parts may lie far below
    parts = curves.melt(["m", "panel"], list(_PARTS), "part", "median_s")
    parts = charts.in_order(parts, panel=list(lowest.index), part=list(_PARTS))
    parts = parts[parts["median_s"] >= parts["panel"].map(lowest)]
    colours = {name: colour for name, (colour, _) in _PARTS.items()}
    # a range goes on to where the next one begins
    nexts = roofs.assign(m=(roofs["m_to"] + 1).clip(upper=MOST_TOKENS))
    strips = pd.concat([roofs.assign(m=roofs["m_from"]), nexts]).sort_index(kind="stable")
    first = strips.groupby("panel")["m"].transform("min")
    top = 1.6 * panels[list(_PARTS)].max().max(axis=1)
    providers = list(dict.fromkeys(curves["provider"]))
    own = rows[(rows["recipe"] == recipe) & rows["provider"].isin(providers)]
    points = drawing.styled_points(own).assign(
        panel=own["provider"] + ", " + own["weight"], colour=charts.INK, marker="o"
    )
    ours = [name for name in providers if name in OURS]
    return Picture(
        key="mixed_roofs",
        op=OP,
        x=charts.Axis("m", "m", "count"),
        y=charts.Axis("median_s", "time", unit="s"),
        layers=[
            charts.Layer("line", table="parts", detail="part", size=1.6),
            charts.Layer("line", table="binding", detail="run", size=7),
            charts.Layer("dots"),
        ],
        tables={
            "points": points,
            "parts": parts.assign(
                colour=parts["part"].map(colours),
                dashed=[int(_PARTS[name][1]) for name in parts["part"]],
            ),
            "binding": strips.assign(
                run=(strips["m_from"] - first).astype(str),
                part=strips["bound_by"],
                colour=strips["bound_by"].map(colours),
                median_s=strips["panel"].map(top),
            ),
        },
        panels=charts.facets(parts, "panel", 230),
        tips=drawing.point_tips(drawing.TIME_TIP),
        legend=[
            *(
                charts.LegendEntry("part", name, colour=colour, dash=charts.DASH if dashed else ())
                for name, (colour, dashed) in _PARTS.items()
            ),
            charts.LegendEntry("", "measured", colour=charts.INK, marker="o"),
        ],
        alt="Parts of the calibrated time of int4 products against tokens.",
        facts=f"{recipe}, {count_of(len(own), 'measured point')} by {', '.join(providers)}; our "
        f"kernels among them: {', '.join(ours) or 'none'}.",
    )


def draw_crossover(table: pd.DataFrame) -> Picture:
    """One panel per mode and kind of the table of winners, which has rows."""
    rows = charts.in_order(table, mode=MODES, kind=KINDS)
    cells = rows.assign(
        panel=rows["kind"] + ", " + rows["mode"].map(_TITLES),
        weight=shape_texts(rows, ("n", "k")),
        label=rows["format"] + np.where(rows["class"] == "uncertain", "?", ""),
        colour=rows["format"].map(_TINTS),
        ink=_NAME_COLOUR,
    )
    order = [shape_text(sizes) for sizes in weights_by_size(table)]
    parts = []  # how often each format wins, and how much of that is uncertain
    for (kind, mode), own in table.groupby(["kind", "mode"], sort=False):
        shares = [
            f"{name} {percent(float((own['format'] == name).mean()), 0)}"
            for name in FORMATS
            if (own["format"] == name).any()
        ]
        uncertain = percent(float((own["class"] == "uncertain").mean()), 0)
        parts.append(
            f"{kind}, {_TITLES[str(mode)]}: {', '.join(shares)} of {count_of(len(own), 'shape')}, "
            f"{uncertain} uncertain"
        )
    return Picture(
        key="mixed_crossover",
        op=OP,
        source=WINNERS_FILE,
        x=charts.Axis("m", "m", "names"),
        y=charts.Axis("weight", f"n {TIMES} k", "names", order=order),
        layers=[charts.Layer("cells", detail="label"), charts.Layer("hatched", table="uncertain")],
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
        alt="Maps of the fastest format of the weights by tokens and shape.",
        facts=f"Fastest: {'; '.join(parts)}.",
    )


# --- the answer: bytes against time, the roof that other kernels meet, what ours do about it -----

SHAPE: Final = {"m": 16, "n": 3584, "k": 8192}
RECIPE: Final = "int4_groupwise_g64"
_FP8: Final = "fp8_tensorwise"
_AT: Final = f"16 tokens and weights 3,584 {TIMES} 8,192 in groups of 64"
_ROOFS_IN_WORDS: Final = {
    ROOFS["dram"]: "memory",
    ROOFS["slots"]: "the issue slots of dequantisation",
    ROOFS["math"]: "the matrix unit and its activations",
    ROOFS["launch"]: "launch",
}

Row = Mapping[Hashable, Any]


def answer_sentences(timed: pd.DataFrame, calibration: Calibration | None) -> list[str]:
    """Bytes against time, the roof that other kernels meet, and what ours do about it.

    If the records lack the points of a sentence, it says what was not measured.
    """
    at_shape = timed[(timed[list(SHAPE)] == pd.Series(SHAPE)).all(axis=1)]
    rows = at_shape.sort_values("median_s", kind="stable").to_dict("records")
    plain = [row for row in rows if row["provider"] != CHAINED]
    fp8 = next((row for row in plain if row["recipe"] == _FP8), None)
    int4 = [row for row in rows if row["recipe"] == RECIPE]
    others = [row for row in int4 if row["provider"] not in OURS]
    beside = [*others[:1], *[row for row in plain if row["recipe"] == "bf16"][:1]]
    bounds = _bounds_by_provider(calibration)
    held = [
        f"{row['provider']} {bounds[row['provider']]}"
        for row in others
        if row["provider"] in bounds
    ]
    return [
        _time_sentence(fp8, beside, calibration),
        f"The calibrated roofs say what holds it there: {'; '.join(held)}."
        if held
        else "Which roof other int4 kernels meet is not known here: none was both measured at this "
        "point and calibrated on probes.",
        _own_sentence([row for row in int4 if row["provider"] in OURS], fp8, bounds),
    ]


def _time_sentence(fp8: Row | None, beside: Sequence[Row], calibration: Calibration | None) -> str:
    """beside: the fastest other int4 kernel and the fastest bf16 product, as far as measured."""
    if fp8 is None:
        return f"Not measured: {_FP8} at {_AT}, so there is nothing to compare int4 with."
    parts = [f"fp8 by {fp8['provider']} took {scaled(fp8['median_s'], 's')}"]
    parts += [
        f"{row['format']} by {row['provider']} {scaled(row['median_s'], 's')} "
        f"({times(row['median_s'] / fp8['median_s'])} as long)"
        for row in beside
    ]
    has_int4 = any(row["format"] == "int4" for row in beside)
    missing = "" if has_int4 else "; int4 by another library was not measured"
    int4_bytes, fp8_bytes = (MIXED_GEMM.work(name, SHAPE).dram_bytes for name in (RECIPE, _FP8))
    floor, copy = "", constants_of(calibration).get(COPY)
    if copy:
        floor = f", {scaled(int4_bytes / copy.value, 's')} at the calibrated copy bandwidth"
    return (
        f"At {_AT}, {', '.join(parts)}{missing}; int4 moves {times(int4_bytes / fp8_bytes)} the "
        f"bytes of fp8{floor}."
    )


def _bounds_by_provider(calibration: Calibration | None) -> dict[str, str]:
    """Provider -> by which roof it is bound at SHAPE in RECIPE, with the time of each part."""
    curves = roof_curves(calibration, [(SHAPE["n"], SHAPE["k"])])
    at_tokens = curves[(curves["recipe"] == RECIPE) & (curves["m"] >= SHAPE["m"])]
    return {
        row["provider"]: (
            f"is bound by {_ROOFS_IN_WORDS[row['bound_by']]} (memory "
            f"{scaled(row[ROOFS['dram']], 's')}, issue slots of dequantisation "
            f"{scaled(row[ROOFS['slots']], 's')}, matrix unit and activations "
            f"{scaled(row[ROOFS['math']], 's')}, launch {scaled(row[ROOFS['launch']], 's')})"
        )
        for row in at_tokens.drop_duplicates("provider").to_dict("records")
    }


def _own_sentence(ours: Sequence[Row], fp8: Row | None, bounds: Mapping[str, str]) -> str:
    gains = {}
    for row in ours:
        gain = f" ({times(fp8['median_s'] / row['median_s'])} as fast as fp8)" if fp8 else ""
        gains[row["provider"]] = f"{scaled(row['median_s'], 's')}{gain}"
    if "triton" not in gains:
        return f"Not measured: kernels.int4_gemm at {_AT}."
    chaining = (
        f"and, apart from that, {gains[CHAINED]} by chained ones, which start under the end of the "
        "kernel before"
        if CHAINED in gains
        else "and was not measured by chained launches"
    )
    bound = f"; the plain launch {bounds['triton']}" if "triton" in bounds else ""
    return f"Our kernels.int4_gemm took {gains['triton']} by a plain launch {chaining}{bound}."


SECTION = Section("Mixed precision: int4 weights", "weights", show, lead=("mixed_crossover",))
