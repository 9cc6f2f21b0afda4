"""All-gathers with their product, fused and one after the other, and the links they run over."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block, Prose, absence
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, filled_table
from roofcal.report.sections.gathered.figures import draw_hidden, draw_ranks, draw_speedup
from roofcal.report.sections.gathered.link_figure import draw_links
from roofcal.report.sections.gathered.links import LINK_CONSTANTS, link_constants, link_curves
from roofcal.report.sections.gathered.links import OP as LINK_PROBE
from roofcal.report.sections.gathered.overlap import (
    FILE,
    FUSED,
    NOT_FUSED,
    NOT_MEASURED,
    OP,
    OVERLAP,
    RANKS,
    SUMMARY,
    answer_sentences,
    overlap_summary,
    overlap_table,
    ranks_table,
    timed_rows,
    unpredicted_sentence,
)
from roofcal.report.sections.gathered.published import (
    beside_published,
    columns_beside,
    published_sentences,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """The tidy frame of the op, None without a point of it that has a time, and its table."""

    analysis: Analysis
    frame: pd.DataFrame | None
    overlap: pd.DataFrame


def _contents(analysis: Analysis) -> _Contents:
    frame = analysis.frames.get(OP)
    if frame is None or timed_rows(frame).empty:
        return _Contents(analysis=analysis, frame=None, overlap=pd.DataFrame())
    return _Contents(analysis=analysis, frame=frame, overlap=overlap_table(frame))


def _blocks(contents: _Contents, writer: SectionWriter) -> Iterator[Block]:
    """A CPU without such rows says nothing of them; a GPU says how to measure them."""
    analysis = contents.analysis
    if contents.frame is not None:
        yield from _gathers(contents, contents.frame, writer)
    elif analysis.run.environment.vendor != "cpu":
        yield absence(NOT_MEASURED)
    constants = link_constants(analysis.run.calibration)
    curves = link_curves(analysis.frames.get(LINK_PROBE))
    yield from writer.figures(draw_links(curves, constants, analysis.spec))
    if len(constants):
        name = "Links between devices: rate and latency, fitted per collective and world size"
        yield writer.table("links", name, constants, LINK_CONSTANTS, "constants.csv")


def _gathers(contents: _Contents, frame: pd.DataFrame, writer: SectionWriter) -> Iterator[Block]:
    table = contents.overlap
    if not table["provider"].isin(FUSED).any():
        yield absence(NOT_FUSED)
    for sentence in answer_sentences(table):
        yield Prose(text=sentence)
    unpredicted = unpredicted_sentence(frame, contents.analysis.run.calibration)
    if unpredicted:
        yield absence(unpredicted)
    summary = overlap_summary(table)
    if len(summary):
        name = "Speed-up over NCCL and product, captured and eager"
        yield writer.table("gathered-summary", name, summary, SUMMARY, FILE)
    yield from writer.figures(draw_speedup(table), draw_hidden(table), source=FILE)
    if len(table):
        name = "All-gather and product: in sequence, fused, and what bounds both"
        yield writer.table("gathered", name, table, OVERLAP, FILE)
    yield from _published(contents, writer)
    yield from writer.figures(draw_ranks(frame))
    ranks = ranks_table(frame)
    if len(ranks):
        name = "Slowest rank over the fastest, less 1"
        yield writer.table("gathered-ranks", name, ranks, RANKS)


def _published(contents: _Contents, writer: SectionWriter) -> Iterator[Block]:
    """The table of the source that published one, beside ours."""
    claims, table = contents.analysis.claims, contents.overlap
    beside = beside_published(claims, table)
    if beside.empty or not table["provider"].isin(FUSED).any():
        return
    for sentence in published_sentences(claims, beside, table):
        yield Prose(text=sentence)
    name = "A published table beside ours, bf16"
    yield writer.table("gathered-published", name, beside, columns_beside(table), FILE)


SECTION = Section(
    key="gathered",
    title="All-gather fused with the product",
    question="recipe",
    contents=_contents,
    blocks=_blocks,
    tables=lambda contents: filled_table(FILE, contents.overlap),
)
