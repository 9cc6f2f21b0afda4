"""Products with narrow weights: which format wins where, which roof binds, what accuracy costs."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block, Prose, absence, paragraphs
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, CsvTable, Section
from roofcal.report.sections.mixed import tables
from roofcal.report.sections.mixed.answer import answer_sentences, winners_sentence
from roofcal.report.sections.mixed.crossover import draw_crossover
from roofcal.report.sections.mixed.figures import draw_bandwidth, draw_roofs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """The tidy frame of the op and the tables made of it."""

    frame: pd.DataFrame
    calibration: Calibration | None
    spec: DeviceSpec | None
    winners: pd.DataFrame
    roofs: pd.DataFrame
    errors: pd.DataFrame


def _contents(analysis: Analysis) -> _Contents | None:
    """None where no product with narrow weights was planned."""
    frame, calibration = analysis.frames.get(tables.OP), analysis.run.calibration
    if frame is None or frame.empty:
        return None
    return _Contents(
        frame=frame,
        calibration=calibration,
        spec=analysis.spec,
        winners=tables.winners_table(frame),
        roofs=tables.roofs_table(frame, calibration),
        errors=tables.errors_table(frame),
    )


def _blocks(contents: _Contents | None, writer: SectionWriter) -> Iterator[Block]:
    if contents is None:
        return
    frame, calibration = contents.frame, contents.calibration
    yield Prose(text="Why is int4 x bf16 decode slower than fp8?")
    yield from paragraphs(answer_sentences(frame, calibration))
    winners, roofs = contents.winners, contents.roofs
    if winners.empty:
        yield absence("No shape has a time in int4 and in another format: no crossover map.")
    yield from writer.figures(draw_crossover(winners), source=tables.WINNERS_FILE)
    if len(winners):
        name = "Fastest format of the weights, and the fastest other one"
        yield writer.table("mixed-winners", name, winners, tables.WINNERS, tables.WINNERS_FILE)
    yield from writer.figures(draw_bandwidth(frame, calibration, contents.spec))
    if roofs.empty:
        yield absence("No roofs of narrow weights: probe_mixed_gemm was not calibrated.")
    yield from writer.figures(draw_roofs(frame, calibration))
    if len(roofs):
        name = "Which roof binds, by tokens"
        yield writer.table("mixed-roofs", name, roofs, tables.ROOF_COLUMNS, tables.ROOFS_FILE)
    name = "Error of the kernel and of the format, kept apart"
    yield writer.table("mixed-errors", name, contents.errors, tables.ERRORS, tables.ERRORS_FILE)


def _tables(contents: _Contents | None) -> Iterator[CsvTable]:
    if contents is not None:
        yield CsvTable(tables.WINNERS_FILE, contents.winners)
        yield CsvTable(tables.ROOFS_FILE, contents.roofs)
        yield CsvTable(tables.ERRORS_FILE, contents.errors)


def _answer(contents: _Contents | None) -> Answer:
    sentence = winners_sentence(contents.winners) if contents else ""
    missing = "Cannot be told here: no shape has a time in int4 and in another format."
    return Answer(sentence or missing, is_open=not sentence)


SECTION = Section(
    "Mixed precision: int4 weights",
    "weights",
    _contents,
    _blocks,
    tables=_tables,
    answer=_answer,
    lead=("mixed_bandwidth",),
)
