"""All-gathers with their product, fused and one after the other, and the links they run over.

For each shape, world size, recipe and mode, with t of the slowest rank:

    speed-up    t in sequence / t fused
    ideal       t in sequence / max(t product, t gather)          only the longer part is seen
    hidden      (t in sequence - t fused) / min(t product, t gather)   overlap efficiency

mode: graph, captured; eager, launched by the host call by call (on a CPU: by the clock).
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.records import Calibration
from roofcal.core.visits.intervals import narrowest_hold
from roofcal.ops.all_gather_matmul import spec
from roofcal.points.columns import INTERVAL_HOLDS, RANK_SPREAD
from roofcal.points.roofs import constants_of
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import SPEEDUP, ratio_of_times
from roofcal.report.data.tidy import ok_rows, row_of_largest
from roofcal.report.kit import charts, styles
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Block, absence, paragraphs
from roofcal.report.kit.numbers import axis_text, count_of, percent, shape_text, times
from roofcal.report.kit.writer import Picture, SectionWriter
from roofcal.report.section import Section, filled_table
from roofcal.report.sections.gathered import links

OP: Final = spec.OP.name
FILE: Final = "gathered_overlap.csv"
GRAPH, EAGER = "graph", "eager"
FUSED: Final[tuple[str, ...]] = (spec.OURS, spec.TORCH)
NOT_MEASURED: Final = (
    "All-gathers with their product were not measured here; on a machine with several GPUs "
    f"`snakemake --cores all --config 'ops=[{OP}]'` does."
)
NOT_FUSED: Final = (
    "No fused provider has a time here, as that takes several GPUs: the table below has the parts "
    "on their own and one after the other."
)
_MODES: Final = {"graph": GRAPH, "events_flush": EAGER, "wall": EAGER}
_GATHER_LINKS: Final = "link.all_gather."
_KEYS: Final = ["world_size", "recipe", "mode", "m", "n", "k"]
_GROUP: Final = ["world_size", "recipe", "mode", "provider"]

Row = Mapping[Hashable, Any]

_OVERLAP: Final = (
    col.ratio("ideal", "ideal"),
    col.fraction("hidden", "hidden", digits=0),
    col.fraction("over_product", "over product", signed=True),
)
OVERLAP: Final = (
    *col.named("world_size", "recipe"),
    col.text("mode", "mode", about="graph: captured; eager: launched by the host call by call"),
    *col.named("m", "n", "k", "provider"),
    col.seconds("median_s", "time", "slowest rank"),
    col.seconds("sequence_s", "in sequence", "the library's all-gather, then its product"),
    col.seconds("product_s", "product", "alone, with all rows gathered beforehand"),
    col.seconds("gather_s", "gather", "alone"),
    *col.named("speedup", "speedup_low", "speedup_high", "interval_holds"),
    *_OVERLAP,
    col.fraction("rank_spread", "ranks apart"),
    col.seconds("predicted_s", "predicted", "calibrated model"),
    col.fraction("predicted_hidden", "predicted hidden", digits=0),
)
SUMMARY: Final = (
    *col.named("world_size", "recipe", "mode", "provider", "shapes"),
    col.ratio("speedup", "geometric mean"),
    col.ratio("least", "least"),
    col.ratio("most", "most"),
    *_OVERLAP,
)
RANKS: Final = (
    *col.named("world_size", "provider", "points"),
    col.fraction("median", "median"),
    col.fraction("worst", "worst"),
)
_ROW_PX: Final = 21
_COLOURS: Final = {spec.OURS: styles.BLUE, spec.TORCH: styles.VERMILLION}
_LOWEST_HIDDEN: Final = -2.0  # eager calls of small shapes lie far below; the table has them
_RATIOS: Final = (0.1, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)
_SHARES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
_WHO: Final = charts.text_tips(shape="shape", recipe="recipe", provider="provider", mode="launched")
_TIMES: Final = (
    charts.Tip("median_s", "time", "si", "s"),
    charts.Tip("sequence_s", "in sequence", "si", "s"),
    charts.Tip("product_s", "product", "si", "s"),
    charts.Tip("gather_s", "gather", "si", "s"),
)


def timed_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a time on normal data, and their column `mode`; of graphs those of a cold cache.

    Eager calls on a GPU have no prediction: no model has the host's work, which counts there.
    """
    rows = ok_rows(frame[(frame["distribution"] == "normal") & (frame["repeat"] == 0)])
    rows = rows[rows["method"].isin(list(_MODES))]
    rows = rows[(rows["method"] != "graph") | (rows["cache"] == "cold")]
    predicted = rows["predicted_s"].where(rows["method"] != "events_flush")
    mode = [_MODES[str(method)] for method in rows["method"]]
    return rows.assign(mode=mode, predicted_s=predicted)


