"""Estimates of language models: throughput, latency, and what fits."""

from collections.abc import Iterator

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.derived import DerivedTable, derived_table
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, derived_file
from roofcal.report.sections.llm.figure import draw_llm
from roofcal.report.sections.llm.table import COLUMNS, FILE, NEEDED, NUMBERS, one_row_per_cut


def _contents(analysis: Analysis) -> DerivedTable:
    return derived_table(analysis.run, FILE, NEEDED, NUMBERS)


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    estimates = derived.rows
    if estimates.empty:
        yield absence("This run has no estimates of language models.")
        return
    yield from writer.figures(draw_llm(estimates), source=FILE, command=derived.command)
    name = "Language models by recipe and cut: one request, and the largest batch that fits"
    yield writer.table("llm-cuts", name, one_row_per_cut(estimates), COLUMNS, FILE)


SECTION = Section(
    key="llm",
    title="Language models",
    question="recipe",
    contents=_contents,
    blocks=_blocks,
    tables=derived_file,
)
