"""What one section of the report declares: `SECTION` in the `__init__.py` of its folder."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import FOLDER_OF_SECTIONS
from roofcal.report.data.provenance import DerivedTable, derived_table
from roofcal.report.kit.blocks import Block
from roofcal.report.kit.writer import SectionWriter

Contents = TypeVar("Contents")


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A table that stands beside the page as a CSV file.

    name         of the file; tables of one name, also of several runs, become one file
    labels_last  whether `device` and `environment_id` stand behind the frame's columns, as in tidy
                 frames; else they stand in front
    """

    name: str
    frame: pd.DataFrame
    labels_last: bool = field(default=False, kw_only=True)

    def labelled(self, analysis: Analysis) -> pd.DataFrame:
        """The frame with the device and environment that it is about."""
        labels = {"device": analysis.device, "environment_id": analysis.environment_id}
        frame = self.frame.assign(**labels)
        return frame if self.labels_last else frame[[*labels, *self.frame.columns]]


def filled_table(name: str, frame: pd.DataFrame) -> Iterator[CsvTable]:
    """The file of a frame; none for a frame without rows."""
    if len(frame):
        yield CsvTable(name, frame)


def derived_file(table: DerivedTable) -> Iterator[CsvTable]:
    """The file of a table that a stage derived, as it is; none for one without rows."""
    return filled_table(table.name, table.rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """The sentence that answers a question.

    is_open  whether the records cannot answer it; then `text` says why
    """

    text: str
    is_open: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Section(Generic[Contents]):
    """One section of the chapter of a run.

    title     its heading
    question  key of the question of roofcal/report/page.py that it helps to answer
    contents  what it shows of a run; computed once, for its blocks and its tables
    blocks    its tables, figures and sentences; a section without any is left out of the page
    tables    the CSV files that it publishes
    answer    what answers the question; one section of each question has one
    lead      keys of figures that may stand on the first page; of each op the first that is drawn
    key       its id in the page: the name of its folder, with `-` for `_`; page.py fills it in
    """

    title: str
    question: str
    contents: Callable[[Analysis], Contents]
    blocks: Callable[[Contents, SectionWriter], Iterable[Block]]
    tables: Callable[[Contents], Iterable[CsvTable]] = field(default=lambda _: (), kw_only=True)
    answer: Callable[[Contents], Answer] | None = field(default=None, kw_only=True)
    lead: tuple[str, ...] = field(default=(), kw_only=True)
    key: str = field(default="", kw_only=True)

    @property
    def folder(self) -> Path:
        """Where its code and its captions stand."""
        return FOLDER_OF_SECTIONS / self.key.replace("-", "_")


def derived_contents(
    name: str, labels: Sequence[str], numbers: Sequence[str]
) -> Callable[[Analysis], DerivedTable]:
    """The contents of a section that shows a file which a stage derived; see read_derived."""
    return lambda analysis: derived_table(analysis.run, name, labels, numbers)


def whole_run(analysis: Analysis) -> Analysis:
    """The contents of a section that shows tables of the analysis itself."""
    return analysis
