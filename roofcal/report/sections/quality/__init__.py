"""How well each op was measured: pace, intervals, drift, and what settling does to a time."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from roofcal.core.visits.intervals import HOLDS
from roofcal.core.visits.rows import STATE_FACTOR
from roofcal.points.columns import STATES
from roofcal.report.data import drawing, quality
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import ok_rows, with_protocol
from roofcal.report.kit import charts
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import MUTED, Picture
from roofcal.report.kit.numbers import MICROSECONDS, count_of, percent, scaled
from roofcal.report.section import Answer, CsvTable, Item, Section

_MOST_READINGS: Final = 150  # per op and panel
_READINGS: Final = (  # column, name, its unit, unit of the figure, factor
    ("sm_clock_hz", "SM clock", "Hz", "MHz", 1e-6),
    ("power_w", "power", "W", "W", 1.0),
    ("temperature_c", "temperature", "\N{DEGREE SIGN}C", "\N{DEGREE SIGN}C", 1.0),
)
_SENTINEL: Final = "sentinel, % from its median"
FILE: Final = "quality.csv"
POINTS_WITH_STATES: Final = (
    *col.named("op", "provider", "recipe", "shape", "protocol", "states"),
    col.seconds("median_s", "published"),
    col.seconds("ci95_low_s", "95 % from"),
    col.seconds("ci95_high_s", "to"),
    col.fraction("spread", "apart", about="slowest over fastest state, minus 1"),
    *col.named("interval_holds"),
)
_MOST_STATES: Final = 20  # points with several states that are shown
_MOSTLY_EMPTY: Final = 0.3  # covered share of the time axis below which none is drawn
COLUMNS: Final = (
    *col.named("op", "points"),
    col.count("ok", "with a time"),
    col.number("wall_s", "wall time", "s", 1),
    col.fraction("busy_fraction", "busy", digits=0),
    col.number("points_per_minute", "points/min", "", 1),
    col.count("samples", "samples, median"),
    col.fraction("half_width_fraction", "interval, median", digits=2),
    col.fraction("narrow_fraction", "known to 1 %", digits=0),
    col.fraction("throttled_fraction", "clocked down", digits=0),
    col.fraction("drift_fraction", "sentinel drift", digits=2),
)
WAITING_FILE: Final = "waiting.csv"
WAITING: Final = (
    *col.named("op"),
    col.number("wall_s", "wall time", "s", 1),
    col.fraction("busy_fraction", "busy", digits=0),
    col.fraction("starting_fraction", "starting", digits=0),
    col.fraction("compiling_fraction", "compiling", digits=0),
    col.fraction("preparing_fraction", "preparing", digits=0),
    col.number("between_s", "idle before it", "s", 0),
)


def show(analysis: Analysis) -> Iterator[Item]:
    """How each op was measured, what the device waited for, its sessions and how it settled."""
    yield answer(analysis)
    yield CsvTable(FILE, analysis.quality)
    yield Table("quality-ops", "How each op was measured", analysis.quality, COLUMNS, FILE)
    yield from items_of_states(analysis.points_with_states)
    waiting = quality.waiting_rows(analysis.sessions)
    if len(waiting):
        yield CsvTable(WAITING_FILE, waiting)
    name = "What the device waited for while each op was measured"
    yield Table("quality-waiting", name, waiting, WAITING, WAITING_FILE)
    picture = draw_session(analysis)
    covered = quality.covered_fraction(analysis.frames.values(), analysis.all_sessions)
    if picture is not None and covered < _MOSTLY_EMPTY:
        text = (
            f"No course is drawn, because the sessions together last only "
            f"{percent(covered, 0)} of the time from the first to the last one."
        )
        yield Prose(text=f"{picture.facts} {text}")
    else:
        yield picture
    for op in analysis.studies:
        yield draw_burst(analysis.frames[op])


def answer(analysis: Analysis) -> Answer:
    """How many points were timed, and how well their medians are known."""
    rows, states = analysis.quality, len(analysis.points_with_states)
    widths = rows["half_width_fraction"].astype(float).dropna() if len(rows) else ()
    spread = ""
    if len(widths):
        width = percent(float(np.median(widths)), 2)
        spread = f"; the 95 % interval of a typical time is {width} to either side"
        if set(quality.times_by_hold(analysis.frames)) == {HOLDS["samples"]}:
            spread += " and covers the samples of one visit only"
    if states:
        spread += f"; {count_of(states, 'point has', 'points have')} visits more than 5 % apart"
    sessions = count_of(len(analysis.all_sessions), "session")
    points = count_of(analysis.timed, "point")
    return Answer(f"{sessions} timed {points} and kept every sample{spread}.")


def items_of_states(table: pd.DataFrame) -> Iterator[Item]:
    """The points whose visits disagree most, and how their one time is made; nothing without any.

    table: points_with_states of an analysis.
    """
    if table.empty:
        return
    yield Prose(
        text=f"Visits of a point more than {percent(STATE_FACTOR - 1, 0)} apart are in different "
        "states. The published time combines all visits, so it lies between the states. Where a "
        "sentinel is the same point, its repetitions count as visits here, but not in that time. "
        "The number of visits in each state stands in brackets."
    )
    shown, rest = with_protocol(table.head(_MOST_STATES)), len(table) - _MOST_STATES
    more = f"; {rest:,} more are in the tables of ops, column {STATES}" if rest > 0 else ""
    title = f"{quality.STATES_TITLE}, widest first{more}"
    yield Table(quality.STATES_TABLE, title, shown, POINTS_WITH_STATES)


def draw_session(analysis: Analysis) -> Picture | None:
    """Sentinel, clock, power and temperature over the time of a run; None without any of them."""
    facts, parts = [], []
    for op, frame in analysis.frames.items():
        drift = quality.sentinel_drift(frame)
        if len(drift) > 1:
            sentinels = quality.by_sentinel(drift)
            series = op + " " + sentinels.ngroup().astype(str)
            value = 100 * (drift["ratio"] - 1)
            parts.append(drift.assign(op=op, panel=_SENTINEL, value=value, series=series))
            count, most = sentinels.ngroups, int(sentinels.size().max())
            who = f"{count} sentinels of {op} were" if count > 1 else f"The sentinel of {op} was"
            facts.append(
                f"{who} measured {count_of(most, 'time')} and spread over "
                f"{percent(quality.drift_fraction(drift) or 0.0)}."
            )
    timed = {op: ok_rows(frame) for op, frame in analysis.frames.items()}
    for column, name, unit, shown_unit, factor in _READINGS:
        read = {op: of_op[of_op[column].notna()] for op, of_op in timed.items()}
        values = [value for of_op in read.values() for value in of_op[column]]
        if values:
            low, high = scaled(min(values), unit), scaled(max(values), unit)
            facts.append(f"{name[0].upper()}{name[1:]} from {low} to {high}.")
            for op, of_op in read.items():
                shown = charts.thinned(of_op, _MOST_READINGS)
                value = factor * shown[column]
                parts.append(shown.assign(op=op, panel=f"{name}, {shown_unit}", value=value))
    if not parts:
        return None
    sessions = analysis.all_sessions
    timed_parts = [
        part.assign(minute=quality.minutes_since_start(part, sessions)) for part in parts
    ]
    points = pd.concat(timed_parts, ignore_index=True)
    points = points.assign(colour=points["op"].map(drawing.op_colour), marker="o")
    colours = {op: drawing.op_colour(op) for op in dict.fromkeys(points["op"])}
    return Picture(
        key="session",
        op=max(timed, key=lambda op: len(timed[op])),
        x=charts.Axis("minute", "minutes since the first session began", "plain"),
        y=charts.Axis("value", "", "plain"),
        layers=[
            charts.Layer("line", table="sentinels", detail="series", size=1),
            charts.Layer("dots", size=14),
        ],
        tables={"points": points, "sentinels": points[points["panel"] == _SENTINEL]},
        panels=charts.facets(points, "panel", 110),
        tips=(
            *charts.text_tips(op="op", panel="of"),
            charts.Tip("value", "value", "si"),
            charts.Tip("minute", "minute", "si"),
        ),
        legend=charts.swatches("op", colours),
        columns=1,
        alt="State of the device over the session.",
        facts=" ".join(facts),
    )


def draw_burst(frame: pd.DataFrame) -> Picture | None:
    """Settled time over that of the first turn, against time; None without any warm-up."""
    rows = ok_rows(frame[(frame["repeat"] == 0) & (frame["method"] == "graph")])
    rows = rows[rows["burst_median_s"].notna()]
    if rows.empty:
        return None
    rows = rows.assign(slower=rows["median_s"] / rows["burst_median_s"] - 1)
    drawn = charts.thinned(rows)
    facts = f"Median change {percent(float(rows['slower'].median()), signed=True)}."
    long = rows[rows["median_s"] >= quality.LONG_S]
    if len(long):
        middle, high = (float(long["slower"].quantile(q)) for q in (0.5, 0.95))
        facts = (
            f"Of {count_of(len(long), 'point')} of 100 {MICROSECONDS} and more, the median is "
            f"{percent(middle)} slower once settled, the 95th percentile {percent(high)}."
        )
    return Picture(
        key="burst_against_settled",
        op=str(rows["op"].iloc[0]),
        x=charts.Axis("median_s", "settled time", unit="s"),
        y=charts.Axis("slower", "settled over burst", "percent"),
        layers=[charts.Layer("level", table="equal"), charts.Layer("dots", size=36)],
        tables={
            "points": drawing.styled_points(drawn),
            "equal": charts.line_at(0.0, "slower", MUTED),
        },
        tips=drawing.point_tips(
            drawing.TIME_TIP,
            charts.Tip("burst_median_s", "first turn", "si", "s"),
            charts.Tip("slower", "settled over burst", "percent"),
        ),
        legend=drawing.point_legend(drawn),
        alt="How much slower a settled device is than a burst.",
        facts=facts + charts.thinning_note(len(rows)),
    )


SECTION = Section("Quality of the measurement", "how", show)
