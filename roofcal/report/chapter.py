"""The chapter of one device: which sections it has, in which order, and what stands before them."""

from collections.abc import Callable, Iterator
from typing import Final

from roofcal.ops import BY_NAME
from roofcal.report import blocks
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import environment_facts
from roofcal.report.kit.blocks import Block, Chapter, Section, Table
from roofcal.report.kit.writer import Pen
from roofcal.report.matrices import error_table, gain_table
from roofcal.report.questions import questions
from roofcal.report.sections.claims import section as claims_section
from roofcal.report.sections.gathered import section as gathered_blocks
from roofcal.report.sections.health import section as health_section
from roofcal.report.summary import checks, sentences

# key, title, what stands there; a section without blocks is left out. Which question a section
# answers, and so where in the chapter it stands, says questions.py.
SECTIONS: Final[tuple[tuple[str, str, Callable[[Pen], Iterator[Block]]], ...]] = (
    ("health", "Against the published distribution", health_section.blocks),
    ("constants", "Calibrated constants", blocks.constants),
    ("roofline", "Roofline", blocks.roofline),
    ("accuracy", "Measured against predicted", blocks.accuracy),
    ("learning", "Learning curve", blocks.learning),
    ("transfer", "Calibrations of other environments", blocks.transfer),
    ("moved", "What moved", blocks.moved),
    ("speedup", "Speed-up against the baseline", blocks.speedup),
    ("mixed", "Mixed precision: int4 weights", blocks.mixed),
    ("linear-accuracy", "Accuracy of float8 linears", blocks.linear_accuracy),
    ("gathered", gathered_blocks.TITLE, gathered_blocks.blocks),
    ("breakeven", "Break-even of linears in fp8", blocks.breakeven),
    ("bandwidth", "Bandwidth", blocks.bandwidth),
    ("llm", "Language models", blocks.llm),
    ("claims", claims_section.TITLE, lambda pen: claims_section.blocks(pen.a, pen.anchor)),
    ("audit", "Violation audit", blocks.audit),
    ("methods", "Method panel", blocks.methods),
    ("missing", "Points without a result", blocks.missing),
    ("quality", "Quality of the measurement", blocks.quality),
    ("points", "All points", blocks.points),
    ("provenance", "Provenance", blocks.provenance),
)


class Writer:
    """Turns the tables of a run into a chapter."""

    def __init__(self, analysis: Analysis, anchor: str, number: int) -> None:
        """`number` tells the figures of one chapter from those of another."""
        self.a, self.anchor = analysis, anchor
        self._pen = Pen(analysis, anchor, number)

    def chapter(self) -> Chapter:
        """The whole chapter."""
        environment = self.a.run.environment
        return Chapter(
            id=self.anchor,
            name=environment.device_name,
            short=environment.device,
            origin=self.a.run.origin,
            facts=environment_facts(environment),
            summary=sentences(self.a),
            tables=list(self._matrices()),
            checks=checks(self.a),
            questions=questions(self.a, self.anchor, list(self._sections())),
        )

    def _sections(self) -> Iterator[tuple[str, Section]]:
        for key, title, made in SECTIONS:
            blocks_there = list(made(self._pen))
            if blocks_there:
                yield key, Section(id=f"{self.anchor}-{key}", title=title, blocks=blocks_there)

    def _matrices(self) -> Iterator[Table]:
        """The small tables of the summary, for ops with a baseline."""
        for op, table in self.a.speedups.items():
            if len(table):
                yield gain_table(table, id=f"{self.anchor}-gain-{op}")
        for op in dict.fromkeys(self.a.errors["op"]) if len(self.a.errors) else ():
            if BY_NAME[op].baseline_recipe:
                yield error_table(self._pen.errors(op), op, id=f"{self.anchor}-error-{op}")
