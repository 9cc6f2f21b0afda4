"""Learning curves: error on probes left out of a fit, by the number of probes fitted on."""

from collections.abc import Iterator
from typing import Final

from roofcal.report.data.derived import DerivedTable, derived_table
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.columns import count, fraction, texts
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, derived_file
from roofcal.report.sections.learning.figure import CURVE, draw_learning, middle_repetitions

FILE: Final = "learning.csv"
NUMBERS: Final = ("probes", "repetition", "held_out", "mape", "median", "p95")
COLUMNS: Final = (
    *texts(*CURVE),
    count("probes", "probes fitted on"),
    count("held_out", "judged on"),
    count("repetitions", "repetitions"),
    fraction("mape", "MAPE"),
    fraction("mape_low", "lowest"),
    fraction("mape_high", "highest"),
    fraction("median", "median"),
    fraction("p95", "95th percentile"),
)


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
    contents=lambda analysis: derived_table(analysis.run, FILE, CURVE, NUMBERS),
    blocks=_blocks,
    tables=derived_file,
)
