"""How well a run was measured: drift of the sentinel, busy time, pace, intervals, throttling.

A point below the time of its roof has one of three causes: the roof is wrong (datasheet of another
card, a ceiling fitted on too few probes), the data never came from memory (warm cache), or the
clock was read wrongly (broken timer). Points with hot caches are not held against roofs: their data
stays in the cache on purpose.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.records import Session
from roofcal.core.units import significant
from roofcal.points.columns import INTERVAL_HOLDS, PROTOCOL, STATES, read_states
from roofcal.report.data.tidy import axes_of, ok_rows

TARGET_INTERVAL: Final = 0.01
VIOLATION_COLUMNS: Final = ("bound", "bound_s", "factor", "cause")
_TIMER_FACTOR: Final = 1.5  # further beyond a datasheet than any rounding or boost clock reaches
LONG_S: Final = 1e-4  # calls this long show in sentences how far settled times lie above bursts
STATES_TITLE: Final = "Points with several states"
STATES_TABLE: Final = "quality-states"  # id of the table within a chapter: checks link to it
_PARTS_OF_A_SESSION: Final = {
    "busy": "timed_s",
    "starting": "starting_s",
    "compiling": "compiling_s",
}


def times_by_hold(frames: Mapping[str, pd.DataFrame]) -> Counter[str]:
    """How far intervals can be trusted -> number of times: see core.visits.intervals.HOLDS."""
    return Counter(hold for frame in frames.values() for hold in frame[INTERVAL_HOLDS].dropna())


def sentinel_drift(frame: pd.DataFrame) -> pd.DataFrame:
    """The repeated points in the order of measuring; `ratio` is the time over a point's median.

    Empty if the op has no sentinel or no repetition of one has a time.
    """
    rows = ok_rows(frame)
    is_sentinel = rows["sweeps"].map(lambda sweeps: "sentinel" in str(sweeps).split(";"))
    rows = rows[is_sentinel.astype(bool)].sort_values("repeat", kind="stable")
    identity = ["op", "provider", "recipe", *axes_of(frame), "world_size"]
    ratio = rows["median_s"] / rows.groupby(identity)["median_s"].transform("median")
    columns = [*identity, "repeat", "session_id", "started_s"]
    columns += ["median_s", "ci95_low_s", "ci95_high_s", "ratio"]
    columns += ["sm_clock_hz", "power_w", "temperature_c", "throttle_reasons"]
    return rows.assign(ratio=ratio)[columns].reset_index(drop=True)


def by_sentinel(drift: pd.DataFrame) -> Any:
    """The repetitions of each sentinel in the table of `sentinel_drift`."""
    identity = list(drift.columns[: list(drift.columns).index("repeat")])
    return drift.groupby(identity, sort=False)


def drift_fraction(drift: pd.DataFrame) -> float | None:
    """Slowest over fastest repetition of the sentinel that moved most, minus 1.

    None where none has two.
    """
    if drift.empty:
        return None
    ratios = by_sentinel(drift)["ratio"]
    several = ratios.count() > 1
    return float((ratios.max() / ratios.min() - 1)[several].max()) if several.any() else None


def busy_fraction(sessions: Sequence[Session]) -> float | None:
    """Time in timed kernels over wall time of the sessions that ended; None without one."""
    ended = [s for s in sessions if s.wall_s and s.timed_s is not None]
    if not ended:
        return None
    return sum(s.timed_s or 0.0 for s in ended) / sum(s.wall_s or 0.0 for s in ended)


def wall_seconds(sessions: Sequence[Session]) -> float:
    """Wall time of the sessions that ended."""
    return sum(s.wall_s or 0.0 for s in sessions)


def quality_row(frame: pd.DataFrame, sessions: Sequence[Session]) -> dict[str, Any]:
    """One line on how an op was measured, see quality.csv.md of the section."""
    rows = ok_rows(frame)
    # other work on the host changes a launch by the host's clock from 17 to 25 us
    by_host = rows["method"] == "wall"
    half = half_width(rows if by_host.all() else rows[~by_host]).to_numpy(dtype=float)
    throttled = rows["throttle_reasons"].notna()
    observed = bool(rows["sm_clock_hz"].notna().any())
    wall_s = wall_seconds(sessions) or None
    return {
        "points": len(frame),
        "ok": len(rows),
        "sessions": len(sessions),
        "wall_s": wall_s,
        "busy_fraction": busy_fraction(sessions),
        "points_per_minute": len(frame) / wall_s * 60 if wall_s else None,
        "samples": float(rows["samples"].median()) if len(rows) else None,
        "half_width_fraction": float(np.nanmedian(half)) if len(rows) else None,
        "narrow_fraction": float((half <= TARGET_INTERVAL).mean()) if len(rows) else None,
        "throttled_fraction": float(throttled.mean()) if observed else None,
        "drift_fraction": drift_fraction(sentinel_drift(frame)),
    }


def waiting_rows(sessions: Mapping[str, Sequence[Session]]) -> pd.DataFrame:
    """What the device waited for, by op in the order of measuring; empty where no session says.

    waiting.csv.md of the section describes the columns. Fractions are of the wall time of the
    sessions that ended and say so.
    """
    told = {
        op: own
        for op, of_op in sessions.items()
        if (own := [s for s in of_op if s.wall_s and s.starting_s is not None])
    }
    every = [session for own in told.values() for session in own]
    rows = []
    for op, own in sorted(told.items(), key=lambda pair: _first_start(pair[1])):
        wall_s = wall_seconds(own)
        shares = {
            f"{part}_fraction": sum(getattr(session, field) or 0.0 for session in own) / wall_s
            for part, field in _PARTS_OF_A_SESSION.items()
        }
        between = [gap for session in own if (gap := _idle_before(session, every)) is not None]
        rows.append(
            {"op": op, "wall_s": wall_s, **shares}
            | {"preparing_fraction": max(0.0, 1.0 - sum(shares.values()))}
            | {"between_s": sum(between) if between else None}
        )
    return pd.DataFrame(rows)


def _idle_before(session: Session, sessions: Sequence[Session]) -> float | None:
    """Seconds from the end of the session before on the same card; None for the first one."""
    start = _seconds(session.started_utc)
    ends = (
        _seconds(s.finished_utc or "") for s in sessions if s.device_uuid == session.device_uuid
    )
    earlier = [end for end in ends if end <= start]
    return start - max(earlier) if earlier else None


def readable_states(frame: pd.DataFrame) -> "pd.Series[Any]":
    """The states of each row of a tidy frame in microseconds, '109.0 (2); 121.3 (1)', or None."""
    texts = [
        "; ".join(f"{significant(1e6 * s.seconds, 4)} ({s.visits})" for s in read_states(text))
        if isinstance(text, str)
        else None
        for text in frame[STATES]
    ]
    return pd.Series(texts, index=frame.index, dtype=object)


def points_with_states(frame: pd.DataFrame) -> pd.DataFrame:
    """Points of a tidy frame that have several states, in its order.

    states   see readable_states
    spread   slowest over fastest state, minus 1
    is_held  whether the 95 % interval of the point holds all of its states
    """
    rows = frame[frame[STATES].notna()]
    states = [read_states(text) for text in rows[STATES]]
    fastest = np.array([of_point[0].seconds for of_point in states], dtype=float)
    slowest = np.array([of_point[-1].seconds for of_point in states], dtype=float)
    columns = [*_planned(frame), "median_s", "ci95_low_s", "ci95_high_s", INTERVAL_HOLDS]
    is_held = (rows["ci95_low_s"] <= fastest) & (slowest <= rows["ci95_high_s"])
    return rows[[*columns, "point_id"]].assign(
        states=readable_states(rows), spread=slowest / fastest - 1, is_held=is_held
    )


def half_width(rows: pd.DataFrame) -> "pd.Series[float]":
    """Half the 95 % interval as a fraction of the median."""
    return (rows["ci95_high_s"] - rows["ci95_low_s"]) / 2 / rows["median_s"]


def minutes_since_start(frame: pd.DataFrame, sessions: Sequence[Session]) -> "pd.Series[float]":
    """When each point was measured: minutes since the first of all `sessions` began.

    `started_s` of a measurement counts from the start of its own session.
    """
    first = _first_start(sessions)
    starts = {s.session_id: _seconds(s.started_utc) for s in sessions}
    offset = {key: start - first if math.isfinite(start) else 0.0 for key, start in starts.items()}
    return (frame["session_id"].map(offset).astype(float) + frame["started_s"]) / 60


def _first_start(sessions: Iterable[Session]) -> float:
    """When the first of them began; 0 where none says it."""
    starts = (_seconds(session.started_utc) for session in sessions)
    return min(filter(math.isfinite, starts), default=0.0)


def covered_fraction(frames: Iterable[pd.DataFrame], sessions: Sequence[Session]) -> float:
    """Wall time of sessions over the time from first start to last point; 1 if unknown."""
    minutes = [minutes_since_start(frame, sessions) for frame in frames]
    span = float(pd.concat(minutes).max()) if minutes else 0.0
    return min(1.0, wall_seconds(sessions) / 60 / span) if span > 0 else 1.0


def _seconds(utc: str) -> float:
    """Seconds since the epoch of an ISO time; not a number for any other text."""
    try:
        return datetime.fromisoformat(utc).timestamp()
    except ValueError:
        return math.nan


# --- what should not be: points faster than a roof allows, and points without a time --------------


def violations(frame: pd.DataFrame, cache_bytes: float | None = None) -> pd.DataFrame:
    """Points whose whole interval is faster than a roof allows, worst first, by the likely cause.

    cache_bytes: size of the last-level cache, which is needed to recognise a warm cache.
    """
    rows = ok_rows(frame)
    rows = rows[rows["cache"] == "cold"]
    parts = []
    for bound, column in (("datasheet", "datasheet_s"), ("calibrated", "calibrated_bound_s")):
        faster = rows[rows["ci95_high_s"] < rows[column]]
        factor = faster[column] / faster["median_s"]
        faster = faster.assign(bound=bound, bound_s=faster[column], factor=factor)
        causes = [_cause(row, bound, cache_bytes) for row in faster.to_dict("records")]
        parts.append(faster.assign(cause=pd.Series(causes, index=faster.index, dtype=object)))
    columns = [*_planned(frame), "regime", "median_s", "ci95_high_s", INTERVAL_HOLDS]
    columns += [*VIOLATION_COLUMNS, "achieved_flops_per_s", "achieved_bytes_per_s"]
    columns += ["sm_clock_hz", "point_id"]
    both = pd.concat([part for part in parts if not part.empty] or [parts[0]], ignore_index=True)
    return both.sort_values(["bound", "factor"], ascending=False)[columns].reset_index(drop=True)


def _cause(row: dict[Any, Any], bound: str, cache_bytes: float | None) -> str:
    """The first cause that fits, most certain first."""
    if cache_bytes and 0 < row["rotating_bytes"] <= 2 * cache_bytes:
        return "warm cache: the rotating copies are not twice the last-level cache"
    if row["distribution"] == "zeros":
        return "zeros: they draw less power than the random data of the calibration"
    if bound == "calibrated":
        return "ceiling too low: no probe ran this fast"
    if row["factor"] > _TIMER_FACTOR:
        return "broken timer, or work that was not done"
    return "wrong datasheet: this rate was observed, the datasheet says less"


def worst_factor(violations: pd.DataFrame, bound: str) -> float | None:
    """The largest factor by which a bound was beaten, None if it was not beaten."""
    factors = violations.loc[violations["bound"] == bound, "factor"]
    return float(factors.max()) if len(factors) else None


def not_ok(frame: pd.DataFrame) -> pd.DataFrame:
    """Points without a result: what was planned, its status and its reason."""
    columns = [*_planned(frame), "status", "reason", "sweeps", "point_id"]
    return frame.loc[frame["status"] != "ok", columns].reset_index(drop=True)


def _planned(frame: pd.DataFrame) -> list[str]:
    """The columns that say which point it is."""
    return ["op", "provider", "recipe", *axes_of(frame), *PROTOCOL]
