"""Learning curves: error on probes left out of a fit, by the number of probes fitted on."""

from collections.abc import Iterator

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.derived import DerivedTable, derived_table
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, derived_file
from roofcal.report.sections.learning.figure import draw_learning
from roofcal.report.sections.learning.table import (
    COLUMNS,
    FILE,
    NEEDED,
    NUMBERS,
    middle_repetitions,
)


def _contents(analysis: Analysis) -> DerivedTable:
    return derived_table(analysis.run, FILE, NEEDED, NUMBERS)


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    curves = derived.rows
    if curves.empty:
        return
    yield from writer.figures(draw_learning(curves), source=FILE, command=derived.command)
    name = "Error on probes left out, by number of probes fitted on; middle repetition"
    yield writer.table("learning", name, middle_repetitions(curves), COLUMNS, FILE)


SECTION = Section(
    key="learning",
    title="Learning curve",
    question="trust",
    contents=_contents,
    blocks=_blocks,
    tables=derived_file,
)