def overlap_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per fused time and the time in sequence that it is compared with.

    A shape that nothing fused ran has one row, of the time in sequence.
    """
    timed = timed_rows(frame)
    timed = timed.assign(eager=timed["mode"] == EAGER)  # graph before eager
    timed = timed.sort_values(["world_size", "recipe", "eager", "n", "k", "m"], kind="stable")
    rows = [
        row
        for keys, group in timed.groupby(_KEYS, sort=False)
        for row in _compared(dict(zip(_KEYS, keys, strict=True)), group)
    ]
    table = pd.DataFrame(rows, columns=[column.key for column in OVERLAP])
    numbers = [c.key for c in OVERLAP if c.kind == "number" and c.key not in _KEYS]
    return table.astype(dict.fromkeys(numbers, "float64"))


def _compared(keys: Mapping[str, Any], group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    rows = {str(row["provider"]): row for row in group.to_dict("records")}
    sequence = next((rows[name] for name in spec.IN_SEQUENCE if name in rows), None)
    if sequence is None:
        return
    product, gather = (rows.get(name, {}) for name in spec.BOUNDS)
    for name in [name for name in FUSED if name in rows] or [str(sequence["provider"])]:
        row = rows[name]
        yield {
            **keys,
            "provider": name,
            "median_s": row["median_s"],
            "sequence_s": sequence["median_s"],
            "product_s": product.get("median_s"),
            "gather_s": gather.get("median_s"),
            **dict(zip(SPEEDUP, map(float, ratio_of_times(sequence, row)), strict=True)),
            INTERVAL_HOLDS: narrowest_hold(sequence[INTERVAL_HOLDS], row[INTERVAL_HOLDS]),
            **_hidden(row, sequence, product, gather),
            "over_product": row["median_s"] / product["median_s"] - 1 if product else None,
            "rank_spread": row.get(RANK_SPREAD),
        }


def _hidden(row: Row, sequence: Row, product: Row, gather: Row) -> dict[str, Any]:
    """Ideal and overlap efficiency, measured and predicted; nothing if a bound has no time."""
    columns: dict[str, Any] = {"predicted_s": row["predicted_s"]}
    if not product or not gather:
        return columns
    bounds = (product["median_s"], gather["median_s"])
    columns["ideal"] = sequence["median_s"] / max(bounds)
    if row["provider"] != sequence["provider"]:
        columns["hidden"] = (sequence["median_s"] - row["median_s"]) / min(bounds)
        least = min(product["predicted_s"], gather["predicted_s"])
        columns["predicted_hidden"] = (sequence["predicted_s"] - row["predicted_s"]) / least
    return columns


def unpredicted_sentence(frame: pd.DataFrame, calibration: Calibration | None) -> str:
    """Which world sizes the calibration lacks; "" if it has all, and without a calibration."""
    if calibration is None:
        return ""
    names = (name for name in constants_of(calibration) if name.startswith(_GATHER_LINKS))
    calibrated = {name.split(".")[2] for name in names}
    sizes = sorted({int(size) for size in timed_rows(frame)["world_size"]})
    lacking = [str(size) for size in sizes if str(size) not in calibrated]
    if not lacking:
        return ""
    return (
        f"Not predicted on {' and '.join(lacking)} devices: the calibration has no link constants "
        "of that world size, which probe_link measures."
    )


def answer_sentences(table: pd.DataFrame) -> Iterator[str]:
    """One sentence per world size on what our kernel reaches captured in bf16."""
    ours = table[(table["provider"] == spec.OURS) & (table["mode"] == GRAPH)]
    rows = overlap_summary(ours[ours["recipe"] == spec.OP.baseline_recipe])
    for row in rows.to_dict("records"):
        ideal = row["ideal"]
        best = "" if np.isnan(ideal) else f"; perfect overlap would be {times(ideal)}"
        yield (
            f"On {row['world_size']} GPUs {row['provider']} is {times(row['speedup'])} as fast as "
            f"NCCL and product one after the other ({row['recipe']}, captured, geometric mean of "
            f"{count_of(row['shapes'], 'shape')}, {times(row['least'])} to {times(row['most'])})"
            f"{best}."
        )


def overlap_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Fused rows of an overlap table by world size, recipe, mode and provider."""
    fused = table[table["provider"].isin(FUSED)].groupby(_GROUP, sort=False, as_index=False)
    return fused.agg(
        shapes=("speedup", "size"),
        speedup=("speedup", geometric_mean),
        least=("speedup", "min"),
        most=("speedup", "max"),
        ideal=("ideal", geometric_mean),
        hidden=("hidden", "median"),
        over_product=("over_product", "median"),
    )[[column.key for column in SUMMARY]]


