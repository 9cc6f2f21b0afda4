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
from numpy.typing import NDArray

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import RECIPES
from roofcal.core.records import Calibration
from roofcal.ops.constants import calibrated_pairs
from roofcal.ops.mixed_gemm.model import NarrowParts, narrow_parts
from roofcal.ops.mixed_gemm.spec import OP as MIXED_GEMM
from roofcal.points.roofs import COPY, constants_of
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import row_of_largest, standard_rows
from roofcal.report.kit import charts, styles
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
TOKENS: Final[NDArray[np.float64]] = np.arange(1.0, 257.0, dtype=np.float64)
ROOFS: Final = {
    "dram": "memory",
    "slots": "issue slots",
    "math": "matrix unit and activations",
    "launch": "launch",
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


def weight_format(recipe: str) -> str:
    """How the weights of a recipe are stored: one of FORMATS."""
    return RECIPES[recipe].b.dtype.removesuffix("_e4m3")


def rows_with_format(frame: pd.DataFrame) -> pd.DataFrame:
    """Points with a time, measured as the study does, and their column `format`."""
    rows = standard_rows(frame)
    return rows.assign(format=[weight_format(str(recipe)) for recipe in rows["recipe"]])


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
            "format": first["format"],
            "class": "uncertain" if overlapped else "sure",
            "recipe": first["recipe"],
            "provider": first["provider"],
            "seconds": first[time],
            "next_recipe": second["recipe"],
            "next_provider": second["provider"],
            "next_s": second[time],
            "ratio": second[time] / first[time],
            "low_s": first[low],
            "high_s": first[high],
        }


def pairs_with_roofs(calibration: Calibration | None) -> list[tuple[str, str]]:
    """(provider, recipe) of the narrow weights whose roofs were calibrated."""
    return [] if calibration is None else calibrated_pairs(calibration.constants, OP)


def tokens_of_pair(provider: str, recipe: str) -> NDArray[np.float64]:
    """Up to 256 tokens, from the least that the provider takes."""
    return TOKENS[MIXED_GEMM.least_sizes(provider, recipe).get("m", 1) <= TOKENS]


def roofs_of_pair(
    calibration: Calibration, provider: str, recipe: str, n: float, k: float
) -> NarrowParts:
    """Parts of the calibrated time at `tokens_of_pair`; KeyError for a pair not calibrated."""
    tokens = tokens_of_pair(provider, recipe)
    sizes = (tokens, np.full_like(tokens, n), np.full_like(tokens, k))
    return narrow_parts(calibration, provider, recipe, sizes)


def roofs_table(rows: pd.DataFrame, calibration: Calibration | None) -> pd.DataFrame:
    """The ranges of m in which each roof binds, by provider, recipe and shape of many m."""
    ranges = [
        {"provider": provider, "recipe": recipe, "n": n, "k": k}
        | {"m_from": int(tokens[first]), "m_to": int(tokens[last]), "bound_by": ROOFS[roof]}
        for provider, recipe in pairs_with_roofs(calibration)
        for tokens in [tokens_of_pair(provider, recipe)]
        for n, k in weights_with_curves(rows)
        if calibration is not None
        for first, last, roof in runs_of_equal(
            roofs_of_pair(calibration, provider, recipe, n, k).bound_by
        )
    ]
    return pd.DataFrame(ranges, columns=keys_of(ROOF_COLUMNS))


def runs_of_equal(values: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(first index, last index, value) of every run of equal neighbours."""
    first = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[first]:
            yield first, index - 1, values[first]
            first = index


def weights_with_curves(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Weights n x k that were timed at several numbers of tokens, smallest first."""
    tokens = rows.groupby(["n", "k"])["m"].transform("nunique")
    return weights_by_size(rows[tokens >= _FEWEST_TOKENS])


def weights_by_size(rows: pd.DataFrame) -> list[tuple[int, int]]:
    """Every n x k among the rows, smallest first."""
    weights = {(int(n), int(k)) for n, k in rows[["n", "k"]].to_numpy()}
    return sorted(weights, key=lambda sizes: (sizes[0] * sizes[1], sizes))


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
# Part of a time -> its colour, and whether its line is dashed
_PARTS: Final = {
    ROOFS["dram"]: (styles.BLUE, False),
    ROOFS["slots"]: (styles.GREEN, True),
    ROOFS["math"]: (styles.VERMILLION, False),
    ROOFS["launch"]: (styles.GREY, True),
    "predicted": (styles.INK, False),
}
_TINTS: Final = {"bf16": "#a8cbe6", "fp8": "#f0b795", "int4": "#e4bdd2"}
_NAME_COLOUR: Final = "#14181c"
_ROW_PX: Final = 19
_TITLES: Final = {"plain": "plain launches", "chained": "int4 chained, others plain"}


def draw_bandwidth(
    rows: pd.DataFrame, calibration: Calibration | None, spec: DeviceSpec | None
) -> Picture | None:
    """One panel per weight with many m; None without such a weight or without int4."""
    weights = weights_with_curves(rows)[:_MOST_PANELS]
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
    # Lines of the rows by recipe and provider
    drawn = rows[[pair in set(weights) for pair in zip(rows["n"], rows["k"], strict=True)]]
    points = drawing.styled_points(drawn).assign(
        m=drawn["m"],
        weight=[shape_text(pair) for pair in drawn[["n", "k"]].to_numpy()],
        series=drawn["recipe"] + " by " + drawn["provider"],
        relative_error=drawn["relative_error"],
    )
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
        panels=[
            charts.Panel(title=f"weights {text}", where={"weight": text})
            for text in map(shape_text, weights)
        ],
        tips=drawing.point_tips(
            drawing.BYTES_TIP,
            drawing.TIME_TIP,
            charts.Tip("relative_error", "error of prediction", "percent"),
        ),
        legend=[*drawing.point_legend(drawn), *level_entries],
        alt="Achieved bandwidth against tokens by recipe and provider.",
        facts=facts,
    )


