"""Achieved bandwidth: memory streams, and ops that move data without computing."""

from collections.abc import Iterator
from typing import Final

from roofcal.ops.probe_copy.spec import OP as STREAMS
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, whole_run
from roofcal.report.sections.bandwidth.figures import draw_casts, draw_streams

OP: Final = STREAMS.name


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    calibration, spec = analysis.run.calibration, analysis.spec
    streams = analysis.frames.get(OP)
    if streams is None or streams.empty:
        yield absence("The memory probe was not measured.")
    else:
        picture = draw_streams(streams, calibration, spec, analysis.cache_bytes)
        yield from writer.figures(picture)
    for op in analysis.studies:
        yield from writer.figures(draw_casts(analysis.frames[op], calibration, spec))


SECTION = Section(
    key="bandwidth",
    title="Bandwidth",
    question="healthy",
    contents=whole_run,
    blocks=_blocks,
)