def geometric_mean(ratios: "pd.Series[float]") -> float:
    """exp of the mean of logarithms; NaN of nothing."""
    return float(np.exp(np.log(ratios.astype(float)).mean()))


def rows_with_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Timed rows that have the spread of their ranks."""
    rows = timed_rows(frame)
    return rows[rows[RANK_SPREAD].notna()] if RANK_SPREAD in rows else rows[:0]


def ranks_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How far the slowest rank's median lies above the fastest one's."""
    ranks = rows_with_ranks(frame)
    if ranks.empty:
        return pd.DataFrame(columns=[column.key for column in RANKS])
    groups = ranks.groupby(["world_size", "provider"], as_index=False)
    spread = RANK_SPREAD
    return groups.agg(points=(spread, "size"), median=(spread, "median"), worst=(spread, "max"))


def draw_speedup(table: pd.DataFrame) -> Picture | None:
    """A row per shape, a panel per world size and recipe; None if nothing fused has a time."""
    rows = table[table["provider"].isin(FUSED)]
    if rows.empty:
        return None
    # by weights, then rows of A
    ordered = rows.assign(weight=rows["n"] * rows["k"]).sort_values(["weight", "n", "k", "m"])
    points = _points(ordered).assign(colour=list(ordered["provider"].map(_COLOURS)))
    recipes = drawing.in_recipe_order(rows["recipe"], OP)
    sizes = sorted(set(rows["world_size"]))
    captured = points[points["mode"] == GRAPH]
    ideal = (captured if len(captured) else points).drop_duplicates(["panel", "shape"])
    chart = charts.Chart(
        x=charts.Axis(
            "speedup",
            "speed-up over NCCL and product",
            "ratio",
            ticks=charts.ticks_around(points["speedup"], _RATIOS),
        ),
        y=charts.Axis("shape", "", "names", order=list(dict.fromkeys(points["shape"]))),
        layers=[
            charts.Layer("upright", table="equal"),
            charts.Layer("dots", table="ideal", size=90),
            charts.Layer("dots", size=42),
        ],
        tables={
            "points": points,
            "ideal": ideal.assign(
                speedup=ideal["ideal"],
                provider="ideal",
                marker="|",
                is_open=0,
                colour=styles.INK,
            ),
            "equal": charts.line_at(1.0, "speedup", styles.MUTED),
        },
        panels=charts.facets(
            charts.in_order(points, world_size=sizes, recipe=recipes),
            "panel",
            42,
            width=380,
            names="shape",
            name_px=_ROW_PX,
        ),
        tips=(
            *_WHO,
            charts.Tip("speedup", "speed-up", "ratio", "", "speedup_low", "speedup_high"),
            charts.Tip("ideal", "ideal", "ratio"),
            *_TIMES,
        ),
        legend=[
            *_provider_entries(rows, _COLOURS),
            *_mode_entries(rows),
            charts.LegendEntry("provider", "ideal", marker="|"),
        ],
        columns=len(recipes),
    )
    best = row_of_largest(rows, "speedup")
    best_ideal = float(best["ideal"])
    beside = "" if isnan(best_ideal) else f", where the ideal is {times(best_ideal)}"
    return Picture(
        key="gathered_speedup",
        chart=chart,
        op=OP,
        alt="Speed-up of fused all-gathers and products by shape, beside the ideal.",
        facts=f"{count_of(len(rows), 'ratio')}; the highest is {times(float(best['speedup']))} by "
        f"{best['provider']} ({best['recipe']}, {best['mode']}) on {best['world_size']} GPUs at "
        f"{axis_text(best)}{beside}.",
    )


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as dots draw them, in the colours of recipes: graphs are filled, eager calls open."""
    recipes, sizes = rows["recipe"].astype(str), rows["world_size"].astype(str)
    return rows.assign(
        shape=[shape_text(shape) for shape in rows[["m", "n", "k"]].to_numpy()],
        panel=sizes + " GPUs, " + recipes,
        devices=sizes + " GPUs",
        ranks=sizes + " ranks",
        colour=recipes.map(drawing.recipe_colour),
        marker=rows["provider"].astype(str).map(drawing.provider_marker),
        is_open=(rows["mode"] != GRAPH).astype(int),
    ).reset_index(drop=True)


def _provider_entries(rows: pd.DataFrame, colours: Mapping[str, str]) -> list[charts.LegendEntry]:
    marks = {n: (colours.get(n, styles.INK), drawing.provider_marker(n)) for n in FUSED}
    present = set(rows["provider"])
    return charts.marked(
        "provider", {name: mark for name, mark in marks.items() if name in present}
    )


def _mode_entries(rows: pd.DataFrame) -> list[charts.LegendEntry]:
    """What filled and open markers mean, if there are both."""
    if rows["mode"].nunique() < 2:
        return []
    entry = charts.LegendEntry("mode", GRAPH, styles.MUTED, "o")
    return [entry, replace(entry, value=EAGER, is_open=True)]


def _recipe_entries(rows: pd.DataFrame) -> list[charts.LegendEntry]:
    recipes = drawing.in_recipe_order(rows["recipe"], OP)
    return charts.swatches("recipe", {name: drawing.recipe_colour(name) for name in recipes})


def draw_hidden(table: pd.DataFrame) -> Picture | None:
    """Overlap efficiency against gather / product, a panel per world size; None without any."""
    rows = table[table["hidden"].notna()]
    if rows.empty:
        return None
    points = _points(rows.assign(share=rows["gather_s"] / rows["product_s"]))
    points = points.sort_values("world_size", kind="stable")
    levels = [charts.line_at(level, "hidden", styles.MUTED) for level in (0.0, 1.0)]
    chart = charts.Chart(
        x=charts.Axis(
            "share",
            "time of gather / of product",
            "ratio",
            ticks=charts.ticks_around(points["share"], _SHARES),
        ),
        y=charts.Axis("hidden", "of the shorter one hidden", "percent"),
        layers=[charts.Layer("level", table="levels"), charts.Layer("dots", size=42)],
        tables={
            "points": points[points["hidden"] >= _LOWEST_HIDDEN],
            "levels": pd.concat(levels),
        },
        panels=charts.facets(points, "devices"),
        tips=(*_WHO, charts.Tip("hidden", "hidden", "percent"), *_TIMES),
        legend=[*_recipe_entries(rows), *_provider_entries(rows, {}), *_mode_entries(rows)],
    )
    medians = rows.groupby("provider")["hidden"].median()
    shares = [f"{name} {percent(float(median), 0)}" for name, median in medians.items()]
    facts = f"{count_of(len(rows), 'point')}; hidden in the median: {', '.join(shares)}."
    alt = "Share of the shorter of gather and product that is hidden."
    return Picture(key="gathered_hidden", chart=chart, op=OP, alt=alt, facts=facts)


def draw_ranks(frame: pd.DataFrame) -> Picture | None:
    """How far the ranks of every point lie apart, a panel per world size; None without ranks."""
    rows = rows_with_ranks(frame)
    if rows.empty:
        return None
    columns = [*_GROUP, "m", "n", "k", "median_s", "point_id", RANK_SPREAD]
    points = _points(rows[columns]).sort_values("world_size", kind="stable").assign(marker="o")
    present = set(rows["provider"])
    names = [name for name in dict.fromkeys(spec.OP.every_provider) if name in present]
    chart = charts.Chart(
        x=charts.Axis(RANK_SPREAD, "slowest over fastest rank, less 1", "percent"),
        y=charts.Axis("provider", "", "names", order=names),
        layers=[charts.Layer("dots", size=42)],
        tables={"points": points},
        panels=charts.facets(points, "ranks", 150),
        tips=(*_WHO, charts.Tip(RANK_SPREAD, "ranks apart", "percent"), _TIMES[0]),
        legend=[*_recipe_entries(rows), *_mode_entries(rows)],
    )
    worst = row_of_largest(rows, RANK_SPREAD)
    return Picture(
        key="gathered_ranks",
        chart=chart,
        op=OP,
        alt="Slowest against fastest rank by provider and world size.",
        facts=f"{count_of(len(rows), 'point')}; ranks lie "
        f"{percent(float(rows[RANK_SPREAD].median()))} apart in the median, at most "
        f"{percent(float(worst[RANK_SPREAD]))} ({worst['provider']} on {worst['world_size']} "
        f"ranks, {axis_text(worst)}).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """The tidy frame of the op, None without a point of it that has a time, and its table."""

    analysis: Analysis
    frame: pd.DataFrame | None
    table: pd.DataFrame


def _contents(analysis: Analysis) -> _Contents:
    frame = analysis.frames.get(OP)
    if frame is None or timed_rows(frame).empty:
        return _Contents(analysis=analysis, frame=None, table=pd.DataFrame())
    return _Contents(analysis=analysis, frame=frame, table=overlap_table(frame))


def _blocks(contents: _Contents, writer: SectionWriter) -> Iterator[Block]:
    """Without such rows, a CPU shows nothing and a GPU says how to measure them."""
    analysis = contents.analysis
    if contents.frame is not None:
        yield from _gathers(contents, contents.frame, writer)
    elif analysis.run.environment.vendor != "cpu":
        yield absence(NOT_MEASURED)
    constants = links.link_constants(analysis.run.calibration)
    curves = links.link_curves(analysis.frames.get(links.OP))
    yield from writer.figures(links.draw_links(curves, constants, analysis.spec))
    name = "Links between devices: rate and latency, fitted per collective and world size"
    columns = links.LINK_CONSTANTS
    yield from writer.filled_table("links", name, constants, columns, "constants.csv")


def _gathers(contents: _Contents, frame: pd.DataFrame, writer: SectionWriter) -> Iterator[Block]:
    table = contents.table
    if not table["provider"].isin(FUSED).any():
        yield absence(NOT_FUSED)
    yield from paragraphs(answer_sentences(table))
    unpredicted = unpredicted_sentence(frame, contents.analysis.run.calibration)
    if unpredicted:
        yield absence(unpredicted)
    name, rows = (
        "Speed-up over NCCL and product, captured and eager",
        overlap_summary(table),
    )
    yield from writer.filled_table("gathered-summary", name, rows, SUMMARY, FILE)
    yield from writer.figures(draw_speedup(table), draw_hidden(table), source=FILE)
    name = "All-gather and product: in sequence, fused, and what bounds both"
    yield from writer.filled_table("gathered-points", name, table, OVERLAP, FILE)
    yield from writer.figures(draw_ranks(frame))
    name, rows = "Slowest rank over the fastest, less 1", ranks_table(frame)
    yield from writer.filled_table("gathered-ranks", name, rows, RANKS)


SECTION = Section(
    "All-gather fused with the product",
    "recipe",
    _contents,
    _blocks,
    tables=lambda contents: filled_table(FILE, contents.table),
)
