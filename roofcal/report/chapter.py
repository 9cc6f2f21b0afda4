"""The chapter of one run: its questions with their sections, and what the first page says of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofcal.report.checks import Check, all_checks
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import caption_words
from roofcal.report.data.provenance import environment_facts, table_command
from roofcal.report.kit.blocks import Block, FigureBlock, Table
from roofcal.report.kit.writer import OpSource, SectionWriter, figure_prefixes
from roofcal.report.page import sections_by_question
from roofcal.report.section import CsvTable, FilledSection, Section
from roofcal.report.summary import summary_sentences, summary_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterSection:
    """A section as the page shows it."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterQuestion:
    """A question, its answer in a sentence, and the sections that show why."""

    id: str
    title: str
    answer: str
    sections: Sequence[ChapterSection]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One device in one environment, ready for the template."""

    id: str
    name: str
    short: str
    origin: str
    facts: Sequence[tuple[str, str]]
    summary: Sequence[str]
    tables: Sequence[Table]
    checks: Sequence[Check]
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
            (question, [section.fill(analysis) for section in sections])
            for question, sections in sections_by_question()
        ]

    def tables(self) -> list[CsvTable]:
        """Every CSV file of the run."""
        filled = [section for _, sections in self._questions for section in sections]
        return [table for section in filled for table in section.tables()]

    def chapter(self, anchor: str, number: int) -> Chapter:
        """The chapter.

        Args:
            anchor: its id; ids in it begin with this.
            number: its place among the chapters, which tells its figures from those of others.
        """
        prefixes = figure_prefixes(number)
        environment = self.analysis.run.environment
        return Chapter(
            id=anchor,
            name=environment.device_name,
            short=environment.device,
            origin=self.analysis.run.origin,
            facts=environment_facts(environment),
            summary=summary_sentences(self.analysis),
            tables=list(summary_tables(self.analysis, anchor)),
            checks=all_checks(self.analysis),
            questions=[
                ChapterQuestion(
                    id=f"{anchor}-{question.key}",
                    title=question.title,
                    answer=_answer(sections),
                    sections=self._written(sections, anchor, prefixes),
                )
                for question, sections in self._questions
            ],
        )

    def _written(
        self, sections: Sequence[FilledSection[Any]], anchor: str, prefixes: Iterator[str]
    ) -> list[ChapterSection]:
        written = []
        for filled in sections:
            section = filled.section
            blocks = filled.blocks(section_writer(self.analysis, section, anchor, prefixes))
            if blocks:
                key = f"{anchor}-{section.key}"
                written.append(ChapterSection(id=key, title=section.title, blocks=blocks))
        return written


def section_writer(
    analysis: Analysis, section: Section[Any], anchor: str, prefixes: Iterator[str]
) -> SectionWriter:
    """What a section writes its blocks with.

    Args:
        analysis: the run.
        section: the section, for its captions.
        anchor: id of the chapter.
        prefixes: of the figures of the chapter.
    """

    def source_of(op: str) -> OpSource:
        return OpSource(
            csv=f"{analysis.device}_{op}.csv",
            command=table_command(analysis.run, op),
            words=caption_words(op),
        )

    return SectionWriter(
        anchor=anchor, prefixes=prefixes, captions=section.folder, source_of=source_of
    )


def _answer(sections: Sequence[FilledSection[Any]]) -> str:
    (answer,) = (text for section in sections if (text := section.answer()) is not None)
    return answer
