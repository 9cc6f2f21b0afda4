"""All-gathers fused with their product: speed-up, what is hidden, spread over ranks.

For each shape, world size, recipe and mode, with t of the slowest rank:

    speed-up    t in sequence / t fused
    ideal       t in sequence / max(t product, t gather)          only the longer part is seen
    hidden      (t in sequence - t fused) / min(t product, t gather)   overlap efficiency

mode: graph, captured; eager, launched by the host call by call (on a CPU: by the clock).
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.records import Calibration
from roofcal.core.visits.intervals import narrowest_hold
from roofcal.ops.all_gather_matmul import spec
from roofcal.points.columns import INTERVAL_HOLDS, RANK_SPREAD
from roofcal.points.roofs import constants_of
from roofcal.report.data.comparisons import SPEEDUP, ratio_of_times
from roofcal.report.data.tidy import ok_rows
from roofcal.report.kit.columns import (
    HOLDS_COLUMN,
    SIZES,
    count,
    fraction,
    ratio,
    seconds,
    text,
    texts,
)
from roofcal.report.kit.numbers import count_of, times

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
    ratio("ideal", "ideal"),
    fraction("hidden", "hidden", digits=0),
    fraction("over_product", "over product", signed=True),
)
OVERLAP: Final = (
    count("world_size", "devices"),
    text("recipe", "recipe"),
    text("mode", "mode", about="graph: captured; eager: launched by the host call by call"),
    *SIZES,
    text("provider", "provider"),
    seconds("median_s", "time", "slowest rank"),
    seconds("sequence_s", "in sequence", "the library's all-gather, then its product"),
    seconds("product_s", "product", "alone, all rows there before"),
    seconds("gather_s", "gather", "alone"),
    ratio("speedup", "speed-up"),
    ratio("speedup_low", "low"),
    ratio("speedup_high", "high"),
    HOLDS_COLUMN,
    *_OVERLAP,
    fraction("rank_spread", "ranks apart"),
    seconds("predicted_s", "predicted", "calibrated model"),
    fraction("predicted_hidden", "predicted hidden", digits=0),
)
SUMMARY: Final = (
    count("world_size", "devices"),
    *texts("recipe", "mode", "provider"),
    count("shapes", "shapes"),
    ratio("speedup", "geometric mean"),
    ratio("least", "least"),
    ratio("most", "most"),
    *_OVERLAP,
)
RANKS: Final = (
    count("world_size", "devices"),
    text("provider", "provider"),
    count("points", "points"),
    fraction("median", "median"),
    fraction("worst", "worst"),
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
