"""Is this card healthy? Its times over those published of the same device, point by point.

Compared are points of the same identity (op, provider, recipe, shape, protocol), timed by graph
replay on random data: probes, products, and the sentinel, whose many published repetitions show how
much healthy sessions scatter.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.environments import short_names
from roofcal.core.records import TIMELESS
from roofcal.core.statistics import BETWEEN_CARDS, FEWEST_SAMPLES, summarise
from roofcal.core.visits.differences import is_of_clock
from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.report.data import comparisons
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.cards import (
    cards_sentence,
    counted_kinds,
    publication_for,
    replayed_points,
)
from roofcal.report.data.op_pages import health_ops
from roofcal.report.data.quality import sentinel_drift
from roofcal.report.data.tidy import ok_rows, with_shape
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.section import Answer, CsvTable, Item, Section

_READINGS: Final = ("sm_clock_hz", "power_w", "throttle_reasons")
_COMPARED: Final = (*comparisons.TIME_COLUMNS, *_READINGS)
RATIOS: Final = ("ratio", "ratio_low", "ratio_high")
_FAULTS: Final = TIMELESS - {"unsupported"}  # the machine may lack a part, as a second GPU
FILE: Final = "health.csv"
_TIME: Final = col.ratio("ratio", "time", "here over published, median over points", digits=3)
KINDS: Final = (
    col.text("kind", "kind of work"),
    col.count("points", "shared points"),
    _TIME,
    col.ratio("low", "95 % from", digits=3),
    col.ratio("high", "to", digits=3),
    col.ratio("p5", "5th percentile", digits=3),
    col.ratio("p95", "95th", digits=3),
    col.ratio("clock", "SM clock"),
    col.ratio("power", "power"),
    col.fraction("throttled", "clocked down", digits=0),
    col.fraction("throttled_published", "published", digits=0),
    col.text("reasons", "reasons named here"),
)
POINTS: Final = (
    col.text("kind", "kind of work"),
    *col.named("provider", "recipe", "shape"),
    _TIME,
    col.ratio("ratio_low", "95 % from", digits=3),
    col.ratio("ratio_high", "to", digits=3),
    *col.named("interval_holds"),
    col.seconds("median_s", "here"),
    col.seconds("median_s_published", "published"),
    col.ratio("clock", "SM clock"),
    col.code("point_id", "point"),
)


def show(analysis: Analysis) -> Iterator[Item]:
    """Whether the card is healthy, and the times behind that; needs a publication of its kind."""
    run, frames = analysis.run, analysis.frames
    peer = publication_for(run, analysis.peers)
    if peer is None:
        cards = analysis.cards
        text = (
            f"These records are the published ones. {cards_sentence(cards)}"
            if run.origin == "published"
            else f"Cannot be told here: no publication of {analysis.device} is among the runs of "
            "this report, so there is nothing to compare it with."
        )
        yield Answer(text, is_open=counted_kinds(cards).empty)
        return
    pairs = [
        (frames[op], peer.points(op).table)
        for op in health_ops()
        if op in frames and op in peer.ops and len(frames[op])
    ]
    parts = [shared_points(*pair) for pair in pairs]
    points = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    failing = [
        status
        for ours, published in pairs
        for status in ours.loc[ours["point_id"].isin(ok_rows(published)["point_id"]), "status"]
        if status in _FAULTS
    ]
    own, theirs = run.environment.environment_id, peer.environment.environment_id
    against = short_names([theirs, own])[theirs]
    kinds = summarise_kinds(points)
    answer = judge_kinds(kinds, against)
    if failing:
        points_here = count_of(
            len(failing), "point with a published time has", "points with published times have"
        )
        words = ", ".join(
            f"{count:,} {status.replace('_', ' ')}"
            for status, count in Counter(failing).most_common()
        )
        rest = answer.text.removeprefix("Healthy: ")
        rest = f"{rest[0].upper()}{rest[1:]}"
        answer = Answer(f"Not healthy: {points_here} none here ({words}). {rest}")
    yield answer
    software = (
        "It is of the same environment."
        if own == theirs
        else "It has another driver, torch or other settings, which may cause a difference: see "
        "What moved."
    )
    yield Prose(
        text=f"Compared with the publication ({against}). {software} A kind of work is "
        f"slower if the 95 % interval of its median ratio lies above {percent(BETWEEN_CARDS, 0)}, "
        f"healthy if it lies below; kinds of fewer than {FEWEST_SAMPLES} points do not count. Two "
        "healthy cards of one model differ by almost as much at the power limit."
    )
    yield Table("health-kinds", "Times here over times published", kinds, KINDS, FILE)
    if len(points):
        yield CsvTable(FILE, points)
        clock = points["sm_clock_hz"] / points["sm_clock_hz_published"]
        ordered = points.assign(clock=clock).sort_values("ratio", ascending=False, kind="stable")
        name = "Every shared point, slowest first"
        yield Table("health-points", name, ordered, POINTS, FILE)


def shared_points(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Points of one op with a time in both frames: their medians and `ratio`, ours / published.

    Every repetition of the sentinel here is compared with the median repetition published.
    """
    theirs = _comparable(published)[["point_id", *_COMPARED]]
    both = _comparable(ours).merge(theirs, on="point_id", suffixes=("", "_published"))
    both = comparisons.with_ratios(both, RATIOS, under="_published").assign(kind=both["op"])
    ends = [f"{end}{suffix}" for end in comparisons.TIME[1:] for suffix in ("", "_published")]
    both = both.drop(columns=[*ends, f"{INTERVAL_HOLDS}_published"])
    here, there = sentinel_drift(ours), sentinel_drift(published)
    if here.empty or there.empty:
        return both
    read = ["median_s", "sm_clock_hz", "power_w"]
    identity = list(here.columns[: list(here.columns).index("repeat")])
    middle = there.groupby(identity, as_index=False)[read].median()
    rows = here.merge(middle, on=identity, suffixes=("", "_published"))
    rows = rows[["op", "provider", "recipe", *read, *(f"{name}_published" for name in read)]]
    ratio = rows["median_s"] / rows["median_s_published"]
    sentinels = rows.assign(kind=rows["op"] + " sentinel", ratio=ratio)
    return pd.concat([both, sentinels], ignore_index=True) if len(rows) else both


