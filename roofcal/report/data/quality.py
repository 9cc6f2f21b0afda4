"""How well a run was measured: drift of the sentinel, busy time, pace, intervals, throttling.

Also which points have visits in several states, which their one time hides, and how sessions and
cards differ by the sentinels that they share.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.records import Session
from roofcal.core.visits.intervals import HOLDS, cards_by_session
from roofcal.ops import BY_NAME
from roofcal.points.columns import INTERVAL_HOLDS, PROTOCOL, STATES, read_states
from roofcal.report.data.panel_factors import READINGS
from roofcal.report.data.tidy import axes_of, ok_rows
from roofcal.report.kit.numbers import significant

TARGET_INTERVAL: Final = 0.01
LONG_S: Final = 1e-4  # calls this long show in sentences how far settled times lie above bursts
STATES_TITLE: Final = "Points with several states"
STATES_TABLE: Final = "quality-states"  # id of the table within a chapter: checks link to it
# Kinds of work: what speeds up and slows down together on another card. Chips of one model differ
# in the clock that they hold at a power limit, little in memory, and not at all in the full clock.
LINK, MEMORY, LAUNCH = "links", "memory", "launches"
_PARTS_OF_A_SESSION: Final = {
    "busy": "timed_s",
    "starting": "starting_s",
    "compiling": "compiling_s",
}
POWER_LIMITED, FULL_CLOCK = "products at the power limit", "products at the full clock"


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


def points_per_minute(points: int, sessions: Sequence[Session]) -> float | None:
    """Points over the wall time of their sessions; None if no session has ended."""
    seconds = wall_seconds(sessions)
    return points / seconds * 60 if seconds else None


def kinds_of_work(frame: pd.DataFrame) -> "pd.Series[Any]":
    """The kind of work of each row of a tidy frame that is not empty, or of its sentinels."""
    spec = BY_NAME[str(frame["op"].iloc[0])]
    if spec.received_bytes is not None or spec.name == "probe_link":
        return pd.Series(LINK, index=frame.index, dtype=object)
    if spec.name == "probe_launch":
        return pd.Series(LAUNCH, index=frame.index, dtype=object)
    if not {"m", "n", "k"} <= set(spec.axes):
        return pd.Series(MEMORY, index=frame.index, dtype=object)
    limited = frame["throttle_reasons"].astype(object).fillna("").str.contains("power").astype(bool)
    kinds = np.where(limited, POWER_LIMITED, FULL_CLOCK)
    shapes = frame[list(spec.axes)].to_dict("records")
    decode = [
        spec.regime({str(k): int(v) for k, v in shape.items()}) == "decode" for shape in shapes
    ]
    return pd.Series(np.where(decode, MEMORY, kinds), index=frame.index, dtype=object)


def panel_readings(
    frames: Mapping[str, pd.DataFrame], sessions: Mapping[str, Sequence[Session]]
) -> pd.DataFrame:
    """Every repetition of every sentinel of a run; an op and its probe share sentinels.

    A sentinel is of the kind of work that most of its repetitions are of.
    """
    kinds: dict[str, str] = {}
    readings = []
    for op, frame in frames.items():
        drift = sentinel_drift(frame)
        cards = cards_by_session(sessions[op])
        for names, rows in by_sentinel(drift) if len(drift) else ():
            sentinel = " ".join(map(str, (BY_NAME[op].folder, *names[1:])))
            kinds[sentinel] = str(kinds_of_work(rows).mode().iloc[0])
            for session, seconds in zip(rows["session_id"], rows["median_s"], strict=True):
                readings.append((sentinel, str(session), cards.get(str(session), ""), seconds))
    table = pd.DataFrame(readings, columns=list(READINGS[1:]))
    return table.assign(kind=table["sentinel"].map(kinds))  # op and probe agree


def on_panel_scale(frame: pd.DataFrame, factors: pd.DataFrame) -> pd.DataFrame:
    """A tidy frame with its times on the scale of the mean card, beside those as measured.

    panel_factor  how much longer work of that kind took in the session of the point
    panel_s       median_s over panel_factor

    Both are empty where the session shares no sentinel with another, and for times that combine
    several sessions. A frame without any factor is returned as it is.
    """
    known = factors[factors["session_id"] != ""].set_index(["session_id", "kind"])["factor"]
    if frame.empty or known.empty:
        return frame
    keys = pd.MultiIndex.from_arrays([frame["session_id"], kinds_of_work(frame)])
    of_one_session = frame[INTERVAL_HOLDS].isin([HOLDS["samples"], HOLDS["visits"]])
    values = pd.Series(known.reindex(keys).to_numpy(), index=frame.index).where(of_one_session)
    if values.isna().all():
        return frame
    return frame.assign(panel_factor=values, panel_s=frame["median_s"] / values)


def quality_row(frame: pd.DataFrame, sessions: Sequence[Session]) -> dict[str, Any]:
    """One line on how an op was measured. Fractions are of the points with a time.

    half_width_fraction  median over points of half the 95 % interval over the median; of an op
                         with points by the device's clock, over these: other work on the host
                         changes a launch by the host's clock from 17 to 25 us
    narrow_fraction      share of these points whose half interval is at most 1 % of the median
    throttled_fraction   points during which the card named a reason to run slower
    """
    rows = ok_rows(frame)
    by_host = rows["method"] == "wall"
    half = half_width(rows if by_host.all() else rows[~by_host]).to_numpy(dtype=float)
    throttled = rows["throttle_reasons"].notna()
    observed = bool(rows["sm_clock_hz"].notna().any())
    return {
        "points": len(frame),
        "ok": len(rows),
        "sessions": len(sessions),
        "wall_s": wall_seconds(sessions) or None,
        "busy_fraction": busy_fraction(sessions),
        "points_per_minute": points_per_minute(len(frame), sessions),
        "samples": float(rows["samples"].median()) if len(rows) else None,
        "half_width_fraction": float(np.nanmedian(half)) if len(rows) else None,
        "narrow_fraction": float((half <= TARGET_INTERVAL).mean()) if len(rows) else None,
        "throttled_fraction": float(throttled.mean()) if observed else None,
        "drift_fraction": drift_fraction(sentinel_drift(frame)),
    }


def waiting_rows(sessions: Mapping[str, Sequence[Session]]) -> pd.DataFrame:
    """What the device waited for, by op in the order of measuring; empty where no session says.

    Fractions are of the wall time of the sessions that ended and say so.

    busy_fraction       the device was timed
    starting_fraction   workers created a CUDA context and warmed the card
    compiling_fraction  no group of points was compiled yet; 0 where an op begins with all compiled
    preparing_fraction  the rest: making inputs, checking outputs, capturing graphs
    between_s           idle between the end of the session before on the same card and this one,
                        as where its kernels were still compiled
    """
    ended = [
        (op, s, _seconds(s.started_utc), _seconds(s.finished_utc or ""))
        for op, of_op in sessions.items()
        for s in of_op
        if s.wall_s and s.starting_s is not None
    ]
    rows = []
    for op in dict.fromkeys(op for op, *_ in ended):
        own = [(session, start) for of, session, start, _ in ended if of == op]
        wall_s = wall_seconds([session for session, _ in own])
        shares = {
            f"{part}_fraction": sum(getattr(session, field) or 0.0 for session, _ in own) / wall_s
            for part, field in _PARTS_OF_A_SESSION.items()
        }
        between = [
            start - max(earlier)
            for session, start in own
            if start is not None
            and (
                earlier := [
                    end
                    for _, other, _, end in ended
                    if other.device_uuid == session.device_uuid and end is not None and end <= start
                ]
            )
        ]
        row = {
            "op": op,
            "wall_s": wall_s,
            **shares,
            "preparing_fraction": max(0.0, 1.0 - sum(shares.values())),
            "between_s": sum(between) if between else None,
        }
        rows.append((min((start for _, start in own if start is not None), default=0.0), row))
    return pd.DataFrame([row for _, row in sorted(rows, key=lambda pair: pair[0])])


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
    head = ["op", "provider", "recipe", *axes_of(frame), *PROTOCOL]
    columns = [*head, "median_s", "ci95_low_s", "ci95_high_s", INTERVAL_HOLDS, "point_id"]
    is_held = (rows["ci95_low_s"] <= fastest) & (slowest <= rows["ci95_high_s"])
    return rows[columns].assign(
        states=readable_states(rows), spread=slowest / fastest - 1, is_held=is_held
    )


def half_width(rows: pd.DataFrame) -> "pd.Series[float]":
    """Half the 95 % interval as a fraction of the median."""
    return (rows["ci95_high_s"] - rows["ci95_low_s"]) / 2 / rows["median_s"]


def minutes_since_start(frame: pd.DataFrame, sessions: Sequence[Session]) -> "pd.Series[float]":
    """When each point was measured: minutes since the first of all `sessions` began.

    `started_s` of a measurement counts from the start of its own session.
    """
    starts = {s.session_id: _seconds(s.started_utc) for s in sessions}
    first = min((start for start in starts.values() if start is not None), default=0.0)
    offset = {key: (start or first) - first for key, start in starts.items()}
    return (frame["session_id"].map(offset).astype(float) + frame["started_s"]) / 60


def covered_fraction(frames: Iterable[pd.DataFrame], sessions: Sequence[Session]) -> float:
    """Wall time of sessions over the time from first start to last point; 1 if unknown."""
    minutes = [minutes_since_start(frame, sessions) for frame in frames]
    span = float(pd.concat(minutes).max()) if minutes else 0.0
    return min(1.0, wall_seconds(sessions) / 60 / span) if span > 0 else 1.0


def _seconds(utc: str) -> float | None:
    """Seconds since the epoch of an ISO time, None for any other text."""
    try:
        return datetime.fromisoformat(utc).timestamp()
    except ValueError:
        return None
