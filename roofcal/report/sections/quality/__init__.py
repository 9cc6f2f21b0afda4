"""How well each op was measured: pace, intervals, drift, and what settling does to a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pandas as pd

from roofcal.core.records import Session
from roofcal.core.visits.intervals import HOLDS
from roofcal.core.visits.rows import STATE_FACTOR
from roofcal.points.columns import STATES
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.quality import (
    LONG_S,
    STATES_TABLE,
    STATES_TITLE,
    by_sentinel,
    covered_fraction,
    drift_fraction,
    minutes_since_start,
    sentinel_drift,
    times_by_hold,
)
from roofcal.report.data.tidy import ok_rows, with_protocol
from roofcal.report.kit import charts
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.numbers import MICROSECONDS, count_of, percent, scaled
from roofcal.report.kit.styles import MUTED
from roofcal.report.kit.writer import Picture, SectionWriter, thinned, thinning_note
from roofcal.report.section import Answer, CsvTable, Section, filled_table, whole_run

_MOST_READINGS: Final = 150  # per op and panel
_READINGS: Final = (  # column, name, its unit, unit of the figure, factor
    ("sm_clock_hz", "SM clock", "Hz", "MHz", 1e-6),
    ("power_w", "power", "W", "W", 1.0),
    ("temperature_c", "temperature", "\N{DEGREE SIGN}C", "\N{DEGREE SIGN}C", 1.0),
)
_SENTINEL: Final = "sentinel, % from its median"
_DRAWN: Final = ("op", "panel", "minute", "value", "series")
FILE: Final = "quality.csv"
PANEL_FILE: Final = "panel.csv"
PANEL: Final = (
    col.text("kind", "kind of work"),
    col.code("card", "card"),
    col.code("session_id", "session", about="empty: the card, over its sessions"),
    col.ratio("factor", "time over the mean card", digits=3),
    col.ratio("low", "95 % from", digits=3),
    col.ratio("high", "to", digits=3),
    *col.named("interval_holds", "sentinels"),
)
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
    rows = [
        *(
            repetitions.assign(
                op=op, panel=_SENTINEL, value=100 * (repetitions["ratio"] - 1), series=f"{op} {n}"
            )
            for op, of_op in drift.items()
            for n, (_, repetitions) in enumerate(by_sentinel(of_op))
        ),
        *(
            shown.assign(op=op, panel=f"{name}, {shown_unit}", value=factor * shown[column])
            for column, name, _, shown_unit, factor in readings
            for op, of_op in timed.items()
            for shown in [thinned(of_op[of_op[column].notna()], _MOST_READINGS)]
        ),
    ]
    if not rows:
        return None
    drawn = pd.concat([one[[c for c in _DRAWN if c in one]] for one in rows], ignore_index=True)
    points = drawn.assign(colour=drawn["op"].map(drawing.op_colour), marker="o")
    chart = charts.Chart(
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
        legend=charts.swatches(
            "op", {op: drawing.op_colour(op) for op in dict.fromkeys(points["op"])}
        ),
        columns=1,
    )
    facts = []
    for op, of_op in drift.items():
        counts = by_sentinel(of_op).size()
        who = f"{len(counts)} sentinels of {op} were"
        facts.append(
            f"{who if len(counts) > 1 else f'The sentinel of {op} was'} measured "
            f"{count_of(int(counts.max()), 'time')} and spread over "
            f"{percent(drift_fraction(of_op) or 0.0)}."
        )
    for column, name, unit, *_ in _READINGS:
        parts = [rows[column].dropna() for rows in timed.values()]
        values = pd.concat(parts) if parts else pd.Series(dtype=float)
        if len(values):
            low, high = scaled(float(values.min()), unit), scaled(float(values.max()), unit)
            facts.append(f"{name[0].upper()}{name[1:]} from {low} to {high}.")
    return Picture(
        key="session",
        chart=chart,
        op=max(timed, key=lambda op: len(timed[op])),
        alt="State of the device over the session.",
        facts=" ".join(facts),
    )


def draw_burst(frame: pd.DataFrame) -> Picture | None:
    """Settled time over that of the first turn, against time; None without any warm-up."""
    rows = ok_rows(frame)
    has_burst = rows["burst_median_s"].notna() & (rows["repeat"] == 0) & (rows["method"] == "graph")
    rows = rows[has_burst]
    if rows.empty:
        return None
    rows = rows.assign(slower=rows["median_s"] / rows["burst_median_s"] - 1)
    op = str(rows["op"].iloc[0])
    drawn = thinned(rows, charts.MOST_ROWS)
    burst = drawn[["slower", "burst_median_s"]]
    facts = f"Median change {percent(float(rows['slower'].median()), signed=True)}."
    long = rows[rows["median_s"] >= LONG_S]
    if len(long):
        middle, high = (float(long["slower"].quantile(q)) for q in (0.5, 0.95))
        facts = (
            f"Of {count_of(len(long), 'point')} of 100 {MICROSECONDS} and more, the median is "
            f"{percent(middle)} slower once settled, the 95th percentile {percent(high)}."
        )
    return Picture(
        key="burst_against_settled",
        chart=charts.Chart(
            x=charts.Axis("median_s", "settled time", unit="s"),
            y=charts.Axis("slower", "settled over burst", "percent"),
            layers=[charts.Layer("level", table="equal"), charts.Layer("dots", size=36)],
            tables={
                "points": drawing.styled_points(drawn).join(burst),
                "equal": charts.line_at(0.0, "slower", MUTED),
            },
            panels=[charts.Panel()],
            tips=drawing.point_tips(
                drawing.TIME_TIP,
                charts.Tip("burst_median_s", "first turn", "si", "s"),
                charts.Tip("slower", "settled over burst", "percent"),
            ),
            legend=drawing.point_legend(drawn),
            columns=1,
        ),
        op=op,
        alt="How much slower a settled device is than a burst.",
        facts=facts + thinning_note(len(drawn), len(rows)),
    )


def _answer(analysis: Analysis) -> Answer:
    quality = analysis.quality
    widths = quality["half_width_fraction"].astype(float) if len(quality) else pd.Series()
    widths = widths.dropna()
    spread = (
        f"; half the 95 % interval of a median is {percent(float(widths.median()), 2)} (middle op)"
        if len(widths)
        else ""
    )
    if spread and set(times_by_hold(analysis.frames)) == {HOLDS["samples"]}:
        spread += ", and covers only the one visit of each point"
    if len(analysis.points_with_states):
        count = count_of(len(analysis.points_with_states), "point has", "points have")
        spread += f"; {count} several states"
    sessions = count_of(len(analysis.all_sessions), "session")
    points = count_of(analysis.timed, "point")
    return Answer(f"{points} timed by {sessions}, every sample kept{spread}.")


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    name = "How each op was measured"
    yield writer.table("quality-ops", name, analysis.quality, COLUMNS, FILE)
    yield from _blocks_of_states(analysis, writer)
    name = "What the device waited for, in the order of measuring"
    yield from writer.filled_table("quality-waiting", name, analysis.waiting, WAITING, WAITING_FILE)
    yield Prose(text=panel_sentence(analysis))
    factors, title = analysis.panel_factors, "Sessions and cards by their sentinels"
    yield from writer.filled_table("quality-panel", title, factors, PANEL, PANEL_FILE)
    picture = draw_session(analysis.frames, analysis.sessions)
    covered = covered_fraction(analysis.frames.values(), analysis.all_sessions)
    if picture is not None and covered < _MOSTLY_EMPTY:
        text = f"Sessions cover {percent(covered, 0)} of the time from the first to the last one."
        yield Prose(text=f"{picture.facts} {text}")
    else:
        yield from writer.figures(picture)
    for op in analysis.studies:
        yield from writer.figures(draw_burst(analysis.frames[op]))


def _blocks_of_states(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    """The points whose visits disagree most, and how their one time is made."""
    table = analysis.points_with_states
    if table.empty:
        return
    yield Prose(
        text=f"Visits of a point more than {percent(STATE_FACTOR - 1, 0)} apart are in different "
        "states. The published time combines all visits, so it lies between the states. Where a "
        "sentinel is the same point, its repetitions count as visits here, but not in that time. "
        "The number of visits in each state stands in brackets."
    )
    shown = with_protocol(table.head(_MOST_STATES))
    rest = len(table) - len(shown)
    title = f"{STATES_TITLE}, widest first"
    if rest:
        title += f"; {rest:,} more are in the tables of ops, column {STATES}"
    yield writer.table(STATES_TABLE, title, shown, POINTS_WITH_STATES)


def panel_sentence(analysis: Analysis) -> str:
    """What the panel of sentinels says of sessions and cards."""
    cards = {card for session in analysis.all_sessions for card in session.cards}
    if analysis.panel_factors.empty:
        return (
            "No two sessions share a sentinel, so how sessions and cards of this run differ is "
            f"unknown ({count_of(len(analysis.all_sessions), 'session')}, "
            f"{count_of(len(cards), 'card')})."
        )
    spreads = [
        f"{percent(one.spread)} ({percent(one.low)} to {percent(one.high)}) for {one.kind}, "
        f"{one.cards} cards"
        for one in analysis.card_spreads
    ]
    between = f" Standard deviation between cards: {'; '.join(spreads)}." if spreads else ""
    return (
        "Shared sentinels put sessions on one scale, on which the mean of the cards is 1, for each "
        "kind of work. Beside its time as measured, a point in a tidy table has the factor of its "
        f"session and its time on that scale.{between}"
    )


def _tables(analysis: Analysis) -> Iterable[CsvTable]:
    return [
        CsvTable(FILE, analysis.quality),
        *filled_table(PANEL_FILE, analysis.panel_factors),
        *filled_table(WAITING_FILE, analysis.waiting),
    ]


SECTION = Section(
    "Quality of the measurement",
    "how",
    whole_run,
    _blocks,
    tables=_tables,
    answer=_answer,
    lead=("burst_against_settled",),
)
