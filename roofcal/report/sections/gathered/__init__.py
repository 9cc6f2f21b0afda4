"""All-gathers with their product, fused and one after the other, and the links they run over.

For each shape, world size, recipe and mode, with t of the slowest rank:

    speed-up    t in sequence / t fused
    ideal       t in sequence / max(t product, t gather)          only the longer part is seen
    hidden      (t in sequence - t fused) / min(t product, t gather)   overlap efficiency

mode: graph, captured; eager, launched by the host call by call (on a CPU: by the clock).
"""

from collections.abc import Iterator, Mapping
from math import isnan
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops.all_gather_matmul import spec
from roofcal.ops.probe_link.model import COLLECTIVES, METHODS, share
from roofcal.ops.probe_link.spec import OP as PROBE
from roofcal.ops.probe_link.spec import RECIPES
from roofcal.points.columns import RANK_SPREAD
from roofcal.points.roofs import constants_of
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import SPEEDUP, TIME_COLUMNS, with_ratios
from roofcal.report.data.op_pages import casts_note
from roofcal.report.data.tidy import ok_rows, row_of_largest, shape_texts
from roofcal.report.kit import charts
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Table, absence, paragraphs
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.numbers import (
    MICROSECONDS,
    axis_text,
    binary,
    count_of,
    percent,
    scaled,
    times,
)
from roofcal.report.section import CsvTable, Item, Section

OP: Final = spec.OP.name
LINKS: Final = PROBE.name
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
# What a fused time is compared with -> who measured it
_COMPARED: Final = {
    "_sequence": spec.IN_SEQUENCE,
    "_product": (spec.GEMM_ONLY,),
    "_gather": (spec.ALL_GATHER_ONLY,),
}
_KEYS: Final = ["world_size", "recipe", "mode", "m", "n", "k"]
_GROUP: Final = ["world_size", "recipe", "mode", "provider"]

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
_COLOURS: Final = {spec.OURS: charts.BLUE, spec.TORCH: charts.VERMILLION}
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


def show(analysis: Analysis) -> Iterator[Item]:
    """Gathers with their product, or on a GPU how to measure them, then the links."""
    calibration = analysis.run.calibration
    constants = link_constants(calibration)
    rows = timed_rows(analysis.frames.get(OP))
    if len(rows):
        yield from _items_of_gathers(rows, constants if calibration else None)
    elif analysis.run.environment.vendor != "cpu":
        yield absence(NOT_MEASURED)
    curves = link_curves(analysis.frames.get(LINKS))
    yield draw_links(curves, constants, analysis.spec)
    name = "Links between devices: rate and latency, fitted per collective and world size"
    yield Table("links", name, constants, LINK_CONSTANTS, "constants.csv")


def _items_of_gathers(rows: pd.DataFrame, constants: pd.DataFrame | None) -> Iterator[Item]:
    """What is shown of `timed_rows`; constants: of links, None where nothing was calibrated."""
    table = overlap_table(rows)
    summary = overlap_summary(table)
    if len(table):
        yield CsvTable(FILE, table)
    if summary.empty:
        yield absence(NOT_FUSED)
    yield from paragraphs(answer_sentences(summary))
    if constants is not None:
        is_known = (constants["collective"] == "all_gather") & (constants["by"] != _SYMMETRIC)
        lacking = sorted(set(rows["world_size"]) - set(constants.loc[is_known, "world_size"]))
        if lacking:
            yield absence(
                f"Not predicted on {' and '.join(map(str, lacking))} devices: the calibration has "
                "no link constants of that world size, which probe_link measures."
            )
    name = f"Speed-up over NCCL and product, captured and eager{casts_note(OP)}"
    yield Table("gathered-summary", name, summary, SUMMARY, FILE)
    yield draw_speedup(table)
    yield draw_hidden(table)
    name = "All-gather and product: in sequence, fused, and what bounds both"
    yield Table("gathered-points", name, table, OVERLAP, FILE)
    if RANK_SPREAD in rows:
        rows = rows[rows[RANK_SPREAD].notna()]
        yield draw_ranks(rows)
        groups = rows.groupby(["world_size", "provider"])[RANK_SPREAD]
        ranks = groups.agg(points="size", median="median", worst="max").reset_index()
        yield Table("gathered-ranks", "Slowest rank over the fastest, less 1", ranks, RANKS)


