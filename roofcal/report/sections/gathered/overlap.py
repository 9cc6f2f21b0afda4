"""All-gathers fused with their product in the report: speed-up, what is hidden, spread over ranks.

Of each shape, world size, recipe and mode, with t of the slowest rank:

    speed-up    t in sequence / t fused
    ideal       t in sequence / max(t product, t gather)          nothing but the longer is seen
    hidden      (t in sequence - t fused) / min(t product, t gather)   overlap efficiency

mode: graph, captured; eager, launched by the host call by call (on a CPU: by the clock).
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.records import Calibration
from roofcal.ops.all_gather_matmul import spec
from roofcal.report.data.tidy import RANK_SPREAD, ok_rows
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, fraction, ratio, seconds, text
from roofcal.report.kit.numbers import count_of, times

OP: Final = spec.OP.name
SOURCE: Final = "gathered_overlap.csv"
GRAPH, EAGER = "graph", "eager"
FUSED: Final[tuple[str, ...]] = (spec.OURS, spec.TORCH)
NOT_MEASURED: Final = (
    "All-gathers with their product were not measured here; on a machine with several GPUs "
    f"`snakemake --cores all --config 'ops=[{OP}]'` does."
)
NOT_FUSED: Final = (
    "No fused provider has a time here, as that takes several GPUs: below stands what the parts "
    "take on their own and one after the other."
)
_MODES: Final = {"graph": GRAPH, "events_flush": EAGER, "wall": EAGER}
_LINKS: Final = "link.all_gather."
_KEYS: Final = ["world_size", "recipe", "mode", "m", "n", "k"]
_SHAPE: Final = ["m", "n", "k"]

OVERLAP: Final[tuple[Column, ...]] = (
    count("world_size", "devices"),
    text("recipe", "recipe"),
    text("mode", "mode", about="graph: captured; eager: launched by the host call by call"),
    *(count(axis, axis) for axis in _SHAPE),
    text("provider", "provider"),
    seconds("median_s", "time", "slowest rank"),
    seconds("sequence_s", "in sequence", "the library's all-gather, then its product"),
    seconds("product_s", "product", "alone, all rows there before"),
    seconds("gather_s", "gather", "alone"),
    ratio("speedup", "speed-up"),
    ratio("speedup_low", "low"),
    ratio("speedup_high", "high"),
    ratio("ideal", "ideal"),
    fraction("hidden", "hidden", digits=0),
    fraction("over_product", "over product", signed=True),
    fraction("rank_spread", "ranks apart"),
    seconds("predicted_s", "predicted", "calibrated model"),
    fraction("predicted_hidden", "predicted hidden", digits=0),
)


def timed(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a time on normal data, and their column `mode`; graphs of a cold cache alone.

    Eager calls on a GPU have no prediction: the host's work, which counts there, is not modelled.
    """
    rows = ok_rows(frame[(frame["distribution"] == "normal") & (frame["repeat"] == 0)])
    rows = rows[rows["method"].isin(list(_MODES))]
    rows = rows[(rows["method"] != "graph") | (rows["cache"] == "cold")]
    predicted = rows["predicted_s"].where(rows["method"] != "events_flush")
    mode = [_MODES[str(method)] for method in rows["method"]]
    return rows.assign(mode=mode, predicted_s=predicted)


