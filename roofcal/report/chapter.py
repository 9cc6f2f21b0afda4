"""The chapter of one run: its questions with their sections, and what the first page says of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from roofcal.report.checks import all_checks, disturbances
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import caption_words
from roofcal.report.data.provenance import environment_facts, table_command
from roofcal.report.kit.blocks import Block, FigureBlock
from roofcal.report.kit.writer import OpSource, SectionWriter
from roofcal.report.page import QUESTIONS, sections_by_question
from roofcal.report.section import Section
from roofcal.report.summary import (
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


class Chapter:
    """One device in one environment, ready for the template: the sections, filled with one run.

    id           ids in it begin with it
    environment  its short name; `facts` have the id
    is_earlier   whether the page has a newer environment of the device
    """

    def __init__(self, analysis: Analysis, anchor: str) -> None:
        environment = analysis.run.environment
        self.analysis, self.id = analysis, anchor
        self.name, self.short = environment.device_name, environment.device
        self.environment, self.is_earlier = analysis.environment_name, analysis.is_earlier
        self.origin, self.facts = analysis.run.origin, environment_facts(environment)
        self.disturbances = disturbances(analysis)
        self._filled = [
            (question, [(section, section.contents(analysis)) for section in sections])
            for question, sections in sections_by_question().items()
        ]

    def labelled_tables(self) -> list[tuple[str, pd.DataFrame]]:
        """(file name, rows with the device and environment) of every CSV file of the run."""
        return [
            (table.name, table.labelled(self.analysis))
            for _, sections in self._filled
            for section, contents in sections
            for table in section.tables(contents)
        ]

    @cached_property
    def questions(self) -> list[ChapterQuestion]:
        """The questions with what answers them, in order."""
        written = {
            section.key: ChapterSection(
                id=f"{self.id}-{section.key}",
                title=section.title,
                blocks=list(
                    section.blocks(contents, section_writer(self.analysis, section, self.id))
                ),
            )
            for _, sections in self._filled
            for section, contents in sections
        }
        return [
            ChapterQuestion(
                id=f"{self.id}-{question}",
                title=QUESTIONS[question],
                answer=answer.text,
                is_open=answer.is_open,
                figures=[
                    figure
                    for section, _ in sections
                    for figure in lead_figures(written[section.key].blocks, section.lead)
                ],
                sections=[
                    written[section.key] for section, _ in sections if written[section.key].blocks
                ],
            )
            for question, sections in self._filled
            for answering, contents in sections
            if answering.answer
            for answer in [answering.answer(contents)]
        ]

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

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What stands above the questions: sentences, numbers, checks and tables, by their name."""
        return {
            "verdict": verdict(self.analysis),
            "numbers": headline_numbers(self.analysis),
            "sentences": summary_sentences(self.analysis),
            "checks": all_checks(self.analysis),
            "tables": list(summary_tables(self.analysis, self.id)),
            "regime_tables": list(regime_tables(self.analysis, self.id)),
        }


def lead_figures(blocks: Sequence[Block], lead: Sequence[str]) -> Iterator[FigureBlock]:
    """The figures for the first page: of each op the first one that `lead` names, in order."""
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