def timed_rows(frame: pd.DataFrame | None) -> pd.DataFrame:
    """Rows with a time on normal data, and their column `mode`; of graphs those of a cold cache.

    Eager calls on a GPU have no prediction: no model has the host's work, which counts there.
    """
    if frame is None or frame.empty:
        return pd.DataFrame()
    rows = ok_rows(frame[(frame["distribution"] == "normal") & (frame["repeat"] == 0)])
    rows = rows[rows["method"].isin(list(_MODES))]
    rows = rows[(rows["method"] != "graph") | (rows["cache"] == "cold")]
    predicted = rows["predicted_s"].where(rows["method"] != "events_flush")
    return rows.assign(mode=rows["method"].map(_MODES), predicted_s=predicted)


def overlap_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per fused time and the time in sequence that it is compared with.

    A shape that nothing fused ran has one row, of the time in sequence. Without the time of a bound
    there is no ideal and nothing hidden. rows: of `timed_rows`.
    """
    order = [*FUSED, *spec.IN_SEQUENCE, *spec.BOUNDS]
    timed = rows.assign(eager=rows["mode"] == EAGER, place=rows["provider"].map(order.index))
    timed = timed.sort_values(["world_size", "recipe", "eager", "n", "k", "m", "place"])
    shown = timed[timed["provider"].isin((*FUSED, *spec.IN_SEQUENCE))]
    table = shown[shown["provider"].isin(FUSED) | ~shown.duplicated(_KEYS)]
    for suffix, providers in _COMPARED.items():
        others = timed[timed["provider"].isin(providers)].drop_duplicates(_KEYS)
        others = others[[*_KEYS, *TIME_COLUMNS, "predicted_s"]]
        table = table.merge(others, "left", on=_KEYS, suffixes=("", suffix))
    table = with_ratios(table[table["median_s_sequence"].notna()], SPEEDUP, over="_sequence")

    def hidden(time: str) -> "pd.Series[float]":
        shorter = table[[f"{time}_product", f"{time}_gather"]].min(axis=1, skipna=False)
        share = (table[f"{time}_sequence"] - table[time]) / shorter
        return share.where(table["provider"].isin(FUSED))

    sequence, product, gather = (table[f"median_s{suffix}"] for suffix in _COMPARED)
    return table.assign(
        sequence_s=sequence,
        product_s=product,
        gather_s=gather,
        ideal=sequence / np.maximum(product, gather),
        hidden=hidden("median_s"),
        over_product=table["median_s"] / product - 1,
        predicted_hidden=hidden("predicted_s"),
    ).reindex(columns=col.keys_of(OVERLAP))


def answer_sentences(summary: pd.DataFrame) -> Iterator[str]:
    """One sentence per world size on what our kernel reaches captured in bf16."""
    ours = summary[(summary["provider"] == spec.OURS) & (summary["mode"] == GRAPH)]
    for row in ours[ours["recipe"] == spec.OP.baseline_recipe].to_dict("records"):
        ideal = row["ideal"]
        best = "" if isnan(ideal) else f"; perfect overlap would be {times(ideal)}"
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
    )[col.keys_of(SUMMARY)]


def geometric_mean(ratios: "pd.Series[float]") -> float:
    """exp of the mean of logarithms; NaN of nothing."""
    return float(np.exp(np.log(ratios.astype(float)).mean()))


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
    best = row_of_largest(rows, "speedup")
    beside = "" if isnan(best["ideal"]) else f", where the ideal is {times(best['ideal'])}"
    return Picture(
        key="gathered_speedup",
        op=OP,
        source=FILE,
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
                speedup=ideal["ideal"], provider="ideal", marker="|", is_open=0, colour=charts.INK
            ),
            "equal": charts.line_at(1.0, "speedup", charts.MUTED),
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
        alt="Speed-up of fused all-gathers and products by shape, beside the ideal.",
        facts=f"{count_of(len(rows), 'ratio')}; the highest is {times(float(best['speedup']))} by "
        f"{best['provider']} ({best['recipe']}, {best['mode']}) on {best['world_size']} GPUs at "
        f"{axis_text(best)}{beside}.",
    )


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as dots draw them, in the colours of recipes: graphs are filled, eager calls open."""
    recipes, sizes = rows["recipe"].astype(str), rows["world_size"].astype(str)
    shown = rows.assign(
        shape=shape_texts(rows, ("m", "n", "k")),
        panel=sizes + " GPUs, " + recipes,
        devices=sizes + " GPUs",
        ranks=sizes + " ranks",
    )
    is_open = (rows["mode"] != GRAPH).astype(int)
    return drawing.with_marks(shown).assign(is_open=is_open).reset_index(drop=True)


