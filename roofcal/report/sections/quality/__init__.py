"""How well each op was measured: pace, intervals, drift, and what settling does to a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import pandas as pd
import seaborn as sns
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from roofcal.core.records import Session
from roofcal.core.visits.intervals import HOLDS
from roofcal.core.visits.rows import STATE_FACTOR
from roofcal.fitting.panel_factors import PanelFactor
from roofcal.points.columns import INTERVAL_HOLDS, STATES
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.drawing import (
    HEAD_TIPS,
    TAIL_TIPS,
    TIME_TIP,
    op_colour,
    point_legend,
    styled_points,
)
from roofcal.report.data.quality import (
    STATES_TABLE,
    STATES_TITLE,
    by_sentinel,
    covered_fraction,
    drift_fraction,
    minutes_since_start,
    sentinel_drift,
    times_by_hold,
    waiting_rows,
)
from roofcal.report.data.tidy import ok_rows, with_protocol
from roofcal.report.kit import styles
from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.charts import MOST_ROWS, Axis, Chart, Layer, Panel, Tip
from roofcal.report.kit.columns import (
    HOLDS_COLUMN,
    STATES_COLUMN,
    code,
    count,
    fraction,
    number,
    ratio,
    seconds,
    text,
    texts,
)
from roofcal.report.kit.numbers import MICROSECONDS, count_of, percent, scaled, tick_text
from roofcal.report.kit.writer import Picture, SectionWriter, thinned, thinning_note
from roofcal.report.section import Answer, CsvTable, Section, filled_table, whole_run

_MOST_READINGS: Final = 500  # per op and panel
_READINGS: Final = (
    ("sm_clock_hz", "SM clock", "Hz"),
    ("power_w", "power", "W"),
    ("temperature_c", "temperature", "\N{DEGREE SIGN}C"),
)
FILE: Final = "quality.csv"
PANEL_FILE: Final = "panel.csv"
PANEL: Final = (
    text("kind", "kind of work"),
    code("card", "card"),
    code("session_id", "session", about="empty: the card, over its sessions"),
    ratio("factor", "time over the mean card", digits=3),
    ratio("low", "95 % from", digits=3),
    ratio("high", "to", digits=3),
    HOLDS_COLUMN,
    count("sentinels", "sentinels"),
)
POINTS_WITH_STATES: Final = (
    *texts("op", "provider", "recipe", "shape"),
    text("protocol", "timed by"),
    STATES_COLUMN,
    seconds("median_s", "published"),
    seconds("ci95_low_s", "95 % from"),
    seconds("ci95_high_s", "to"),
    fraction("spread", "apart", about="slowest over fastest state, minus 1"),
    HOLDS_COLUMN,
)
_MOST_STATES: Final = 20  # points with several states that are shown
_MOSTLY_EMPTY: Final = 0.3  # of the axis of time is covered: a figure would be mostly empty
COLUMNS: Final = (
    text("op", "op"),
    count("points", "points"),
    count("ok", "with a time"),
    number("wall_s", "wall time", "s", 1),
    fraction("busy_fraction", "busy", digits=0),
    number("points_per_minute", "points/min", "", 1),
    count("samples", "samples, median"),
    fraction("half_width_fraction", "interval, median", digits=2),
    fraction("narrow_fraction", "known to 1 %", digits=0),
    fraction("throttled_fraction", "clocked down", digits=0),
    fraction("drift_fraction", "sentinel drift", digits=2),
)
WAITING_FILE: Final = "waiting.csv"
WAITING: Final = (
    text("op", "op"),
    number("wall_s", "wall time", "s", 1),
    fraction("busy_fraction", "busy", digits=0),
    fraction("starting_fraction", "starting", digits=0),
    fraction("compiling_fraction", "compiling", digits=0),
    fraction("preparing_fraction", "preparing", digits=0),
    number("between_s", "idle before it", "s", 0),
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
        for axes, (column, name, unit) in zip(stack[1 if drift else 0 :], readings, strict=True):
            for op, rows in timed.items():
                shown = thinned(rows[rows[column].notna()], _MOST_READINGS)
                axes.scatter(shown["minute"], shown[column], s=5, color=op_colour(op), linewidth=0)
            axes.set(xlabel="", ylabel=name)
            axes.yaxis.set_major_locator(MaxNLocator(4))
            styles.show_ticks(axes.yaxis, partial(tick_text, unit=unit))
        stack[-1].set_xlabel("minutes since the first session began")
        ops = [op for op in timed if len(timed[op])] if readings else list(drift)
        styles.legend(figure, [Patch(color=op_colour(op), label=op) for op in ops], 6, 0.8)
        figure.align_ylabels()
    facts = []
    for column, name, unit in _READINGS:
        parts = [rows[column].dropna() for rows in timed.values()]
        values = pd.concat(parts) if parts else pd.Series(dtype=float)
        if len(values):
            low, high = scaled(float(values.min()), unit), scaled(float(values.max()), unit)
            facts.append(f"{name[0].upper()}{name[1:]} from {low} to {high}.")
    return Picture(
        key="session",
        drawn=figure,
        op=max(timed, key=lambda op: len(timed[op])),
        alt="State of the device over the session.",
        facts=" ".join([*_drift_facts(drift), *facts]),
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
            legend=point_legend(drawn),
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
        spread += ", which holds for the one visit of each point"
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
    waiting = waiting_rows(analysis.sessions)
    if len(waiting):
        name = "What the device waited for, in the order of measuring"
        yield writer.table("quality-waiting", name, waiting, WAITING, WAITING_FILE)
    yield Prose(text=panel_sentence(analysis))
    factors, title = panel_table(analysis.panel_factors), "Sessions and cards by their sentinels"
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
    """The points whose visits disagree most, and what their one time is made of."""
    table = analysis.points_with_states
    if table.empty:
        return
    yield Prose(
        text=f"Visits of a point more than {percent(STATE_FACTOR - 1, 0)} apart are in different "
        "states. The published time is made of all visits, so it lies between the states; the "
        "repetitions of a sentinel that is the same point are states, too, and no part of that "
        "time. The number of visits in each state stands in brackets."
    )
    shown = with_protocol(table.head(_MOST_STATES))
    rest = len(table) - len(shown)
    title = f"{STATES_TITLE}, widest first"
    if rest:
        title += f"; {rest:,} more are in the tables of ops, column {STATES}"
    yield writer.table(STATES_TABLE, title, shown, POINTS_WITH_STATES)


def panel_table(factors: Iterable[PanelFactor]) -> pd.DataFrame:
    """The factors of sessions and cards as rows."""
    names = {"session": "session_id", "holds": INTERVAL_HOLDS}
    rows = pd.DataFrame([asdict(factor) for factor in factors])
    return rows.rename(columns=names)[[column.key for column in PANEL]] if len(rows) else rows


def panel_sentence(analysis: Analysis) -> str:
    """What the panel of sentinels says of sessions and cards."""
    cards = {card for session in analysis.all_sessions for card in session.cards}
    if not analysis.panel_factors:
        return (
            "No two sessions share a sentinel, so nothing says how sessions and cards of this run "
            f"differ ({count_of(len(analysis.all_sessions), 'session')}, "
            f"{count_of(len(cards), 'card')})."
        )
    spreads = [
        f"{percent(one.spread)} ({percent(one.low)} to {percent(one.high)}) for {one.kind}, "
        f"{one.cards} cards"
        for one in analysis.card_spreads
    ]
    between = f" Standard deviation between cards: {'; '.join(spreads)}." if spreads else ""
    return (
        "Sessions that share sentinels are put on one scale by them: around the mean of the cards, "
        "kind of work by kind. Tidy tables have the factor of the session of each point and its "
        f"time on that scale beside the time as measured.{between}"
    )


def _tables(analysis: Analysis) -> Iterable[CsvTable]:
    return [
        CsvTable(FILE, analysis.quality),
        *filled_table(PANEL_FILE, panel_table(analysis.panel_factors)),
        *filled_table(WAITING_FILE, waiting_rows(analysis.sessions)),
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
