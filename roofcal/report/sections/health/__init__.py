"""Is this card healthy? Its times over those published of the same device, point by point.

Compared are points of the same identity (op, provider, recipe, shape, protocol), timed by graph
replay on random data: probes, products, and the sentinel, whose many published repetitions show how
much healthy sessions scatter.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from roofcal.core.environments import short_names, version_key
from roofcal.core.records import TIMELESS
from roofcal.core.statistics import BETWEEN_CARDS, FEWEST_SAMPLES, summarise
from roofcal.core.visits.differences import TimeRatio, is_of_clock
from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.points.run import Run
from roofcal.report.data import comparisons
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import health_ops
from roofcal.report.data.quality import sentinel_drift
from roofcal.report.data.tidy import ok_rows, with_shape
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.section import Answer, CsvTable, Item, Section

_COMPARED: Final = (*comparisons.TIME_COLUMNS, "sm_clock_hz", "power_w", "throttle_reasons")

RATIOS: Final = ("ratio", "ratio_low", "ratio_high")

_FAULTS: Final = TIMELESS - {"unsupported"}

State = Literal["healthy", "slower", "fails points", "cannot be told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a run compares with the published distribution.

    state             cannot be told: no publication, too few shared points, or an interval that is
                      too wide; fails points: points with a published time have none here
    answer            the same in one sentence, with the reason
    against           short name of the environment of the publication, None without one
    same_environment  whether that is the environment of the run
    kinds             one row per op, and one per op with a sentinel: median ratio with its 95 %
                      interval, 5th and 95th percentile over points, clock, power, share clocked
                      down here and there
    points            one row per shared point: both medians and their ratio
    """

    state: State
    answer: str
    against: str | None = None
    same_environment: bool = False
    kinds: pd.DataFrame = field(default_factory=pd.DataFrame)
    points: pd.DataFrame = field(default_factory=pd.DataFrame)


def health_of_run(
    run: Run, frames: Mapping[str, pd.DataFrame], peers: Sequence[Run] = ()
) -> Health:
    """The health of a run.

    Args:
        run: the run.
        frames: its tidy frames by op.
        peers: other runs; those that are publications of its device count.

    Raises:
        RecordsError: a publication cannot be read.
    """
    peer = publication_for(run, peers)
    if peer is None:
        answer = (
            "These records are the published ones: other cards of this model are compared with "
            "them."
            if run.origin == "published"
            else f"Cannot be told here: no publication of {run.environment.device} is among the "
            "runs of this report, so there is nothing to compare it with."
        )
        return Health(state="cannot be told", answer=answer)
    pairs = [
        (frames[op], peer.points(op).table)
        for op in health_ops()
        if op in frames and op in peer.ops and len(frames[op])
    ]
    parts = [shared_points(*pair) for pair in pairs]
    failing = pd.concat([failing_points(*pair) for pair in pairs]) if pairs else pd.DataFrame()
    points = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    kinds = summarise_kinds(points)
    own, theirs = run.environment.environment_id, peer.environment.environment_id
    against = short_names([theirs, own])[theirs]
    state, answer = judge_kinds(kinds, against)
    if len(failing):
        rest = answer.removeprefix("Healthy: ")
        points_text = count_of(
            len(failing), "point with a published time has", "points with published times have"
        )
        counts = failing["status"].value_counts().to_dict()
        words = ", ".join(f"{n:,} {str(status).replace('_', ' ')}" for status, n in counts.items())
        answer = f"Not healthy: {points_text} none here ({words}). {rest[0].upper()}{rest[1:]}"
        state = "fails points"
    return Health(
        state=state,
        answer=answer,
        against=against,
        same_environment=own == theirs,
        kinds=kinds,
        points=points,
    )


def publication_for(run: Run, peers: Sequence[Run]) -> Run | None:
    """The publication to compare a run with: of its environment, else the device's last."""
    own = run.environment
    same_device = [
        peer
        for peer in peers
        if peer.origin == "published"
        and peer.folder != run.folder
        and peer.environment.device == own.device
    ]
    exact = [p for p in same_device if p.environment.environment_id == own.environment_id]
    ordered = sorted(same_device, key=lambda p: version_key(p.environment.environment_id))
    return next(iter([*exact, *reversed(ordered)]), None)


