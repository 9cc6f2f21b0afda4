"""How far float8 linears are from float64, beside their speed."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block, Prose, absence
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, filled_table
from roofcal.report.sections.linear_accuracy.figures import draw_dots, draw_matrix, draw_speed
from roofcal.report.sections.linear_accuracy.tables import (
    ACCUMULATION,
    ACCUMULATION_FILE,
    ACCURACY,
    NO_SPEED,
    NOT_MEASURED,
    OP,
    SPEED_FILE,
    accumulation_table,
    accuracy_rows,
    answer_sentences,
    speed_and_accuracy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """Points with an accuracy, what fast accumulation costs, and accuracy beside speed."""

    accuracy: pd.DataFrame
    accumulation: pd.DataFrame
    speed: pd.DataFrame


def _contents(analysis: Analysis) -> _Contents | None:
    """None where no linear was planned."""
    frame = analysis.frames.get(OP)
    if frame is None or frame.empty:
        return None
    return _Contents(
        accuracy=accuracy_rows(frame),
        accumulation=accumulation_table(frame),
        speed=speed_and_accuracy(frame, analysis.speedups[OP]),
    )


def _blocks(contents: _Contents | None, writer: SectionWriter) -> Iterator[Block]:
    if contents is None or contents.accuracy.empty:
        yield absence(NOT_MEASURED)
        return
    rows, pairs = contents.accuracy, contents.accumulation
    for sentence in answer_sentences(rows, pairs):
        yield Prose(text=sentence)
    yield from writer.figures(draw_matrix(rows), draw_dots(rows))
    if len(pairs):
        name = "Fast against two-level accumulation"
        yield writer.table("linear-accumulation", name, pairs, ACCUMULATION, ACCUMULATION_FILE)
    if contents.speed.empty:
        yield absence(NO_SPEED)
    yield from writer.figures(draw_speed(contents.speed), source=SPEED_FILE)
    name = "Signal to quantisation noise of every point"
    yield writer.table("linear-accuracy", name, rows, ACCURACY, writer.csv(OP))


def _tables(contents: _Contents | None) -> Iterator[CsvTable]:
    if contents is not None:
        yield from filled_table(ACCUMULATION_FILE, contents.accumulation)
        yield from filled_table(SPEED_FILE, contents.speed)


SECTION = Section(
    key="linear-accuracy",
    title="Accuracy of float8 linears",
    question="recipe",
    contents=_contents,
    blocks=_blocks,
    tables=_tables,
)
