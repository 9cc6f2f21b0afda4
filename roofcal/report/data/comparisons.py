"""Ratios between points that differ in one thing: the recipe, or the method of timing."""

from typing import Any, Final

import pandas as pd

from roofcal.report.data.tidy import axes_of, ok_rows, standard_protocol

_PROTOCOL: Final = ["method", "cache", "distribution"]


def speedups(frame: pd.DataFrame, baseline_recipe: str) -> pd.DataFrame:
    """Time of the baseline recipe over that of every other: same provider, shape, protocol.

    A provider that never runs the baseline (one for int4 weights alone) is compared with the
    fastest provider that does.
    Above 1 is faster than the baseline. speedup_low and speedup_high divide the far ends of the two
    95 % intervals, so they cover the ratio at least as often. Ops of several devices have a column
    world_size.
    """
    axes = axes_of(frame)
    rows = ok_rows(frame[standard_protocol(frame)])
    keys = ["op", "provider", *axes, "world_size"]
    times = ["median_s", "ci95_low_s", "ci95_high_s"]
    base = rows.loc[rows["recipe"] == baseline_recipe, [*keys, *times]].drop_duplicates(keys)
    others = rows[rows["recipe"] != baseline_recipe]
    alone = ~others["provider"].isin(base["provider"])
    own = others[~alone].merge(base, on=keys, suffixes=("", "_baseline"))
    shared = [key for key in keys if key != "provider"]
    fastest = base.sort_values("median_s").drop_duplicates(shared).drop(columns="provider")
    foreign = others[alone].merge(fastest, on=shared, suffixes=("", "_baseline"))
    both = pd.concat([own, foreign]) if len(foreign) else own
    both["speedup"] = both["median_s_baseline"] / both["median_s"]
    both["speedup_low"] = both["ci95_low_s_baseline"] / both["ci95_high_s"]
    both["speedup_high"] = both["ci95_high_s_baseline"] / both["ci95_low_s"]
    both = both.rename(columns={"median_s_baseline": "baseline_s"})
    ratios = ["baseline_s", "speedup", "speedup_low", "speedup_high"]
    several = ["world_size"] if (both["world_size"] > 1).any() else []
    head = ["op", "provider", "recipe", *axes, *several, "regime", "sweeps", "median_s"]
    return both[[*head, *ratios]].reset_index(drop=True)


def method_panel(frame: pd.DataFrame) -> pd.DataFrame:
    """The panel's points by every method, and their time over that of graph replay, cold, normal.

    One row per point of a shape and recipe that was timed in more than one way; `ratio` is empty
    where the graph/cold/normal point has no time.
    """
    axes = axes_of(frame)
    every = ok_rows(frame)
    keys = ["op", "provider", "recipe", *axes, "world_size"]
    base = every.loc[standard_protocol(every), [*keys, "median_s"]].drop_duplicates(keys)
    rows = every[every["sweeps"].map(_in_panel).astype(bool) & (every["repeat"] == 0)]
    both = rows.merge(base, on=keys, how="left", suffixes=("", "_graph"))
    for name in ("median", "ci95_low", "ci95_high"):
        both[_RATIOS[name]] = both[f"{name}_s"] / both["median_s_graph"]
    columns = ["op", "provider", "recipe", *axes, *_PROTOCOL, "median_s", *_RATIOS.values()]
    columns += ["sm_clock_hz", "power_w", "point_id"]
    return both[columns].sort_values([*axes, "recipe", *_PROTOCOL]).reset_index(drop=True)


_RATIOS: Final = {"median": "ratio", "ci95_low": "ratio_low", "ci95_high": "ratio_high"}


def _in_panel(sweeps: Any) -> bool:
    return any(name.startswith("panel") for name in str(sweeps).split(";"))


def protocol_name(row: Any) -> str:
    """A protocol in words: 'graph, cold', 'graph, cold, zeros' or 'not timed, heavy tails'."""
    timed = row["method"] != "accuracy"
    parts = [row["method"].replace("_", " + "), row["cache"]] if timed else ["not timed"]
    if row["distribution"] != "normal":
        parts.append(row["distribution"].replace("_", " "))
    return ", ".join(parts)
