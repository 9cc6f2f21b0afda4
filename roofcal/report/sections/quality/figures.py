"""The state of the card while it was measured, and what settling does to a time."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import seaborn as sns
from matplotlib.ticker import MaxNLocator

from roofcal.core.records import Session
from roofcal.report.data.drawing import (
    HEAD_TIPS,
    TAIL_TIPS,
    TIME_TIP,
    op_colour,
    point_legend,
    styled_points,
)
from roofcal.report.data.quality import (
    by_sentinel,
    drift_fraction,
    minutes_since_start,
    sentinel_drift,
)
from roofcal.report.data.tidy import ok_rows
from roofcal.report.kit import styles
from roofcal.report.kit.charts import MOST_ROWS, Axis, Chart, Layer, Panel, Tip
from roofcal.report.kit.numbers import MICROSECONDS, count_of, percent, scaled
from roofcal.report.kit.pictures import Picture, thinned, thinning_note

_MOST_READINGS: Final = 500  # per op and panel
_READINGS: Final = (
    ("sm_clock_hz", "SM clock", "Hz"),
    ("power_w", "power", "W"),
    ("temperature_c", "temperature", "\N{DEGREE SIGN}C"),
)


def draw_session(
    frames: Mapping[str, pd.DataFrame], sessions: Mapping[str, Sequence[Session]]
) -> Picture | None:
    """Sentinel, clock, power and temperature over the time of a run; None without any of them.

    frames, sessions: by op.
    """
    all_sessions = [session for of_op in sessions.values() for session in of_op]
    timed = {
        op: rows.assign(minute=minutes_since_start(rows, all_sessions))
        for op, rows in ((op, ok_rows(frame)) for op, frame in frames.items())
    }
    drift = {
        op: rows.assign(minute=minutes_since_start(rows, all_sessions))
        for op, rows in ((op, sentinel_drift(frame)) for op, frame in frames.items())
        if len(rows) > 1
    }
    readings = [r for r in _READINGS if any(rows[r[0]].notna().any() for rows in timed.values())]
    panels = (1 if drift else 0) + len(readings)
    if not panels:
        return None
    with styles.look():
        figure = styles.new_figure(50 + 125 * panels + (30 if panels == 1 else 0))
        stack = list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])
        if drift:
            _sentinel(stack[0], drift)
        for axes, reading in zip(stack[1 if drift else 0 :], readings, strict=True):
            _reading(axes, timed, *reading)
        stack[-1].set_xlabel("minutes since the first session began")
        ops = [op for op in timed if len(timed[op])] if readings else list(drift)
        styles.legend(figure, styles.colour_patches({op: op_colour(op) for op in ops}), 6, 0.8)
        figure.align_ylabels()
    return Picture(
        key="session",
        drawn=figure,
        op=max(timed, key=lambda op: len(timed[op])),
        alt="State of the device over the session.",
        facts=" ".join([*_drift_facts(drift), *_reading_facts(timed)]),
    )


def _sentinel(axes: Any, drift: Mapping[str, pd.DataFrame]) -> None:
    axes.axhline(0, color=styles.MUTED, linewidth=0.8)
    for op, rows in drift.items():
        for _, repetitions in by_sentinel(rows):
            sns.lineplot(
                data=repetitions.assign(percent=100 * (repetitions["ratio"] - 1)),
                x="minute",
                y="percent",
                ax=axes,
                color=op_colour(op),
                marker="o",
                markersize=4,
                markeredgewidth=0,
                errorbar=None,
                linewidth=1,
            )
    axes.set(xlabel="", ylabel="sentinel, %")
    styles.show_ticks(axes.yaxis, lambda value: f"{value:+.1f}".replace("-", "\N{MINUS SIGN}"), 4)


def _reading(
    axes: Any, timed: Mapping[str, pd.DataFrame], column: str, name: str, unit: str
) -> None:
    for op, rows in timed.items():
        drawn = thinned(rows[rows[column].notna()], _MOST_READINGS)
        axes.scatter(drawn["minute"], drawn[column], s=5, color=op_colour(op), linewidth=0)
    axes.set(xlabel="", ylabel=name)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    styles.unit_axis(axes.yaxis, unit)


def _drift_facts(drift: Mapping[str, pd.DataFrame]) -> list[str]:
    facts = []
    for op, rows in drift.items():
        counts = by_sentinel(rows).size()
        who = (
            f"The sentinel of {op} was"
            if len(counts) == 1
            else f"{len(counts)} sentinels of {op} were"
        )
        facts.append(
            f"{who} measured {count_of(int(counts.max()), 'time')} and spread over "
            f"{percent(drift_fraction(rows) or 0.0)}."
        )
    return facts


def _reading_facts(timed: Mapping[str, pd.DataFrame]) -> list[str]:
    facts = []
    for column, name, unit in _READINGS:
        parts = [rows[column].dropna() for rows in timed.values()]
        values = pd.concat(parts) if parts else pd.Series(dtype=float)
        if len(values):
            low, high = scaled(float(values.min()), unit), scaled(float(values.max()), unit)
            facts.append(f"{name[0].upper()}{name[1:]} from {low} to {high}.")
    return facts


def draw_burst(frame: pd.DataFrame) -> Picture | None:
    """Settled time over that of the first turn, against time; None without any warm-up."""
    rows = ok_rows(frame)
    has_burst = rows["burst_median_s"].notna() & (rows["repeat"] == 0) & (rows["method"] == "graph")
    rows = rows[has_burst]
    if rows.empty:
        return None
    rows = rows.assign(slower=rows["median_s"] / rows["burst_median_s"] - 1)
    op = str(rows["op"].iloc[0])
    drawn = thinned(rows, MOST_ROWS)
    burst = drawn[["slower", "burst_median_s"]]
    legend = point_legend(drawn)
    return Picture(
        key="burst_against_settled",
        drawn=Chart(
            x=Axis("median_s", "settled time", unit="s"),
            y=Axis("slower", "settled over burst", "percent"),
            layers=[Layer(mark="level", table="equal", hidden=()), Layer(mark="dots", size=36)],
            tables={
                "points": styled_points(drawn).join(burst),
                "equal": pd.DataFrame({"slower": [0.0], "dashed": [0], "colour": [styles.MUTED]}),
            },
            panels=[Panel()],
            tips=(
                *HEAD_TIPS,
                TIME_TIP,
                Tip(key="burst_median_s", label="first turn", kind="si", unit="s"),
                Tip(key="slower", label="settled over burst", kind="percent"),
                *TAIL_TIPS,
            ),
            legend=legend,
            columns=1,
        ),
        op=op,
        alt="How much slower a settled device is than a burst.",
        facts=_burst_facts(rows) + thinning_note(len(drawn), len(rows)),
    )


def _burst_facts(rows: pd.DataFrame) -> str:
    long = rows[rows["median_s"] >= 1e-4]
    if long.empty:
        return f"Median change {percent(float(rows['slower'].median()), signed=True)}."
    middle, high = (float(long["slower"].quantile(q)) for q in (0.5, 0.95))
    return (
        f"Of {count_of(len(long), 'point')} of 100 {MICROSECONDS} and more, the median is "
        f"{percent(middle)} slower once settled, the 95th percentile {percent(high)}."
    )
