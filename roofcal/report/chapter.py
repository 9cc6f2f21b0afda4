"""The chapter of one run: its questions with their sections, and what the first page says of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import pandas as pd

from roofcal.report import summary
from roofcal.report.checks import all_checks, disturbances
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.cards import own_card_sentence
from roofcal.report.data.op_pages import caption_words
from roofcal.report.data.provenance import environment_facts, table_command
from roofcal.report.kit.blocks import Block, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.templates import read_caption
from roofcal.report.page import QUESTIONS, PageError, sections_by_question
from roofcal.report.section import Answer, CsvTable, Item, Section, tidy_file
from roofcal.report.shape_box import ShapeBox

_FEWEST_POINTS: Final = 10  # of a figure that is no sparse one


class ChapterSection(NamedTuple):
    """A section as the page shows it."""

    id: str
    title: str
    blocks: Sequence[Block]


class ChapterQuestion(NamedTuple):
    """A question with its Answer and sections; figures: of the first page, by section."""

    id: str
    title: str
    answer: str
    is_open: bool
    figures: Sequence[Sequence[Picture]]
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
        self.shape_box = ShapeBox(analysis)
        self._shown = {
            question: [(section, list(section.show(analysis))) for section in sections]
            for question, sections in sections_by_question().items()
        }

    def labelled_tables(self) -> list[tuple[str, pd.DataFrame]]:
        """(file name, rows with the device and environment) of every CSV file of the run."""
        return [
            (item.name, item.labelled(self.analysis))
            for sections in self._shown.values()
            for _, items in sections
            for item in items
            if isinstance(item, CsvTable)
        ]

    @cached_property
    def questions(self) -> list[ChapterQuestion]:
        """The questions with what answers them, in order."""
        return [self._question(*pair) for pair in self._shown.items()]

    def _question(self, key: str, shown: list[tuple[Section, list[Item]]]) -> ChapterQuestion:
        answers = [item for _, items in shown for item in items if isinstance(item, Answer)]
        if len(answers) != 1:
            raise PageError(f"question '{key}' has {len(answers)} answers: one section gives one")
        figures: list[list[Picture]] = []
        sections: list[ChapterSection] = []
        for section, items in shown:
            blocks = list(placed_blocks(section, items, self.analysis, self.id))
            if leading := _lead_figures(blocks, section.lead):
                figures.append(leading)
            if blocks:
                sections.append(ChapterSection(f"{self.id}-{section.key}", section.title, blocks))
        answer = answers[0]
        return ChapterQuestion(
            f"{self.id}-{key}", QUESTIONS[key], answer.text, answer.is_open, figures, sections
        )

    @property
    def answered(self) -> list[ChapterQuestion]:
        """The questions that the first page answers."""
        return [one for one in self.questions if one.sections and not one.is_open]

    @property
    def sections(self) -> list[ChapterSection]:
        """All sections of the chapter, in order."""
        return [section for question in self.questions for section in question.sections]

    @property
    def blocks(self) -> list[Block]:
        """All blocks of the chapter, in order."""
        return [block for section in self.sections for block in section.blocks]

    @property
    def figures(self) -> list[Picture]:
        """All figures of the chapter, in order."""
        return [block for block in self.blocks if isinstance(block, Picture)]

    @property
    def decision_line(self) -> str:
        """The decision on the first shape of the shape box, for a terminal."""
        decision, shape = self.shape_box.decision, self.shape_box.first_shape
        decided = " ".join(decision.sentences()) if decision else "no recipe can be ranked."
        return (
            f"For {shape['m']:,} tokens and a weight of {shape['n']:,} x {shape['k']:,}: {decided}"
        )

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What stands above the questions: sentences, numbers, checks and tables, by their name."""

        def placed(tables: Iterable[Table]) -> list[Table]:
            return [replace(table, id=f"{self.id}-{table.id}") for table in tables]

        comparison = ""  # whether a card of this machine is as fast as its model is published
        healthy = next(one for one in self.questions if one.id == f"{self.id}-healthy")
        if self.origin == "measured" and not healthy.is_open:
            own = {card for session in self.analysis.all_sessions for card in session.cards}
            comparison = f"{healthy.answer} {own_card_sentence(self.analysis.cards, own)}".rstrip()
        return {
            "verdict": summary.verdict(self.analysis),
            "numbers": summary.headline_numbers(self.analysis),
            "sentences": list(summary.summary_sentences(self.analysis)),
            "checks": all_checks(self.analysis),
            "comparison": comparison,
            "tables": placed(summary.summary_tables(self.analysis)),
            "regime_tables": placed(summary.regime_tables(self.analysis)),
        }


def placed_blocks(
    section: Section, items: Sequence[Item], analysis: Analysis, anchor: str
) -> Iterator[Block]:
    """The blocks of a section with their ids, which begin with `anchor`, captions and sources."""
    for item in items:
        if isinstance(item, Table):
            if len(item.frame):
                yield replace(item, id=f"{anchor}-{item.id}")
        elif isinstance(item, Picture):
            op = item.op
            title, caption = read_caption(section.folder / f"{item.key}.md", caption_words(op))
            yield replace(
                item,
                id=f"{anchor}-figure-{item.key}-{op}",
                title=title,
                caption=caption,
                source=item.source or tidy_file(analysis, op),
                command=item.command or table_command(analysis.run, op),
                alt=f"{item.alt} {item.facts}",
                points=f"{anchor}/{op}",
                records=f"{anchor}-points-{op}",
            )
        elif item is not None and not isinstance(item, CsvTable | Answer):
            yield item


def _lead_figures(blocks: Sequence[Block], lead: Sequence[str]) -> list[Picture]:
    """The figures for the first page: of each op the first one that `lead` names, in order.

    A figure of a few points stands there only where its section has no other.
    """
    figures = [block for block in blocks if isinstance(block, Picture) and block.key in lead]
    leading = [
        min(
            (figure for figure in figures if figure.op == op),
            key=lambda figure: lead.index(figure.key),
        )
        for op in dict.fromkeys(figure.op for figure in figures)
    ]
    full = [one for one in leading if len(one.tables["points"]) >= _FEWEST_POINTS]
    return full or leading[:1]