def _int4_recipe(rows: pd.DataFrame) -> str | None:
    """The int4 recipe with the largest groups that has a time, a symmetric one if there is any."""
    recipes = drawing.in_recipe_order(rows.loc[rows["format"] == "int4", "recipe"], OP)
    symmetric = [recipe for recipe in recipes if not RECIPES[recipe].b.zero_point]
    return next(reversed(symmetric or recipes), None)


def draw_roofs(rows: pd.DataFrame, calibration: Calibration | None) -> Picture | None:
    """One panel per provider and weight; None without calibrated roofs or a weight of many m."""
    weights, pairs = weights_with_curves(rows), pairs_with_roofs(calibration)
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
        tips=drawing.point_tips(drawing.TIME_TIP),
        legend=[
            *(
                charts.LegendEntry("part", name, colour=colour, dash=charts.DASH if dashed else ())
                for name, (colour, dashed) in _PARTS.items()
            ),
            charts.LegendEntry("", "measured", colour=styles.INK, marker="o"),
        ],
        alt="Parts of the calibrated time of int4 products against tokens.",
        facts=f"{recipe}, {count_of(len(own), 'measured point')} by {', '.join(providers)}; our "
        f"kernels among them: {', '.join(ours) or 'none'}.",
    )


def _roofs(
    calibration: Calibration, provider: str, recipe: str, n: int, k: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(curves of the parts of a product and of their sum, the strip that says which is largest)."""
    tokens = tokens_of_pair(provider, recipe)
    parts = roofs_of_pair(calibration, provider, recipe, n, k)
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
            run=str(first), part=ROOFS[roof], colour=_PARTS[ROOFS[roof]][0]
        )
        for first, last, roof in runs_of_equal(parts.bound_by)
    ]
    title, top = f"{provider}, {shape_text((n, k))}", 1.6 * drawn["median_s"].max()
    shown = drawn[drawn["median_s"] >= lowest]
    return shown.assign(panel=title), pd.concat(strips).assign(panel=title, median_s=top)


def draw_crossover(table: pd.DataFrame) -> Picture:
    """One panel per mode and kind of the table of winners, which has rows."""
    rows = charts.in_order(table, mode=MODES, kind=KINDS)
    cells = rows.assign(
        panel=rows["kind"] + ", " + rows["mode"].map(_TITLES),
        weight=[shape_text(sizes) for sizes in rows[["n", "k"]].to_numpy()],
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
        alt="Maps of the fastest format of the weights by tokens and shape.",
        facts=f"Fastest: {'; '.join(parts)}.",
    )


# --- the answer: bytes against time, the roof that other kernels meet, what ours do about it -----

SHAPE: Final = {"m": 16, "n": 3584, "k": 8192}
RECIPE: Final = "int4_groupwise_g64"
_FP8: Final = "fp8_tensorwise"
_AT: Final = "weights [3,584, 8,192] in groups of 64 and 16 tokens"
_ROOFS_IN_WORDS: Final = ROOFS | {
    "slots": "the issue slots of dequantisation",
    "math": "the matrix unit and its activations",
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
    return [
        _time_sentence(fp8, beside, calibration),
        _roof_sentence(others, calibration),
        _own_sentence([row for row in int4 if row["provider"] in OURS], fp8, calibration),
    ]


def _time_sentence(fp8: Row | None, beside: Sequence[Row], calibration: Calibration | None) -> str:
    """beside: the fastest other int4 kernel and the fastest bf16 product, as far as measured."""
    if fp8 is None:
        return f"Not measured: {_FP8} at {_AT}, so there is nothing to compare int4 with."
    parts = [f"fp8 by {fp8['provider']} took {_time_text(fp8['median_s'])}"]
    parts += [
        f"{row['format']} by {row['provider']} {_time_text(row['median_s'])} "
        f"({times(row['median_s'] / fp8['median_s'])} as long)"
        for row in beside
    ]
    has_int4 = any(row["format"] == "int4" for row in beside)
    missing = "" if has_int4 else "; int4 by another library was not measured"
    int4_bytes, fp8_bytes = (MIXED_GEMM.work(name, SHAPE).dram_bytes for name in (RECIPE, _FP8))
    floor, copy = "", constants_of(calibration).get(COPY)
    if copy:
        floor = f", {_time_text(int4_bytes / copy.value)} at the calibrated copy bandwidth"
    return (
        f"At {_AT} {', '.join(parts)}{missing}; int4 moves {times(int4_bytes / fp8_bytes)} the "
        f"bytes of fp8{floor}."
    )


def _roof_sentence(others: Sequence[Row], calibration: Calibration | None) -> str:
    pairs = pairs_with_roofs(calibration)
    chosen = [str(row["provider"]) for row in others if (row["provider"], RECIPE) in pairs]
    if calibration is None or not chosen:
        return (
            "Which roof other int4 kernels meet is not known here: none was both measured at this "
            "point and calibrated on probes."
        )
    parts = [_roofs_text(calibration, provider) for provider in chosen]
    return f"The calibrated roofs say what holds it there: {'; '.join(parts)}."


def _roofs_text(calibration: Calibration, provider: str, subject: str = "") -> str:
    """Which roof binds a provider, and the time of each; `subject` stands for its name."""
    parts = roofs_of_pair(calibration, provider, RECIPE, float(SHAPE["n"]), float(SHAPE["k"]))
    tokens = tokens_of_pair(provider, RECIPE)
    index = int(np.searchsorted(tokens, SHAPE["m"]))
    return (
        f"{subject or provider} is bound by {_ROOFS_IN_WORDS[parts.bound_by[index]]} (memory "
        f"{_time_text(parts.dram[index])}, issue slots of dequantisation "
        f"{_time_text(parts.slots[index])}, matrix unit and activations "
        f"{_time_text(parts.math[index])}, launch {_time_text(parts.fixed[index])})"
    )


def _own_sentence(ours: Sequence[Row], fp8: Row | None, calibration: Calibration | None) -> str:
    gains = {}
    for row in ours:
        gain = f" ({times(fp8['median_s'] / row['median_s'])} as fast as fp8)" if fp8 else ""
        gains[row["provider"]] = f"{_time_text(row['median_s'])}{gain}"
    if "triton" not in gains:
        return f"Not measured: kernels.int4_gemm at {_AT}."
    chaining = (
        f"and, apart from that, {gains[CHAINED]} by chained ones, which start under the end of the "
        "kernel before"
        if CHAINED in gains
        else "and was not measured by chained launches"
    )
    bound = ""
    if calibration is not None and ("triton", RECIPE) in pairs_with_roofs(calibration):
        bound = f"; {_roofs_text(calibration, 'triton', 'the plain launch')}"
    return f"Our kernels.int4_gemm took {gains['triton']} by a plain launch {chaining}{bound}."


def _time_text(seconds: float) -> str:
    return scaled(float(seconds), "s")


# --- the section ---------------------------------------------------------------------------------

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
            parts.append(f"{name} at {len(own)} ({tokens}, up to {times(best)} the next format)")
    if not parts:
        return _NO_ANSWER
    shapes = count_of(len(rows), "measured shape")
    return Answer(f"Of {shapes} of few tokens, the fastest weights are {', '.join(parts)}.")


def show(analysis: Analysis) -> Iterator[Item]:
    """The answer in sentences, maps of the fastest format, bandwidth, roofs and errors."""
    frame, calibration = analysis.frames.get(OP), analysis.run.calibration
    if frame is None or frame.empty:
        yield _NO_ANSWER
        return
    rows = rows_with_format(frame)
    winners = winners_table(rows)
    yield answer(winners)
    roofs, errors = roofs_table(rows, calibration), errors_table(rows)
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
    yield draw_roofs(rows, calibration)
    yield Table("mixed-roofs", "Which roof binds, by tokens", roofs, ROOF_COLUMNS, ROOFS_FILE)
    name = "Error of the kernel and of the format, kept apart"
    yield Table("mixed-errors", name, errors, ERRORS, ERRORS_FILE)


SECTION = Section("Mixed precision: int4 weights", "weights", show, lead=("mixed_bandwidth",))