def _comparable(frame: pd.DataFrame) -> pd.DataFrame:
    rows = with_shape(replayed_points(frame))
    return rows[["point_id", "op", "provider", "recipe", "shape", *_COMPARED]]


def summarise_kinds(points: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of shared points: time and readings here over those published.

    A study has six points or more of most kinds, so the interval is that of their median.
    `roofcal.health` has one to four, and takes the interval of the middle one.
    """
    kinds = []
    for kind, rows in points.groupby("kind", sort=False) if len(points) else ():
        ratios = rows["ratio"].to_numpy(dtype=float)
        middle = summarise(ratios.tolist())
        low, high = np.quantile(ratios, [0.05, 0.95])
        reasons = {r for text in rows["throttle_reasons"].dropna() for r in str(text).split(";")}
        row: dict[str, Any] = {"kind": kind, "points": len(rows), "ratio": middle.median}
        row |= {"low": middle.ci95_low, "high": middle.ci95_high, "p5": low, "p95": high}
        for name, column in (("clock", "sm_clock_hz"), ("power", "power_w")):
            of_both = (rows[column] / rows[f"{column}_published"]).dropna()
            row[name] = float(of_both.median()) if len(of_both) else None
        for suffix in ("", "_published"):
            named = rows[f"throttle_reasons{suffix}"].notna()
            was_read = rows["sm_clock_hz"].notna().any() and named.any()
            row[f"throttled{suffix}"] = float(named.mean()) if was_read else None
        kinds.append(row | {"reasons": ", ".join(sorted(reasons)) or None})
    return pd.DataFrame(kinds)


def judge_kinds(kinds: pd.DataFrame, against: str) -> Answer:
    """Whether a card is healthy by the rows of `summarise_kinds`, with the reason.

    against: name of the environment of the publication.
    """
    rows = kinds[kinds["points"] >= FEWEST_SAMPLES].to_dict("records") if len(kinds) else []
    if not rows:
        return Answer(
            f"Cannot be told here: fewer than {FEWEST_SAMPLES} points of any kind have a time both "
            f"here and in the publication ({against}).",
            is_open=True,
        )
    worst = max(rows, key=lambda row: float(row["low"]))
    if worst["low"] > 1 + BETWEEN_CARDS:
        return Answer(
            f"Slower than published: {worst['kind']} takes "
            f"{percent(worst['ratio'] - 1)} longer (95 %: {_interval_text(worst)}) over "
            f"{count_of(int(worst['points']), 'point')}{_clock_text(worst)}."
        )
    widest = max(rows, key=lambda row: float(row["high"]))
    if widest["high"] > 1 + BETWEEN_CARDS:
        return Answer(
            f"Cannot be told here: {widest['kind']} takes between {_interval_text(widest)} longer "
            f"than published (95 %), and {percent(BETWEEN_CARDS, 0)} is the limit.",
            is_open=True,
        )
    points = count_of(sum(int(row["points"]) for row in rows), "shared point")
    return Answer(
        f"Healthy: over {points}, no kind of work takes more than {percent(BETWEEN_CARDS, 0)} "
        f"longer than published; the furthest, {widest['kind']}, is at "
        f"{percent(widest['ratio'] - 1, signed=True)} (95 %: {_interval_text(widest)})."
    )


def _interval_text(row: Mapping[Any, Any]) -> str:
    return f"{percent(row['low'] - 1, signed=True)} to {percent(row['high'] - 1, signed=True)}"


def _clock_text(row: Mapping[Any, Any]) -> str:
    """Whether the clock explains a ratio: it does if time times clock, the cycles, is the same."""
    if row["clock"] is None or not row["clock"] > 0:
        return ", and no clock was read"
    clock = f"its clock is at {percent(row['clock'] - 1, signed=True)}"
    reasons = f", the card named {row['reasons']}" if row["reasons"] else ""
    explains = is_of_clock(math.log(row["ratio"]), math.log(row["clock"]), BETWEEN_CARDS)
    return f"; {clock}{reasons}, which {'explains' if explains else 'does not explain'} it"


SECTION = Section("Against the published distribution", "healthy", show)
