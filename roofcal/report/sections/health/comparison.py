"""Is this card healthy? Its times over those published of the same device, point by point.

Held against each other are points of the same identity (op, provider, recipe, shape, protocol),
timed by graph replay on random data: probes, products, and the sentinel, which the publication has
many times, so that it says how far healthy sessions scatter by themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from roofcal.core.environments import version_key
from roofcal.core.statistics import summarise
from roofcal.report.data.loading import Run
from roofcal.report.data.quality import sentinel_drift
from roofcal.report.data.tidy import axes_of, ok_rows, tidy_frame
from roofcal.report.kit.numbers import count_of, percent

OPS: Final = ("probe_copy", "probe_math", "probe_launch", "gemm")
# Two healthy H200 of one environment were up to 4.6 % apart at the power limit (README, `compare`).
TOLERANCE: Final = 0.05
FEWEST: Final = 6  # points: the fewest whose median has a 95 % interval
_SEEN: Final = ("median_s", "sm_clock_hz", "power_w", "throttle_reasons")

State = Literal["healthy", "slower", "cannot be told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the published distribution says of a run.

    state    cannot be told: no publication, too few shared points, or an interval too wide
    answer   the same in one sentence, with the reason
    against  environment of the publication, None without one
    kinds    one row per op, and one per op with a sentinel: median ratio with its 95 % interval,
             5th and 95th percentile over points, clock, power, share clocked down here and there
    points   one row per shared point: both medians and their ratio
    """

    state: State
    answer: str
    against: str | None = None
    kinds: pd.DataFrame = field(default_factory=pd.DataFrame)
    points: pd.DataFrame = field(default_factory=pd.DataFrame)


def health_of(
    run: Run,
    frames: Mapping[str, pd.DataFrame],
    peers: Sequence[Run] = (),
) -> Health:
    """The health of a run, whose tidy frames are given by op; peers: publications of any device.

    Raises RecordsError where a publication cannot be read.
    """
    peer = peer_of(run, peers)
    if peer is None:
        return Health(state="cannot be told", answer=_without(run))
    parts = [
        shared(frames[op], tidy_frame(peer, op, None))
        for op in OPS
        if op in frames and op in peer.ops and len(frames[op])
    ]
    points = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    kinds = by_kind(points)
    state, answer = judge(kinds, peer.environment.environment_id)
    return Health(
        state=state,
        answer=answer,
        against=peer.environment.environment_id,
        kinds=kinds,
        points=points,
    )


def peer_of(run: Run, peers: Sequence[Run]) -> Run | None:
    """The publication to hold a run against: of its environment, else the device's last."""
    own = run.environment
    same = [
        peer
        for peer in peers
        if peer.origin == "published"
        and peer.folder != run.folder
        and peer.environment.device == own.device
    ]
    exact = [peer for peer in same if peer.environment.environment_id == own.environment_id]
    ordered = sorted(same, key=lambda peer: version_key(peer.environment.environment_id))
    return next(iter(exact), ordered[-1] if ordered else None)


def _without(run: Run) -> str:
    if run.origin == "published":
        return (
            "These records are the published ones: they are what other cards of this model are "
            "held against."
        )
    return (
        f"Cannot be told here: no publication of {run.environment.device} is among the runs of "
        "this report, so there is nothing to hold it against."
    )