def _provider_entries(rows: pd.DataFrame, colours: Mapping[str, str]) -> list[charts.LegendEntry]:
    names = [name for name in FUSED if name in set(rows["provider"])]
    marks = {n: (colours.get(n, charts.INK), drawing.provider_marker(n)) for n in names}
    return charts.marked("provider", marks)


def _mode_entries(rows: pd.DataFrame) -> list[charts.LegendEntry]:
    """What filled and open markers mean, if there are both."""
    if rows["mode"].nunique() < 2:
        return []
    return [
        charts.LegendEntry("mode", GRAPH, charts.MUTED, "o"),
        charts.LegendEntry("mode", EAGER, charts.MUTED, "o", is_open=True),
    ]


def draw_hidden(table: pd.DataFrame) -> Picture | None:
    """Overlap efficiency against gather / product, a panel per world size; None without any."""
    rows = table[table["hidden"].notna()]
    if rows.empty:
        return None
    points = _points(rows.assign(share=rows["gather_s"] / rows["product_s"]))
    points = points.sort_values("world_size", kind="stable")
    levels = pd.concat([charts.line_at(level, "hidden", charts.MUTED) for level in (0.0, 1.0)])
    medians = rows.groupby("provider")["hidden"].median()
    shares = [f"{name} {percent(float(median), 0)}" for name, median in medians.items()]
    return Picture(
        key="gathered_hidden",
        op=OP,
        source=FILE,
        x=charts.Axis(
            "share",
            "time of gather / of product",
            "ratio",
            ticks=charts.ticks_around(points["share"], _SHARES),
        ),
        y=charts.Axis("hidden", "of the shorter one hidden", "percent"),
        layers=[charts.Layer("level", table="levels"), charts.Layer("dots", size=42)],
        tables={"points": points[points["hidden"] >= _LOWEST_HIDDEN], "levels": levels},
        panels=charts.facets(points, "devices"),
        tips=(*_WHO, charts.Tip("hidden", "hidden", "percent"), *_TIMES),
        legend=[
            *drawing.recipe_legend(rows["recipe"], OP),
            *_provider_entries(rows, {}),
            *_mode_entries(rows),
        ],
        alt="Share of the shorter of gather and product that is hidden.",
        facts=f"{count_of(len(rows), 'point')}; hidden in the median: {', '.join(shares)}.",
    )