def overlap(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per fused time and time in sequence that it compares with.

    Where nothing is fused, the row is that in sequence.
    """
    made = [
        row
        for keys, some in _sorted(timed(frame)).groupby(_KEYS, sort=False)
        for row in _compared(dict(zip(_KEYS, keys, strict=True)), some)
    ]
    table = pd.DataFrame(made, columns=[column.key for column in OVERLAP])
    numbers = [c.key for c in OVERLAP if c.kind == "number" and c.key not in (*_KEYS,)]
    return table.astype(dict.fromkeys(numbers, "float64"))


def _sorted(rows: pd.DataFrame) -> pd.DataFrame:
    """By world size, recipe, mode (graph before eager), weights and rows."""
    ordered = rows.assign(eager=rows["mode"] == EAGER)
    return ordered.sort_values(["world_size", "recipe", "eager", "n", "k", "m"], kind="stable")


def _compared(keys: Mapping[str, Any], some: pd.DataFrame) -> Iterator[dict[str, Any]]:
    by = {str(row["provider"]): row for row in some.to_dict("records")}
    sequence = next((by[name] for name in spec.IN_SEQUENCE if name in by), None)
    if sequence is None:
        return
    product, gather = (by.get(name, {}) for name in spec.BOUNDS)
    for name in [name for name in FUSED if name in by] or [str(sequence["provider"])]:
        row = by[name]
        yield {
            **keys,
            "provider": name,
            "median_s": row["median_s"],
            "sequence_s": sequence["median_s"],
            "product_s": product.get("median_s"),
            "gather_s": gather.get("median_s"),
            **_speedup(row, sequence),
            **_hidden(row, sequence, product, gather),
            "over_product": row["median_s"] / product["median_s"] - 1 if product else None,
            "rank_spread": row.get(RANK_SPREAD),
        }


def _speedup(row: Mapping[Hashable, Any], sequence: Mapping[Hashable, Any]) -> dict[str, float]:
    """Far ends divide the far ends of both intervals."""
    return {
        "speedup": sequence["median_s"] / row["median_s"],
        "speedup_low": sequence["ci95_low_s"] / row["ci95_high_s"],
        "speedup_high": sequence["ci95_high_s"] / row["ci95_low_s"],
    }


def _hidden(
    row: Mapping[Hashable, Any],
    sequence: Mapping[Hashable, Any],
    product: Mapping[Hashable, Any],
    gather: Mapping[Hashable, Any],
) -> dict[str, Any]:
    """Ideal and overlap efficiency, measured and predicted; None where a bound has no time."""
    found: dict[str, Any] = {"predicted_s": row["predicted_s"]}
    if not product or not gather:
        return found
    bounds = (product["median_s"], gather["median_s"])
    found["ideal"] = sequence["median_s"] / max(bounds)
    if row["provider"] != sequence["provider"]:
        found["hidden"] = (sequence["median_s"] - row["median_s"]) / min(bounds)
        least = min(product["predicted_s"], gather["predicted_s"])
        found["predicted_hidden"] = (sequence["predicted_s"] - row["predicted_s"]) / least
    return found


def unpredicted(frame: pd.DataFrame, calibration: Calibration | None) -> str:
    """A sentence where the calibration lacks a world size; "" where it has all, or is none."""
    if calibration is None:
        return ""
    known = {name.split(".")[2] for name in calibration.constants if name.startswith(_LINKS)}
    sizes = sorted({int(size) for size in timed(frame)["world_size"]})
    lacking = [str(size) for size in sizes if str(size) not in known]
    if not lacking:
        return ""
    return (
        f"Not predicted on {' and '.join(lacking)} devices: the calibration has no link constants "
        "of that world size, which probe_link measures."
    )


def answer(table: pd.DataFrame) -> Iterator[str]:
    """One sentence per world size on what our kernel reaches captured in bf16."""
    some = table[table["recipe"] == spec.OP.baseline_recipe]
    rows = summary(some[(some["provider"] == spec.OURS) & (some["mode"] == GRAPH)])
    for row in rows.to_dict("records"):
        ideal = row["ideal"]
        best = "" if np.isnan(ideal) else f"; perfect overlap would be {times(ideal)}"
        yield (
            f"On {row['world_size']} GPUs {row['provider']} is {times(row['speedup'])} as fast as "
            f"NCCL and product one after the other ({row['recipe']}, captured, geometric mean of "
            f"{count_of(row['shapes'], 'shape')}, {times(row['least'])} to {times(row['most'])})"
            f"{best}."
        )


SUMMARY: Final[tuple[Column, ...]] = (
    count("world_size", "devices"),
    text("recipe", "recipe"),
    text("mode", "mode"),
    text("provider", "provider"),
    count("shapes", "shapes"),
    ratio("speedup", "geometric mean"),
    ratio("least", "least"),
    ratio("most", "most"),
    ratio("ideal", "ideal"),
    fraction("hidden", "hidden", digits=0),
    fraction("over_product", "over product", signed=True),
)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Fused rows of an `overlap` table by world size, recipe, mode and provider."""
    keys = ["world_size", "recipe", "mode", "provider"]
    fused = table[table["provider"].isin(FUSED)]
    rows = [
        dict(zip(keys, values, strict=True))
        | {
            "shapes": len(some),
            "speedup": geometric_mean(some["speedup"]),
            "least": some["speedup"].min(),
            "most": some["speedup"].max(),
            "ideal": geometric_mean(some["ideal"]),
            "hidden": some["hidden"].median(),
            "over_product": some["over_product"].median(),
        }
        for values, some in (fused.groupby(keys, sort=False) if len(fused) else ())
    ]
    return pd.DataFrame(rows, columns=[column.key for column in SUMMARY])


def geometric_mean(ratios: "pd.Series[float]") -> float:
    """exp of the mean of logarithms; NaN of nothing."""
    return float(np.exp(np.log(ratios.astype(float)).mean()))


def ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Timed rows that say how far their ranks lie apart."""
    rows = timed(frame)
    return rows[rows[RANK_SPREAD].notna()] if RANK_SPREAD in rows else rows[:0]


RANKS: Final[tuple[Column, ...]] = (
    count("world_size", "devices"),
    text("provider", "provider"),
    count("points", "points"),
    fraction("median", "median"),
    fraction("worst", "worst"),
)


def ranks_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How far the slowest rank's median lies above the fastest one's."""
    rows = ranks(frame)
    keys = ["world_size", "provider"]
    found = [
        dict(zip(keys, values, strict=True))
        | {
            "points": len(some),
            "median": some[RANK_SPREAD].median(),
            "worst": some[RANK_SPREAD].max(),
        }
        for values, some in (rows.groupby(keys) if len(rows) else ())
    ]
    return pd.DataFrame(found, columns=[column.key for column in RANKS])
