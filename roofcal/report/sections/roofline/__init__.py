"""A roofline per op: achieved rate against arithmetic intensity."""

from collections.abc import Iterator

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, whole_run
from roofcal.report.sections.roofline.figure import draw_roofline


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    calibration, spec = analysis.run.calibration, analysis.spec
    for op in analysis.studies:
        yield from writer.figures(draw_roofline(analysis.frames[op], calibration, spec))


SECTION = Section(
    key="roofline",
    title="Roofline",
    question="recipe",
    contents=whole_run,
    blocks=_blocks,
)
