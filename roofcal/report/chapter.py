"""The chapter of one run: its questions with their sections, and what the first page says of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofcal.report.checks import Check, all_checks, disturbances
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import caption_words
from roofcal.report.data.provenance import environment_facts, table_command
from roofcal.report.kit.blocks import Block, FigureBlock, Table
from roofcal.report.kit.writer import OpSource, SectionWriter
from roofcal.report.page import sections_by_question
from roofcal.report.section import CsvTable, Section
from roofcal.report.summary import (
    HeadlineNumber,
    headline_numbers,
    regime_tables,
    summary_sentences,
    summary_tables,
    verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterSection:
    """A section as the page shows it."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterQuestion:
    """A question, its answer in a sentence, and the sections that show why.

    is_open: see roofcal.report.section.Answer
    figures: those of the first page, one of each op and section
    """

    id: str
    title: str
    answer: str
    is_open: bool
    figures: Sequence[FigureBlock]
    sections: Sequence[ChapterSection]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One device in one environment, ready for the template.

    environment  its short name; `facts` have the id
    is_earlier   whether the page has a newer environment of the device
    """

    id: str
    name: str
    short: str
    environment: str
    is_earlier: bool
    origin: str
    facts: Sequence[tuple[str, str]]
    verdict: str
    numbers: Sequence[HeadlineNumber]
    summary: Sequence[str]
    tables: Sequence[Table]
    regime_tables: Sequence[Table]
    checks: Sequence[Check]
    disturbances: Sequence[str]
    questions: Sequence[ChapterQuestion]

    @property
    def sections(self) -> list[ChapterSection]:
        """All sections of the chapter, in order."""
        return [section for question in self.questions for section in question.sections]

    @property
    def blocks(self) -> list[Block]:
        """All blocks of the chapter, in order."""
        return [block for section in self.sections for block in section.blocks]

    @property
    def figures(self) -> list[FigureBlock]:
        """All figures of the chapter, in order."""
        return [block for block in self.blocks if isinstance(block, FigureBlock)]


class ChapterBuilder:
    """Fills the sections with one run, once, and makes the chapter and the tables of them."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._questions = [
            (question, [(section, section.contents(analysis)) for section in sections])
            for question, sections in sections_by_question()
        ]

    def tables(self) -> list[CsvTable]:
        """Every CSV file of the run."""
        filled = [pair for _, sections in self._questions for pair in sections]
        return [table for section, contents in filled for table in section.tables(contents)]

    def chapter(self, anchor: str) -> Chapter:
        """The chapter; ids in it begin with `anchor`."""
        environment = self.analysis.run.environment
        written = {
            section.key: ChapterSection(
                id=f"{anchor}-{section.key}",
                title=section.title,
                blocks=list(
                    section.blocks(contents, section_writer(self.analysis, section, anchor))
                ),
            )
            for _, sections in self._questions
            for section, contents in sections
        }
        return Chapter(
            id=anchor,
            name=environment.device_name,
            short=environment.device,
            environment=self.analysis.environment_name,
            is_earlier=self.analysis.is_earlier,
            origin=self.analysis.run.origin,
            facts=environment_facts(environment),
            verdict=verdict(self.analysis),
            numbers=headline_numbers(self.analysis),
            summary=summary_sentences(self.analysis),
            tables=list(summary_tables(self.analysis, anchor)),
            regime_tables=list(regime_tables(self.analysis, anchor)),
            checks=all_checks(self.analysis),
            disturbances=disturbances(self.analysis),
            questions=[
                ChapterQuestion(
                    id=f"{anchor}-{question.key}",
                    title=question.title,
                    answer=answer.text,
                    is_open=answer.is_open,
                    figures=[
                        figure
                        for section, _ in sections
                        for figure in lead_figures(written[section.key].blocks, section.lead)
                    ],
                    sections=[
                        written[section.key]
                        for section, _ in sections
                        if written[section.key].blocks
                    ],
                )
                for question, sections in self._questions
                for answering, contents in sections
                if answering.answer
                for answer in [answering.answer(contents)]
            ],
        )


def lead_figures(blocks: Sequence[Block], lead: Sequence[str]) -> Iterator[FigureBlock]:
    """Of each op the first figure of a section that `lead` names, in the order of the blocks."""
    figures = [block for block in blocks if isinstance(block, FigureBlock) and block.key in lead]
    for op in dict.fromkeys(figure.op for figure in figures):
        own = [figure for figure in figures if figure.op == op]
        yield min(own, key=lambda figure: lead.index(figure.key))


def section_writer(analysis: Analysis, section: Section[Any], anchor: str) -> SectionWriter:
    """What a section writes its blocks with; ids begin with `anchor`, that of the chapter."""

    def source_of(op: str) -> OpSource:
        return OpSource(
            csv=f"{analysis.device}_{op}.csv",
            command=table_command(analysis.run, op),
            words=caption_words(op),
        )

    return SectionWriter(anchor=anchor, captions=section.folder, source_of=source_of)