def shared_points(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Points of one op with a time in both frames: their medians and `ratio`, ours / published.

    Every repetition of the sentinel here is compared with the median repetition published.
    """
    theirs = _comparable(published)[["point_id", *_COMPARED]]
    both = _comparable(ours).merge(theirs, on="point_id", suffixes=("", "_published"))
    both = comparisons.with_ratios(both, RATIOS, under="_published").assign(kind=both["op"])
    ends = [f"{end}{suffix}" for end in comparisons.TIME[1:] for suffix in ("", "_published")]
    both = both.drop(columns=[*ends, f"{INTERVAL_HOLDS}_published"])
    return pd.concat([both, *_sentinels(ours, published)], ignore_index=True)


def failing_points(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Points of one op that fail here and have a time in the publication.

    An unsupported point is none of them: the machine may lack a part of it, as a second GPU.
    """
    is_published = ours["point_id"].isin(ok_rows(published)["point_id"])
    return ours[ours["status"].isin(_FAULTS) & is_published]


def _comparable(frame: pd.DataFrame) -> pd.DataFrame:
    rows = ok_rows(frame)
    is_comparable = (
        (rows["method"] == "graph") & (rows["distribution"] == "normal") & (rows["repeat"] == 0)
    )
    columns = ["point_id", "op", "provider", "recipe", "shape", *_COMPARED]
    return with_shape(rows[is_comparable])[columns]


def _sentinels(ours: pd.DataFrame, published: pd.DataFrame) -> list[pd.DataFrame]:
    """The repetitions of each sentinel over the published median one; empty if either has none."""
    here, there = sentinel_drift(ours), sentinel_drift(published)
    if here.empty or there.empty:
        return []
    kept = ["op", "provider", "recipe", "median_s", "sm_clock_hz", "power_w"]
    identity = list(here.columns[: list(here.columns).index("repeat")])
    middle = there.groupby(identity, as_index=False)[kept[3:]].median()
    rows = here.merge(middle, on=identity, suffixes=("", "_published"))
    rows = rows[[*kept, *(f"{name}_published" for name in kept[3:])]]
    ratio = rows["median_s"] / rows["median_s_published"]
    return [rows.assign(kind=rows["op"] + " sentinel", ratio=ratio)] if len(rows) else []


def summarise_kinds(points: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of shared points, with the interval of the median over them.

    A study has six points or more of most kinds. `roofcal.health` has one to four, and takes the
    interval of the middle one.
    """
    kinds = []
    for kind, rows in points.groupby("kind", sort=False) if len(points) else ():
        ratios = rows["ratio"].to_numpy(dtype=float)
        middle = summarise(ratios.tolist())
        low, high = np.quantile(ratios, [0.05, 0.95])
        reasons = {r for text in rows["throttle_reasons"].dropna() for r in str(text).split(";")}
        kinds.append(
            {
                "kind": kind,
                "points": len(rows),
                "ratio": middle.median,
                "low": middle.ci95_low,
                "high": middle.ci95_high,
                "p5": float(low),
                "p95": float(high),
                "clock": _median_ratio(rows, "sm_clock_hz"),
                "power": _median_ratio(rows, "power_w"),
                "throttled": _throttled_share(rows, "throttle_reasons"),
                "throttled_published": _throttled_share(rows, "throttle_reasons_published"),
                "reasons": ", ".join(sorted(reasons)) or None,
            }
        )
    return pd.DataFrame(kinds)


def _median_ratio(rows: pd.DataFrame, name: str) -> float | None:
    ratios = (rows[name] / rows[f"{name}_published"]).dropna()
    return float(ratios.median()) if len(ratios) else None


def _throttled_share(rows: pd.DataFrame, name: str) -> float | None:
    observed = rows["sm_clock_hz"].notna().any() and rows[name].notna().any()
    return float(rows[name].notna().mean()) if observed else None


def judge_kinds(kinds: pd.DataFrame, against: str) -> tuple[State, str]:
    """(state, one sentence) of the rows of `summarise_kinds`.

    against: name of the environment of the publication.
    """
    rows = kinds[kinds["points"] >= FEWEST_SAMPLES].to_dict("records") if len(kinds) else []
    if not rows:
        return "cannot be told", (
            f"Cannot be told here: fewer than {FEWEST_SAMPLES} points of any kind have a time both "
            f"here and in the publication ({against})."
        )
    worst = max(rows, key=lambda row: float(row["low"]))
    if _ratio_of_kind(worst).is_slower(BETWEEN_CARDS):
        return "slower", (
            f"Slower than published: {worst['kind']} takes "
            f"{percent(worst['ratio'] - 1)} longer (95 %: {_interval_text(worst)}) over "
            f"{count_of(int(worst['points']), 'point')}{_clock_text(worst)}."
        )
    widest = max(rows, key=lambda row: float(row["high"]))
    if not _ratio_of_kind(widest).is_within(BETWEEN_CARDS):
        return "cannot be told", (
            f"Cannot be told here: {widest['kind']} takes between {_interval_text(widest)} longer "
            f"than published (95 %), and {percent(BETWEEN_CARDS, 0)} is the limit."
        )
    points = count_of(sum(int(row["points"]) for row in rows), "shared point")
    return "healthy", (
        f"Healthy: over {points}, no kind of work takes more than {percent(BETWEEN_CARDS, 0)} "
        f"longer than published; the furthest, {widest['kind']}, is at "
        f"{percent(widest['ratio'] - 1, signed=True)} (95 %: {_interval_text(widest)})."
    )


def _ratio_of_kind(row: Mapping[Any, Any]) -> TimeRatio:
    return TimeRatio(*(np.asarray(row[name]) for name in ("ratio", "low", "high")))


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


# --- the section ---------------------------------------------------------------------------------

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
    health = health_of_run(analysis.run, analysis.frames, analysis.peers)
    yield Answer(health.answer, is_open=health.state == "cannot be told")
    if health.against is None:
        return
    software = (
        "It is of the same environment."
        if health.same_environment
        else "It has another driver, torch or other settings, which may cause a difference: see "
        "What moved."
    )
    yield Prose(
        text=f"Compared with the publication ({health.against}). {software} A kind of work is "
        f"slower if the 95 % interval of its median ratio lies above {percent(BETWEEN_CARDS, 0)}, "
        f"healthy if it lies below; kinds of fewer than {FEWEST_SAMPLES} points do not count. Two "
        "healthy cards of one model differ by almost as much at the power limit."
    )
    yield Table("health-kinds", "Times here over times published", health.kinds, KINDS, FILE)
    if len(health.points):
        yield CsvTable(FILE, health.points)
        clock = health.points["sm_clock_hz"] / health.points["sm_clock_hz_published"]
        points = health.points.assign(clock=clock)
        points = points.sort_values("ratio", ascending=False, kind="stable")
        name = "Every shared point, slowest first"
        yield Table("health-points", name, points, POINTS, FILE)


SECTION = Section("Against the published distribution", "healthy", show)