def draw_ranks(rows: pd.DataFrame) -> Picture | None:
    """How far the ranks of every point lie apart, a panel per world size; None without rows."""
    if rows.empty:
        return None
    points = _points(rows).sort_values("world_size", kind="stable").assign(marker="o")
    names = [name for name in spec.OP.every_provider if name in set(rows["provider"])]
    worst = row_of_largest(rows, RANK_SPREAD)
    return Picture(
        key="gathered_ranks",
        op=OP,
        x=charts.Axis(RANK_SPREAD, "slowest over fastest rank, less 1", "percent"),
        y=charts.Axis("provider", "", "names", order=names),
        layers=[charts.Layer("dots", size=42)],
        tables={"points": points},
        panels=charts.facets(points, "ranks", 150),
        tips=(*_WHO, charts.Tip(RANK_SPREAD, "ranks apart", "percent"), _TIMES[0]),
        legend=[*drawing.recipe_legend(rows["recipe"], OP), *_mode_entries(rows)],
        alt="Slowest against fastest rank by provider and world size.",
        facts=f"{count_of(len(rows), 'point')}; ranks lie "
        f"{percent(float(rows[RANK_SPREAD].median()))} apart in the median, at most "
        f"{percent(float(worst[RANK_SPREAD]))} ({worst['provider']} on {worst['world_size']} "
        f"ranks, {axis_text(worst)}).",
    )


# --- the links: bandwidth by size as measured, and what was fitted to it -------------------------

_SYMMETRIC: Final = "symm_mem"

LINK_CONSTANTS: Final = (
    *col.named("collective", "by", "world_size"),
    col.number("rate", "rate", "GB/s", 1e-9),
    col.number("rate_low", "low", "GB/s", 1e-9),
    col.number("rate_high", "high", "GB/s", 1e-9),
    col.number("latency", "latency", MICROSECONDS, 1e6),
    col.number("latency_low", "low", MICROSECONDS, 1e6),
    col.number("latency_high", "high", MICROSECONDS, 1e6),
)
_LINK_KINDS: Final = {"bytes_per_s": "rate", "latency_s": "latency"}
_LINK_KEYS: Final = ("collective", "by", "world_size")
_LINK_COLOURS: Final = {2: charts.BLUE, 4: charts.GREEN, 8: charts.VERMILLION}  # of world sizes
_LINK_ORDER: Final = list(COLLECTIVES.values())
_LINK_CORNERS: Final = 60  # of the line of a fit


def link_constants(calibration: Calibration | None) -> pd.DataFrame:
    """One row per collective, provider and world size: rate and latency with their intervals."""
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for name, constant in constants_of(calibration).items():
        prefix, *parts = name.split(".")
        if prefix != "link" or len(parts) != 3 or parts[2] not in _LINK_KINDS:
            continue
        collective, size, kind = parts[0], int(parts[1]), _LINK_KINDS[parts[2]]
        # symmetric memory is in the name of a constant, the library in its evidence
        library = "gloo" if "provider gloo" in constant.evidence else "nccl"
        name_alone = collective.removesuffix(f"_{_SYMMETRIC}")
        is_symmetric = name_alone != collective or collective == "send"
        key = (name_alone, _SYMMETRIC if is_symmetric else library, size)
        row = rows.setdefault(key, dict(zip(_LINK_KEYS, key, strict=True)))
        row[kind] = constant.value
        row[f"{kind}_low"], row[f"{kind}_high"] = constant.ci95_low, constant.ci95_high
    table = pd.DataFrame(rows.values(), columns=col.keys_of(LINK_CONSTANTS))
    return charts.in_order(table.sort_values(["by", "world_size"]), collective=_LINK_ORDER)


def link_curves(frame: pd.DataFrame | None) -> pd.DataFrame:
    """Timed rows of the probe by one method, with `moved_bytes` over a link and `rate` of them."""
    if frame is None or frame.empty:
        return pd.DataFrame()
    rows = ok_rows(frame[frame["repeat"] == 0])
    method = next((m for m in METHODS if (rows["method"] == m).any()), None)
    rows = rows[rows["method"] == method]
    shares = [
        share(COLLECTIVES[str(recipe)], int(size))
        for recipe, size in zip(rows["recipe"], rows["world_size"], strict=True)
    ]
    moved = rows["size_bytes"] * pd.Series(shares, index=rows.index, dtype="float64")
    return rows.assign(moved_bytes=moved, rate=moved / rows["median_s"])


