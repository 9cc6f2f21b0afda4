"""Ratios of measured times with their intervals; speed-ups, over a baseline recipe of the op.

And the fastest products of a run, by one definition for README, report, site and claims: among all
that were timed on one device as the study does, those of the study and of the probes, by any
provider.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from roofcal.core.recipes import BITS, RECIPES
from roofcal.core.records import Ceiling
from roofcal.core.times import Array
from roofcal.core.visits.differences import time_ratio
from roofcal.core.visits.intervals import narrowest_hold
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.linear.model import serves_linears
from roofcal.ops.regimes import DECODE_TOKENS
from roofcal.points.columns import INTERVAL_HOLDS, PEAK_BYTES
from roofcal.report.data.op_pages import headline_op
from roofcal.report.data.prediction_errors import regime_rank
from roofcal.report.data.tidy import axes_of, row_of_largest, shape_texts, standard_rows
from roofcal.report.kit.numbers import times

SPEEDUP: Final = ("speedup", "speedup_low", "speedup_high")
TIME: Final = ("median_s", "ci95_low_s", "ci95_high_s")
TIME_COLUMNS: Final = [*TIME, INTERVAL_HOLDS]  # what a ratio needs of each of its two times


def ratio_of_times(over: Any, under: Any) -> tuple[Array, Array, Array]:
    """(over / under, low, high) by the 95 % intervals of both; not a number where a time lacks.

    over, under: frames with the same rows, or rows, with the columns of TIME.
    """
    parts = [np.asarray(times[name], dtype=float) for times in (over, under) for name in TIME]
    has_both = np.isfinite(np.stack(parts)).all(axis=0)
    filled = [np.where(has_both, part, 1.0) for part in parts]
    ratio, low, high = (
        np.where(has_both, end, np.nan) for end in time_ratio(filled[:3], filled[3:])
    )
    return ratio, low, high


def with_ratios(
    frame: pd.DataFrame, names: Sequence[str], *, over: str = "", under: str = ""
) -> pd.DataFrame:
    """A merged frame with the ratio of two times of each row, and how far it can be trusted.

    names: of the ratio, and of the low and the high end of its interval.
    over, under: what follows TIME_COLUMNS in the names of the numerator and the denominator.

    The interval of the ratio holds as far as that of the less trusted time: INTERVAL_HOLDS.
    """
    times = [
        frame[[f"{name}{suffix}" for name in TIME_COLUMNS]].set_axis(TIME_COLUMNS, axis="columns")
        for suffix in (over, under)
    ]
    ratios = dict(zip(names, ratio_of_times(*times), strict=True))
    pairs = zip(*(of_one[INTERVAL_HOLDS] for of_one in times), strict=True)
    holds = pd.Series([narrowest_hold(*pair) for pair in pairs], index=frame.index, dtype=object)
    return frame.assign(**ratios, **{INTERVAL_HOLDS: holds})


def speedups(frame: pd.DataFrame, baseline_recipe: str) -> pd.DataFrame:
    """Time of the baseline recipe over that of every other: same provider, shape, protocol.

    A provider that never runs the baseline (one for int4 weights alone) is compared with the
    fastest provider that does. Above 1 is faster than the baseline. Ops of several devices have
    a column world_size, and ops whose points know their peak memory have memory_ratio: that of the
    recipe over that of the baseline.
    """
    axes = axes_of(frame)
    rows = standard_rows(frame)
    keys = ["op", "provider", *axes, "world_size"]
    memory = [PEAK_BYTES] if PEAK_BYTES in rows else []
    ends = [*TIME_COLUMNS, *memory]
    base = rows.loc[rows["recipe"] == baseline_recipe, [*keys, *ends]].drop_duplicates(keys)
    others = rows[rows["recipe"] != baseline_recipe]
    lacks_baseline = ~others["provider"].isin(base["provider"])
    own = others[~lacks_baseline].merge(base, on=keys, suffixes=("", "_baseline"))
    shared = [key for key in keys if key != "provider"]
    fastest = base.sort_values("median_s").drop_duplicates(shared).drop(columns="provider")
    foreign = others[lacks_baseline].merge(fastest, on=shared, suffixes=("", "_baseline"))
    both = pd.concat([own, foreign]) if len(foreign) else own
    both = with_ratios(both, SPEEDUP, over="_baseline").assign(baseline_s=both["median_s_baseline"])
    ratios = ["baseline_s", *SPEEDUP, INTERVAL_HOLDS]
    if memory:
        both["memory_ratio"] = both[PEAK_BYTES] / both[f"{PEAK_BYTES}_baseline"]
        ratios.append("memory_ratio")
    several = ["world_size"] if (both["world_size"] > 1).any() else []
    head = ["op", "provider", "recipe", *axes, *several, "regime", "sweeps", "median_s"]
    return both[[*head, *ratios]].reset_index(drop=True)


def narrower_recipes(op: str, *, of_linears: bool = True) -> list[str]:
    """Recipes of an op whose weights have fewer bits than those of its baseline.

    of_linears: those that serve linears, as `advise` ranks them, else those that serve none. [] for
    op linear, whose recipes name three products and casts in formats of their own.
    """
    spec = BY_NAME[op]
    baseline = spec.baseline_recipe
    if baseline not in RECIPES or spec.written_recipe is not None:
        return []
    bits = BITS[RECIPES[baseline].b.dtype]
    narrower = [recipe for recipe in spec.recipes if BITS[RECIPES[recipe].b.dtype] < bits]
    return [recipe for recipe in narrower if serves_linears(recipe) == of_linears]


def fastest_pair(speedups: pd.DataFrame) -> tuple[str, str, float]:
    """(recipe, provider, median speed-up) of the pair with the highest median.

    A pair counts if it was measured on at least half as many shapes as the pair with most: the few
    shapes of other pairs may have been chosen for them.
    """
    pairs = speedups.groupby(["recipe", "provider"])["speedup"]
    medians = pairs.median()[2 * pairs.count() >= pairs.count().max()]
    recipe, provider = list(medians.index)[int(medians.to_numpy().argmax())]
    return str(recipe), str(provider), float(medians.max())


def best_by_regime(
    speedups: pd.DataFrame | None, op: str, among: Sequence[str] | None = None
) -> pd.DataFrame:
    """The narrower recipe that is fastest in each regime of an op, by its median; may be empty.

    among    other recipes than narrower_recipes
    first    at how many of `shapes` no other pair of recipe and provider is faster
    slower   at how many the baseline is faster than every recipe, intervals apart
    """
    columns = ["regime", "recipe", "provider", "speedup", "shapes", "first", "slower"]
    if speedups is None:
        return pd.DataFrame(columns=columns)
    narrow = speedups[speedups["recipe"].isin(narrower_recipes(op) if among is None else among)]
    axes, rows = [*BY_NAME[op].axes], []
    for regime in sorted(set(narrow["regime"]), key=regime_rank):
        of_regime = narrow[narrow["regime"] == regime]
        recipe, provider, speedup = fastest_pair(of_regime)
        first = of_regime.sort_values("speedup").drop_duplicates(axes, keep="last")
        is_best = (first["recipe"] == recipe) & (first["provider"] == provider)
        slower = of_regime.groupby(axes)["speedup_high"].max() < 1
        counts = (len(first), int(is_best.sum()), int(slower.sum()))
        rows.append((regime, recipe, provider, speedup, *counts))
    return pd.DataFrame(rows, columns=columns)


def best_text(best: pd.DataFrame, baseline: str) -> str:
    """The rows of best_by_regime in words, with a phrase for each recipe.

    'fp8_tensorwise products are 1.87x as fast as bf16 at decode (m or n up to 64), 1.75x at mid'
    """
    several = best["provider"].nunique() > 1
    faster: dict[str, list[str]] = {}
    slower = []
    columns = ("recipe", "provider", "regime", "speedup")
    for recipe, provider, regime, speedup in best[[*columns]].itertuples(index=False):
        name = f"{recipe}{f' by {provider}' if several else ''}"
        where = f"decode (m or n up to {DECODE_TOKENS})" if regime == "decode" else regime
        if speedup > 1:
            verb = "" if name in faster else f" as fast as {baseline}"
            faster.setdefault(name, []).append(f"{times(speedup)}{verb} at {where}")
        else:
            slower.append(f"at {where}, where {name} has {times(speedup)} its speed")
    parts = [f"{name} products are {', '.join(ratios)}" for name, ratios in faster.items()]
    parts += [f"{baseline} is the fastest {' and '.join(slower)}"] if slower else []
    return "; ".join(parts)


def products_alone_text(speedups: pd.DataFrame | None, op: str) -> str:
    """A sentence on narrow recipes that serve no linear; "" without any."""
    best = best_by_regime(speedups, op, narrower_recipes(op, of_linears=False))
    if best.empty:
        return ""
    return (
        f"Not usable in a linear here, because their casts were not measured: "
        f"{best_text(best, str(BY_NAME[op].baseline_recipe))}."
    )


def best_gain(speedups: pd.DataFrame | None, op: str) -> tuple[float, str] | None:
    """(ratio, recipe) of the highest median speed-up of an op over large products, or over all.

    The provider stands behind the recipe where there are several. None without a narrower recipe.
    """
    if speedups is None:
        return None
    rows = speedups[speedups["recipe"].isin(narrower_recipes(op))]
    if rows.empty:
        return None
    large = rows[rows["regime"] == "large"]
    recipe, provider, gain = fastest_pair(large if len(large) else rows)
    several = rows["provider"].nunique() > 1
    return gain, f"{recipe} ({provider})" if several else recipe


class FastestProduct(NamedTuple):
    """The product of a recipe with the highest settled rate, FLOP/s with its 95 % interval.

    burst: rate of the fastest first turn, FLOP/s, of a shape of its own; None without any
    """

    recipe: str
    provider: str
    shape: str
    rate: Ceiling
    burst: float | None
    burst_shape: str


def ops_of_products(op: str) -> list[str]:
    """An op and the probes that calibrate it: all of its measured points."""
    return [spec.name for spec in OPS if spec.folder == op]


def fastest_products(frames: Mapping[str, pd.DataFrame]) -> dict[str, FastestProduct]:
    """Recipe -> its fastest product, the fastest recipe first.

    frames: op -> its tidy frame, or the table that was made of it.
    """
    names = [name for name in ops_of_products(headline_op()) if name in frames]
    parts = [standard_rows(frames[name]) for name in names]
    parts = [part[part["world_size"] == 1].assign(shape=shape_texts(part)) for part in parts]
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if rows.empty:
        return {}
    rows = rows.assign(burst=rows["flops"] / rows["burst_median_s"])
    rows = rows.sort_values("achieved_flops_per_s", ascending=False, kind="stable")
    products = {}
    for recipe, own in rows.groupby("recipe", sort=False):
        row, has_burst = own.iloc[0], bool(own["burst"].notna().any())
        first = row_of_largest(own, "burst") if has_burst else row
        name, provider, shape = str(recipe), str(row["provider"]), str(row["shape"])
        rate = Ceiling(
            value=float(row["achieved_flops_per_s"]),
            ci95_low=float(row["flops"] / row["ci95_high_s"]),
            ci95_high=float(row["flops"] / row["ci95_low_s"]),
            unit="flop/s",
            evidence=f"{provider}, {shape}",
        )
        burst = float(first["burst"]) if has_burst else None
        products[name] = FastestProduct(name, provider, shape, rate, burst, str(first["shape"]))
    return products
