"""The state of the card while it was measured, and what settling does to a time."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import seaborn as sns
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from roofcal.core.records import Session
from roofcal.report.data.quality import drift_fraction, minutes_since_start, sentinel_drift
from roofcal.report.data.tidy import ok_rows
from roofcal.report.kit.numbers import count_of, percent, scaled
from roofcal.report.kit.pictures import Picture, thinned, thinning_note
from roofcal.report.kit.styles import (
    MUTED,
    PAPER,
    by_recipe_order,
    log_axis,
    look,
    new_figure,
    op_colour,
    recipe_colour,
    tick_text,
)

_MOST: Final = 500  # per op and panel
_READINGS: Final = (
    ("sm_clock_hz", "SM clock", "Hz"),
    ("power_w", "power", "W"),
    ("temperature_c", "temperature", "\N{DEGREE SIGN}C"),
)


def draw_session(
    frames: Mapping[str, pd.DataFrame], sessions: Mapping[str, Sequence[Session]]
) -> Picture | None:
    """Sentinel, clock, power and temperature over the time of a run; None without any of them.

    frames and sessions by op.
    """
    every = [session for of_op in sessions.values() for session in of_op]
    timed = {
        op: ok_rows(frame).assign(minute=minutes_since_start(ok_rows(frame), every))
        for op, frame in frames.items()
    }
    drift = {op: sentinel_drift(frame) for op, frame in frames.items()}
    drift = {
        op: d.assign(minute=minutes_since_start(d, every)) for op, d in drift.items() if len(d) > 1
    }
    seen = [r for r in _READINGS if any(f[r[0]].notna().any() for f in timed.values())]
    panels = (1 if drift else 0) + len(seen)
    if not panels:
        return None
    with look():
        figure = new_figure(50 + 125 * panels + (30 if panels == 1 else 0))
        stack = list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])
        if drift:
            _sentinel(stack[0], drift)
        for axes, reading in zip(stack[1 if drift else 0 :], seen, strict=True):
            _reading(axes, timed, *reading)
        stack[-1].set_xlabel("minutes since the first session began")
        ops = [op for op in timed if len(timed[op])] if seen else list(drift)
        handles = [Patch(color=op_colour(op), label=op) for op in ops]
        figure.legend(handles=handles, loc="outside upper left", ncols=6, handlelength=0.8)
        figure.align_ylabels()
    facts = " ".join([*_drift_facts(drift), *_reading_facts(timed)])
    return Picture(
        key="session",
        figure=figure,
        op=max(timed, key=lambda op: len(timed[op])),
        alt=f"State of the device over the session. {facts}",
        facts=facts,
    )


def _sentinel(axes: Any, drift: Mapping[str, pd.DataFrame]) -> None:
    axes.axhline(0, color=MUTED, linewidth=0.8)
    for op, rows in drift.items():
        shown = rows.assign(percent=100 * (rows["ratio"] - 1))
        sns.lineplot(
            data=shown,
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
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:+.1f}".replace("-", "\u2212"))
    )


def _reading(
    axes: Any, timed: Mapping[str, pd.DataFrame], column: str, name: str, unit: str
) -> None:
    for op, rows in timed.items():
        some = thinned(rows[rows[column].notna()], _MOST)
        axes.scatter(some["minute"], some[column], s=5, color=op_colour(op), linewidth=0)
    axes.set(xlabel="", ylabel=name)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, unit)))


def _drift_facts(drift: Mapping[str, pd.DataFrame]) -> list[str]:
    return [
        f"The sentinel of {op} was measured {count_of(len(rows), 'time')} and spread over "
        f"{percent(drift_fraction(rows) or 0.0)}."
        for op, rows in drift.items()
    ]


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
    rows = rows[
        rows["burst_median_s"].notna() & (rows["repeat"] == 0) & (rows["method"] == "graph")
    ]
    if rows.empty:
        return None
    rows = rows.assign(slower=100 * (rows["median_s"] / rows["burst_median_s"] - 1))
    op = str(rows["op"].iloc[0])
    some = thinned(rows, 1500)
    recipes = by_recipe_order([str(r) for r in set(rows["recipe"])], op)
    with look():
        figure = new_figure(320)
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.axhline(0, color=MUTED, linewidth=0.8)
        for recipe in recipes:
            sns.scatterplot(
                data=some[some["recipe"] == recipe],
                x="median_s",
                y="slower",
                ax=axes,
                color=recipe_colour(recipe),
                edgecolor=PAPER,
                linewidth=0.3,
                s=16,
                legend=False,
            )
        log_axis(axes.xaxis, "s")
        axes.set(xlabel="settled time", ylabel="settled over burst, %")
        handles = [Patch(color=recipe_colour(recipe), label=recipe) for recipe in recipes]
        figure.legend(handles=handles, loc="outside upper left", ncols=5, handlelength=0.8)
    facts = _burst_facts(rows) + thinning_note(len(some), len(rows))
    return Picture(
        key="burst_against_settled",
        figure=figure,
        op=op,
        alt=f"How much slower a settled device is than a burst. {facts}",
        facts=facts,
    )


def _burst_facts(rows: pd.DataFrame) -> str:
    long = rows[rows["median_s"] >= 1e-4]
    if long.empty:
        return f"Median change {percent(float(rows['slower'].median()) / 100, signed=True)}."
    low, high = (float(long["slower"].quantile(q)) / 100 for q in (0.5, 0.95))
    return (
        f"Of {count_of(len(long), 'point')} of 100 \N{MICRO SIGN}s and more, the median is "
        f"{percent(low)} slower once settled, the 95th percentile "
        f"{percent(high)}."
    )
