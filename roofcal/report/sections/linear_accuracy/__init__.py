"""How far float8 linears are from float64, beside their speed."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block, absence, paragraphs
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, filled_table
from roofcal.report.sections.linear_accuracy import tables
from roofcal.report.sections.linear_accuracy.figures import (
    draw_dots,
    draw_matrix,
    draw_speed,
    equal_accuracy_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """Points with an accuracy, what fast accumulation costs, and accuracy beside speed."""

    accuracy: pd.DataFrame
    accumulation: pd.DataFrame
    speed: pd.DataFrame


def _contents(analysis: Analysis) -> _Contents | None:
    """None where no linear was planned."""
    frame = analysis.frames.get(tables.OP)
    if frame is None or frame.empty:
        return None
    return _Contents(
        accuracy=tables.accuracy_rows(frame),
        accumulation=tables.accumulation_table(frame),
        speed=tables.speed_and_accuracy(frame, analysis.speedups[tables.OP]),
    )


def _blocks(contents: _Contents | None, writer: SectionWriter) -> Iterator[Block]:
    if contents is None or contents.accuracy.empty:
        yield absence(tables.NOT_MEASURED)
        return
    rows, pairs = contents.accuracy, contents.accumulation
    yield from paragraphs(tables.answer_sentences(rows, pairs))
    yield from writer.figures(draw_matrix(rows), draw_dots(rows))
    if len(pairs):
        name = "Fast against two-level accumulation"
        yield writer.table(
            "linear-accumulation", name, pairs, tables.ACCUMULATION, tables.ACCUMULATION_FILE
        )
    if contents.speed.empty:
        yield absence(tables.NO_SPEED)
    yield from paragraphs(filter(None, [equal_accuracy_text(contents.speed)]))
    yield from writer.figures(draw_speed(contents.speed), source=tables.SPEED_FILE)
    name = "Signal to quantisation noise of every point"
    yield writer.table("linear-accuracy-points", name, rows, tables.ACCURACY, writer.csv(tables.OP))


def _tables(contents: _Contents | None) -> Iterator[CsvTable]:
    if contents is not None:
        yield from filled_table(tables.ACCUMULATION_FILE, contents.accumulation)
        yield from filled_table(tables.SPEED_FILE, contents.speed)


SECTION = Section("Accuracy of float8 linears", "recipe", _contents, _blocks, tables=_tables)
