"""How well each op was measured: pace, intervals, drift, and what settling does to a time."""

from collections.abc import Iterable, Iterator
from typing import Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.quality import covered_fraction, waiting_rows
from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.columns import count, fraction, number, text
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, CsvTable, Section, whole_run
from roofcal.report.sections.quality.figures import draw_burst, draw_session

FILE: Final = "quality.csv"
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


def _answer(analysis: Analysis) -> Answer:
    quality = analysis.quality
    widths = quality["half_width_fraction"].astype(float) if len(quality) else pd.Series()
    widths = widths.dropna()
    spread = (
        f"; half the 95 % interval of a median is {percent(float(widths.median()), 2)} (middle op)"
        if len(widths)
        else ""
    )
    sessions = count_of(len(analysis.all_sessions), "session")
    points = count_of(analysis.timed, "point")
    return Answer(f"{points} timed by {sessions}, every sample kept{spread}.")


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    name = "How each op was measured"
    yield writer.table("quality-ops", name, analysis.quality, COLUMNS, FILE)
    waiting = waiting_rows(analysis.sessions)
    if len(waiting):
        name = "What the device waited for, in the order of measuring"
        yield writer.table("quality-waiting", name, waiting, WAITING, WAITING_FILE)
    picture = draw_session(analysis.frames, analysis.sessions)
    covered = covered_fraction(analysis.frames.values(), analysis.all_sessions)
    if picture is not None and covered < _MOSTLY_EMPTY:
        text = f"Sessions cover {percent(covered, 0)} of the time from the first to the last one."
        yield Prose(text=f"{picture.facts} {text}")
    else:
        yield from writer.figures(picture)
    for op in analysis.studies:
        yield from writer.figures(draw_burst(analysis.frames[op]))


def _tables(analysis: Analysis) -> Iterable[CsvTable]:
    waiting = waiting_rows(analysis.sessions)
    told = [CsvTable(WAITING_FILE, waiting)] if len(waiting) else []
    return [CsvTable(FILE, analysis.quality), *told]


SECTION = Section(
    "Quality of the measurement",
    "how",
    whole_run,
    _blocks,
    tables=_tables,
    answer=_answer,
    lead=("burst_against_settled",),
)
