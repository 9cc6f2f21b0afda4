"""All-gathers with their product, fused and one after the other, and the links they run over."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block, absence, paragraphs
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, filled_table
from roofcal.report.sections.gathered import links, overlap
from roofcal.report.sections.gathered.figures import draw_hidden, draw_ranks, draw_speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """The tidy frame of the op, None without a point of it that has a time, and its table."""

    analysis: Analysis
    frame: pd.DataFrame | None
    table: pd.DataFrame


def _contents(analysis: Analysis) -> _Contents:
    frame = analysis.frames.get(overlap.OP)
    if frame is None or overlap.timed_rows(frame).empty:
        return _Contents(analysis=analysis, frame=None, table=pd.DataFrame())
    return _Contents(analysis=analysis, frame=frame, table=overlap.overlap_table(frame))


def _blocks(contents: _Contents, writer: SectionWriter) -> Iterator[Block]:
    """A CPU without such rows says nothing of them; a GPU says how to measure them."""
    analysis = contents.analysis
    if contents.frame is not None:
        yield from _gathers(contents, contents.frame, writer)
    elif analysis.run.environment.vendor != "cpu":
        yield absence(overlap.NOT_MEASURED)
    constants = links.link_constants(analysis.run.calibration)
    curves = links.link_curves(analysis.frames.get(links.OP))
    yield from writer.figures(links.draw_links(curves, constants, analysis.spec))
    name = "Links between devices: rate and latency, fitted per collective and world size"
    columns = links.LINK_CONSTANTS
    yield from writer.filled_table("links", name, constants, columns, "constants.csv")


def _gathers(contents: _Contents, frame: pd.DataFrame, writer: SectionWriter) -> Iterator[Block]:
    table = contents.table
    if not table["provider"].isin(overlap.FUSED).any():
        yield absence(overlap.NOT_FUSED)
    yield from paragraphs(overlap.answer_sentences(table))
    unpredicted = overlap.unpredicted_sentence(frame, contents.analysis.run.calibration)
    if unpredicted:
        yield absence(unpredicted)
    name, rows = (
        "Speed-up over NCCL and product, captured and eager",
        overlap.overlap_summary(table),
    )
    yield from writer.filled_table("gathered-summary", name, rows, overlap.SUMMARY, overlap.FILE)
    yield from writer.figures(draw_speedup(table), draw_hidden(table), source=overlap.FILE)
    name = "All-gather and product: in sequence, fused, and what bounds both"
    yield from writer.filled_table("gathered-points", name, table, overlap.OVERLAP, overlap.FILE)
    yield from writer.figures(draw_ranks(frame))
    name, rows = "Slowest rank over the fastest, less 1", overlap.ranks_table(frame)
    yield from writer.filled_table("gathered-ranks", name, rows, overlap.RANKS)


def _tables(contents: _Contents) -> Iterable[CsvTable]:
    return filled_table(overlap.FILE, contents.table)


SECTION = Section("All-gather fused with the product", "recipe", _contents, _blocks, tables=_tables)