def shared(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Points of one op with a time in both frames: their medians and `ratio`, ours / published.

    Every repetition of the sentinel here is held against the median repetition published.
    """
    both = _comparable(ours).merge(
        _comparable(published)[["point_id", *_SEEN]], on="point_id", suffixes=("", "_published")
    )
    both = both.assign(ratio=both["median_s"] / both["median_s_published"], kind=both["op"])
    return pd.concat([both, *_sentinel(ours, published)], ignore_index=True)


def _comparable(frame: pd.DataFrame) -> pd.DataFrame:
    rows = ok_rows(frame)
    chosen = (
        (rows["method"] == "graph") & (rows["distribution"] == "normal") & (rows["repeat"] == 0)
    )
    return _with_shape(rows[chosen])[["point_id", "op", "provider", "recipe", "shape", *_SEEN]]


def _with_shape(rows: pd.DataFrame) -> pd.DataFrame:
    """The axes of an op as one text: '16 x 3,584 x 8,192'."""
    sizes = rows[axes_of(rows)].to_numpy()
    texts = [" \N{MULTIPLICATION SIGN} ".join(f"{size:,}" for size in of_one) for of_one in sizes]
    return rows.assign(shape=pd.Series(texts, index=rows.index, dtype=object))


def _sentinel(ours: pd.DataFrame, published: pd.DataFrame) -> list[pd.DataFrame]:
    """The repetitions of the sentinel over the published middle one; none where either has none."""
    here, there = sentinel_drift(ours), sentinel_drift(published)
    keys = ["provider", "recipe"]
    if here.empty or there.empty or not _same(here.iloc[0], there.iloc[0], keys):
        return []
    rows = here[["op", *keys, "median_s", "sm_clock_hz", "power_w"]].assign(
        kind=f"{here['op'].iloc[0]} sentinel",
        median_s_published=float(there["median_s"].median()),
        sm_clock_hz_published=there["sm_clock_hz"].median(),
        power_w_published=there["power_w"].median(),
    )
    return [rows.assign(ratio=rows["median_s"] / rows["median_s_published"])]


def _same(one: "pd.Series[Any]", other: "pd.Series[Any]", keys: Sequence[str]) -> bool:
    """Whether two sentinels are the same point: recipe, provider and every axis of its shape."""
    names = list(one.index)
    axes = names[names.index("recipe") + 1 : names.index("repeat")]
    return all(one[key] == other.get(key) for key in [*keys, *axes])


def by_kind(points: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of shared points; empty without any."""
    if points.empty:
        return pd.DataFrame()
    groups = points.groupby("kind", sort=False)
    return pd.DataFrame([{"kind": kind} | _row(rows) for kind, rows in groups])


def _row(rows: pd.DataFrame) -> dict[str, Any]:
    ratios = rows["ratio"].to_numpy(dtype=float)
    middle = summarise(ratios.tolist())
    low, high = np.quantile(ratios, [0.05, 0.95])
    return {
        "points": len(rows),
        "ratio": middle.median,
        "low": middle.ci95_low,
        "high": middle.ci95_high,
        "p5": float(low),
        "p95": float(high),
        "clock": _middle(rows, "sm_clock_hz"),
        "power": _middle(rows, "power_w"),
        "throttled": _named(rows, "throttle_reasons"),
        "throttled_published": _named(rows, "throttle_reasons_published"),
        "reasons": _reasons(rows),
    }


def _middle(rows: pd.DataFrame, name: str) -> float | None:
    ratios = (rows[name] / rows[f"{name}_published"]).dropna()
    return float(ratios.median()) if len(ratios) else None


def _named(rows: pd.DataFrame, name: str) -> float | None:
    observed = rows["sm_clock_hz"].notna().any() and rows[name].notna().any()
    return float(rows[name].notna().mean()) if observed else None


def _reasons(rows: pd.DataFrame) -> str | None:
    every = {r for text in rows["throttle_reasons"].dropna() for r in str(text).split(";")}
    return ", ".join(sorted(every)) or None


def judge(kinds: pd.DataFrame, against: str) -> tuple[State, str]:
    """(state, one sentence) of the rows of `by_kind`."""
    rows = kinds[kinds["points"] >= FEWEST].to_dict("records") if len(kinds) else []
    if not rows:
        return "cannot be told", (
            f"Cannot be told here: fewer than {FEWEST} points of any kind have a time both here "
            f"and in the publication {against}."
        )
    worst = max(rows, key=lambda row: float(row["low"]))
    points = count_of(sum(int(row["points"]) for row in rows), "shared point")
    if worst["low"] > 1 + TOLERANCE:
        return "slower", (
            f"Slower than published: {worst['kind']} takes "
            f"{percent(worst['ratio'] - 1)} longer (95 %: {_span(worst)}) over "
            f"{count_of(int(worst['points']), 'point')}{_cause(worst)}."
        )
    unsure = max(rows, key=lambda row: float(row["high"]))
    if unsure["high"] > 1 + TOLERANCE:
        return "cannot be told", (
            f"Cannot be told here: {unsure['kind']} takes between {_span(unsure)} longer than "
            f"published (95 %), and {percent(TOLERANCE, 0)} is the limit."
        )
    return "healthy", (
        f"Healthy: over {points}, no kind of work takes more than {percent(TOLERANCE, 0)} longer "
        f"than published; the furthest, {unsure['kind']}, is at "
        f"{percent(unsure['ratio'] - 1, signed=True)} (95 %: {_span(unsure)})."
    )


def _span(row: Mapping[Any, Any]) -> str:
    return f"{percent(row['low'] - 1, signed=True)} to {percent(row['high'] - 1, signed=True)}"


def _cause(row: Mapping[Any, Any]) -> str:
    """What clock and card say of it; cycles are the same where time times clock is."""
    if row["clock"] is None or np.isnan(row["clock"]):
        return ", and no clock was read"
    clock = f"its clock is at {percent(row['clock'] - 1, signed=True)}"
    named = f", the card named {row['reasons']}" if row["reasons"] else ""
    explains = abs(row["ratio"] * row["clock"] - 1) <= TOLERANCE
    return f"; {clock}{named}, which {'explains' if explains else 'does not explain'} it"