def draw_links(
    rows: pd.DataFrame, constants: pd.DataFrame, spec: DeviceSpec | None
) -> Picture | None:
    """Bandwidth against size, measured and fitted, a panel per collective; None without rows.

    rows, constants: of link_curves and of link_constants.
    """
    if rows.empty:
        return None
    rows = rows.assign(
        devices=[f"{size} devices" for size in rows["world_size"]],
        colour=rows["world_size"].map(_LINK_COLOURS).fillna(charts.GREY),
        marker=[drawing.provider_marker(str(name)) for name in rows["provider"]],
    )
    fitted = constants.set_index(list(_LINK_KEYS)).to_dict("index")
    fits = []  # latency plus bytes over rate, over the sizes of a curve
    for (recipe, provider, size), curve in rows.groupby(["recipe", "provider", "world_size"]):
        collective = COLLECTIVES[str(recipe)]
        fit = fitted.get((collective, provider, size))
        if fit is None:
            continue
        ends = (float(curve["size_bytes"].min()), float(curve["size_bytes"].max()))
        sizes = np.geomspace(*ends, _LINK_CORNERS)
        first = curve.iloc[0]
        moved = sizes * share(collective, int(first["world_size"]))
        line = {
            **first[["recipe", "provider", "devices", "colour"]],
            "series": f"{provider} {first['devices']}",
            "dashed": int(provider == _SYMMETRIC),
            "size_bytes": sizes,
            "rate": moved / (fit["latency"] + moved / fit["rate"]),
        }
        fits.append(pd.DataFrame(line))
    entries = rows.drop_duplicates("devices").sort_values("world_size")
    colours = dict(zip(entries["devices"], entries["colour"], strict=True))
    legend = charts.swatches("devices", colours)
    legend += drawing.provider_legend(rows["provider"])
    levels = pd.DataFrame(columns=["devices", "rate", "dashed", "colour"])
    if spec is not None and spec.link_bytes_per_s is not None:
        level = charts.line_at(spec.link_bytes_per_s, "rate", charts.MUTED, dashed=1)
        levels = level.assign(devices="datasheet")[[*levels]]
        label = f"datasheet, one way {scaled(spec.link_bytes_per_s, 'B/s')}"
        entry = charts.LegendEntry("devices", "datasheet", charts.MUTED, "", charts.DASH, label)
        legend.append(entry)
    best = row_of_largest(rows, "rate")
    return Picture(
        key="links",
        op=LINKS,
        x=charts.Axis("size_bytes", "bytes of the vector", "bytes"),
        y=charts.Axis("rate", "bytes over a link / time", "linear", "B/s"),
        layers=[
            charts.Layer("level", table="levels"),
            charts.Layer("line", table="fits", detail="series"),
            charts.Layer("dots"),
        ],
        tables={
            "points": rows,
            "fits": pd.concat(fits) if fits else pd.DataFrame(columns=["series"]),
            "levels": levels,
        },
        panels=[
            charts.Panel(title=recipe.replace("_", " "), where={"recipe": recipe}, height=230)
            for recipe in RECIPES
            if recipe in set(rows["recipe"])
        ],
        tips=(
            *charts.text_tips(devices="on", provider="provider"),
            charts.Tip("size_bytes", "vector", "si", "B"),
            charts.Tip("rate", "over a link", "si", "B/s"),
            drawing.TIME_TIP,
        ),
        legend=legend,
        alt="Bandwidth of collectives against size, dots measured, lines fitted.",
        facts=f"{count_of(len(rows), 'point')}. Highest: {best['recipe']} by {best['provider']} on "
        f"{best['world_size']} devices at {binary(float(best['size_bytes']))}, "
        f"{scaled(float(best['rate']), 'B/s')}.",
    )


SECTION = Section("All-gather fused with the product", "recipe", show)
