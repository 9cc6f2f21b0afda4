"""From how many tokens on a linear in fp8, casts included, is faster than in bf16."""

from collections.abc import Iterator

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.derived import DerivedTable, derived_table
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, derived_file
from roofcal.report.sections.breakeven.figure import draw_breakeven
from roofcal.report.sections.breakeven.table import COLUMNS, FILE, NEEDED, NUMBERS, smallest_m


def _contents(analysis: Analysis) -> DerivedTable:
    return derived_table(analysis.run, FILE, NEEDED, NUMBERS)


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    if derived.rows.empty:
        yield absence("This run has no break-even map of linears.")
        return
    picture = draw_breakeven(derived.rows)
    yield from writer.figures(picture, source=FILE, command=derived.command)
    name = "Smallest m from which on a linear is faster than in bf16; none: never up to 131,072"
    yield writer.table("breakeven-m", name, smallest_m(derived.rows), COLUMNS, FILE)


SECTION = Section(
    key="breakeven",
    title="Break-even of linears in fp8",
    question="recipe",
    contents=_contents,
    blocks=_blocks,
    tables=derived_file,
)
