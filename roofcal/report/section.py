"""What one section of the report declares: `SECTION` in the `__init__.py` of its folder."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.derived import DerivedTable
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.writer import SectionWriter

FOLDER: Final = Path(__file__).parent / "sections"

Contents = TypeVar("Contents")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvTable:
    """A table that stands beside the page as a CSV file.

    name         of the file; tables of one name, also of several runs, become one file
    labels_last  whether `device` and `environment_id` stand behind the frame's columns, as in tidy
                 frames; else they stand in front
    """

    name: str
    frame: pd.DataFrame
    labels_last: bool = False

    def labelled(self, analysis: Analysis) -> pd.DataFrame:
        """The frame with the device and environment that it is about."""
        labels = {"device": analysis.device, "environment_id": analysis.environment_id}
        frame = self.frame.assign(**labels)
        return frame if self.labels_last else frame[[*labels, *self.frame.columns]]


def filled_table(name: str, frame: pd.DataFrame) -> Iterator[CsvTable]:
    """The file of a frame; none for a frame without rows."""
    if len(frame):
        yield CsvTable(name=name, frame=frame)


def derived_file(table: DerivedTable) -> Iterator[CsvTable]:
    """The file of a table that a stage derived, as it is; none for one without rows."""
    return filled_table(table.name, table.rows)


def _no_tables(_: Any) -> Iterable[CsvTable]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[Contents]):
    """One section of the chapter of a run.

    key       its id in the page, and the name of its folder (`_` there for `-` here)
    title     its heading
    question  key of the question of roofcal/report/page.py that it helps to answer
    contents  what it shows of a run; computed once, for its blocks and its tables
    blocks    its tables, figures and sentences; a section without any is left out of the page
    tables    the CSV files that it publishes
    answer    the sentence that answers the question; one section of each question has one
    """

    key: str
    title: str
    question: str
    contents: Callable[[Analysis], Contents]
    blocks: Callable[[Contents, SectionWriter], Iterable[Block]]
    tables: Callable[[Contents], Iterable[CsvTable]] = _no_tables
    answer: Callable[[Contents], str] | None = None

    @property
    def folder(self) -> Path:
        """Where its code and its captions stand."""
        return FOLDER / self.key.replace("-", "_")

    def fill(self, analysis: Analysis) -> "FilledSection[Contents]":
        """The section with what it shows of a run."""
        return FilledSection(section=self, contents=self.contents(analysis))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledSection(Generic[Contents]):
    """A section and what it shows of one run."""

    section: Section[Contents]
    contents: Contents

    def blocks(self, writer: SectionWriter) -> list[Block]:
        """See Section."""
        return list(self.section.blocks(self.contents, writer))

    def tables(self) -> Iterable[CsvTable]:
        """See Section."""
        return self.section.tables(self.contents)

    def answer(self) -> str | None:
        """See Section; None for a section that answers no question."""
        return self.section.answer(self.contents) if self.section.answer else None


def whole_run(analysis: Analysis) -> Analysis:
    """The contents of a section that shows tables of the analysis itself."""
    return analysis
